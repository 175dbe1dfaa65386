package ephemeraljob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
)

// first edits the first container.
func first(edit func(*corev1.EphemeralContainer)) edit {
	return func(j *v1alpha1.EphemeralJob) { edit(&j.Spec.Template.EphemeralContainers[0]) }
}

func TestValidate(t *testing.T) {
	at := func(rest string) string { return "spec.template.ephemeralContainers[0]." + rest }
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name string
		edit edit
		want []string
	}{
		{"EJ-1 valid", func(*v1alpha1.EphemeralJob) {}, nil},
		{"EJ-1 an empty list passes", containers(), nil},
		{"EJ-1 any target", first(func(c *corev1.EphemeralContainer) { c.TargetContainerName = "?" }), nil},
		{"EJ-1 what a container may have", first(func(c *corev1.EphemeralContainer) {
			c.Command, c.Args, c.WorkingDir, c.TTY, c.Stdin, c.StdinOnce, c.TerminationMessagePath = []string{"a"}, []string{"b"}, "/", true, true, true, "/x"
			c.Env, c.EnvFrom = []corev1.EnvVar{{Name: "A"}}, []corev1.EnvFromSource{{}}
			c.VolumeMounts, c.VolumeDevices = []corev1.VolumeMount{{Name: "a", MountPath: "/a"}}, []corev1.VolumeDevice{{Name: "a"}}
			c.SecurityContext = &corev1.SecurityContext{}
		}), nil},
		{"EJ-1 no name", containers(""), []string{at("name: Required value")}},
		{"EJ-1 no DNS label", containers("A.b"), []string{at("name: Invalid value")}},
		{"EJ-1 a name twice", containers("a", "a"), []string{"spec.template.ephemeralContainers[1].name: Duplicate value"}},
		{"EJ-1 no image", first(func(c *corev1.EphemeralContainer) { c.Image = "" }), []string{at("image: Required value")}},
		{"EJ-1 a space around the image", first(func(c *corev1.EphemeralContainer) { c.Image = "a " }), []string{at("image: Invalid value")}},
		{"EJ-1 no policies", first(func(c *corev1.EphemeralContainer) { c.ImagePullPolicy, c.TerminationMessagePolicy = "", "" }), []string{
			at("imagePullPolicy: Required value"), at("terminationMessagePolicy: Required value"),
		}},
		{"EJ-1 other policies", first(func(c *corev1.EphemeralContainer) { c.ImagePullPolicy, c.TerminationMessagePolicy = "x", "y" }), []string{
			at("imagePullPolicy: Unsupported value"), at("terminationMessagePolicy: Unsupported value"),
		}},
		{"EJ-1 forbidden", first(func(c *corev1.EphemeralContainer) {
			c.Ports, c.ResizePolicy, c.RestartPolicy, c.RestartPolicyRules = []corev1.ContainerPort{{}}, []corev1.ContainerResizePolicy{{}}, &always, []corev1.ContainerRestartRule{{}}
			c.Resources.Claims, c.Lifecycle = []corev1.ResourceClaim{{}}, &corev1.Lifecycle{}
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = &corev1.Probe{}, &corev1.Probe{}, &corev1.Probe{}
			c.VolumeMounts = []corev1.VolumeMount{{SubPath: "a"}, {SubPathExpr: "b"}}
		}), []string{
			at("ports: Forbidden"), at("resources: Forbidden"), at("resizePolicy: Forbidden"), at("restartPolicy: Forbidden"), at("restartPolicyRules: Forbidden"),
			at("livenessProbe: Forbidden"), at("readinessProbe: Forbidden"), at("startupProbe: Forbidden"), at("lifecycle: Forbidden"),
			at("volumeMounts[0].subPath: Forbidden"), at("volumeMounts[1].subPathExpr: Forbidden"),
		}},
		{"too many containers", func(j *v1alpha1.EphemeralJob) {
			j.Spec.Template.EphemeralContainers = make([]corev1.EphemeralContainer, 10_000)
		}, []string{"spec.template.ephemeralContainers: Too many"}},
		{"EJ-60 an empty selector", selector(&metav1.LabelSelector{}), nil},
		{"an invalid selector", selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}), []string{
			"spec.selector.matchExpressions[0].operator: Invalid value",
		}},
		{"negative numbers", func(j *v1alpha1.EphemeralJob) {
			replicas(-1)(j)
			parallelism(-1)(j)
			deadline(-1)(j)
			ttl(-1)(j)
		}, []string{
			"spec.replicas: Invalid value", "spec.parallelism: Invalid value", "spec.activeDeadlineSeconds: Invalid value", "spec.ttlSecondsAfterFinished: Invalid value",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := job(c.edit)
			if diff := cmp.Diff(c.want, begins(validateSpec(obj))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := validateUpdate(obj, obj.DeepCopy()); len(got) > 0 {
				t.Errorf("what is stored keeps it from being updated: %v", got)
			}
		})
	}
	if got := begins(validateUpdate(job(replicas(-1)), job())); len(got) != 1 {
		t.Errorf("an update with a new problem: %v", got)
	}
}

// TestUsable: the controller works with all values of a spec that OpenKruise stores, except values that the API
// server would refuse in every Pod.
func TestUsable(t *testing.T) {
	for _, c := range []struct {
		name string
		edit edit
		want bool
	}{
		{"EJ-1 no policies", first(func(c *corev1.EphemeralContainer) { c.ImagePullPolicy, c.TerminationMessagePolicy = "", "" }), true},
		{"negative numbers", func(j *v1alpha1.EphemeralJob) { replicas(-1)(j); parallelism(-1)(j); deadline(-1)(j); ttl(-1)(j) }, true},
		{"EJ-8 an empty template", containers(), false},
		{"EJ-1 no image", first(func(c *corev1.EphemeralContainer) { c.Image = "" }), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s := settingsOf(job(c.edit)); (s.Problems == nil) != c.want {
				t.Errorf("usable %v, want %v: %v", !c.want, c.want, s.Problems)
			}
		})
	}
}

// begins returns the errors without values.
func begins(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Field+": "+err.Type.String())
	}
	return out
}
