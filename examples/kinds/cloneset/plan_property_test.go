package cloneset_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// class says whether the API server or this library refuses a change of a template.
type class int

const (
	deliverable class = iota // can be done in place
	immutable                // the API server refuses the change on a live Pod
	byPolicy                 // the library refuses: the container would not get what the template says
)

// mutation changes a single part of a template.
type mutation struct {
	path  string // every refusal must name the path
	class class
	apply func(r *rand.Rand, t *corev1.PodTemplateSpec)
}

func mutations() []mutation {
	named := func(t *corev1.PodTemplateSpec, name string) *corev1.Container {
		i := slices.IndexFunc(t.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		return &t.Spec.Containers[i]
	}
	app := func(t *corev1.PodTemplateSpec) *corev1.Container { return named(t, "app") }
	log := func(t *corev1.PodTemplateSpec) *corev1.Container { return named(t, "log") }
	word := func(r *rand.Rand) string { return fmt.Sprintf("v%d", r.IntN(1000)) }
	quantity := func(r *rand.Rand, unit string) resource.Quantity {
		return resource.MustParse(fmt.Sprintf("%d%s", 10+r.IntN(90), unit))
	}
	return []mutation{
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { app(t).Image = "app:" + word(r) }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { log(t).Image = "log:" + word(r) }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { t.Spec.InitContainers[1].Image = "proxy:" + word(r) }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { t.Labels["l"] = word(r) }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { t.Annotations["a-"+word(r)] = word(r) }},
		{"", deliverable, func(_ *rand.Rand, t *corev1.PodTemplateSpec) { delete(t.Annotations, "gone") }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { app(t).Resources.Requests["cpu"] = quantity(r, "m") }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { app(t).Resources.Requests["memory"] = quantity(r, "Mi") }},
		{"", deliverable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { app(t).Resources.Limits["cpu"] = quantity(r, "") }},
		{"spec.containers[app].env", immutable, func(r *rand.Rand, t *corev1.PodTemplateSpec) {
			app(t).Env = append(app(t).Env, corev1.EnvVar{Name: "E" + word(r), Value: "1"})
		}},
		{"spec.containers[app].command", immutable, func(r *rand.Rand, t *corev1.PodTemplateSpec) { app(t).Command = []string{word(r)} }},
		{"spec.containers[log].livenessProbe", immutable, func(_ *rand.Rand, t *corev1.PodTemplateSpec) {
			log(t).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		}},
		{"spec.nodeSelector", immutable, func(r *rand.Rand, t *corev1.PodTemplateSpec) {
			t.Spec.NodeSelector = map[string]string{"n": word(r)}
		}},
		{"spec.volumes", immutable, func(r *rand.Rand, t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "v" + word(r), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}},
		{"spec.terminationGracePeriodSeconds", immutable, func(_ *rand.Rand, t *corev1.PodTemplateSpec) {
			t.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7)
		}},
		{"spec.containers", immutable, func(_ *rand.Rand, t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "more", Image: "more:v1"})
		}},
		{"spec.containers", immutable, func(_ *rand.Rand, t *corev1.PodTemplateSpec) { slices.Reverse(t.Spec.Containers) }},
		{"spec.initContainers[setup].image", byPolicy, func(r *rand.Rand, t *corev1.PodTemplateSpec) { t.Spec.InitContainers[0].Image = "setup:" + word(r) }},
		{"spec.tolerations", byPolicy, func(r *rand.Rand, t *corev1.PodTemplateSpec) {
			t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: word(r), Operator: corev1.TolerationOpExists})
		}},
		{"spec.containers[log].resources", byPolicy, func(r *rand.Rand, t *corev1.PodTemplateSpec) {
			log(t).Resources.Requests = corev1.ResourceList{"cpu": quantity(r, "m")}
		}},
	}
}

func propertyTemplate() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "p"}, Annotations: map[string]string{"gone": "1"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}},
			InitContainers: []corev1.Container{
				{Name: "setup", Image: "setup:v1"},
				{Name: "proxy", Image: "proxy:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{
				{Name: "app", Image: "app:v1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("5m"), "memory": resource.MustParse("5Mi")},
					Limits:   corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("1Gi")},
				}},
				{Name: "log", Image: "log:v1"},
			},
		},
	}
}

// TestPlanAgainstAPIServer makes random changes of a template. If Plan calls a change possible, the API server must
// accept the patches of the running Pod, and the Pod must then equal the new template. If Plan calls a change
// impossible, Plan must name each field that prevents the update, and the API server must refuse changes of immutable
// fields.
func TestPlanAgainstAPIServer(t *testing.T) {
	t.Parallel()
	c := idle(t)
	gates := apps.DefaultGates()
	gates[apps.GateInPlaceWorkloadVerticalScaling] = true
	gates[apps.GateInPlaceUpdateEnvFromMetadata] = false
	updater, err := kruise.InPlace(gates, apps.ReservedPodLabels())
	if err != nil {
		t.Fatal(err)
	}
	const cases = 120
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 1))
		from := propertyTemplate()
		to := from.DeepCopy()
		var chosen []mutation
		all := mutations()
		for _, i := range r.Perm(len(all))[:1+r.IntN(3)] {
			all[i].apply(r, to)
			chosen = append(chosen, all[i])
		}
		pod := c.runPod(fmt.Sprintf("p-%d", seed), from)
		plan := updater.Plan(from, to)
		if plan.Possible() {
			c.checkPossible(seed, updater, plan, pod, to, chosen)
		} else {
			c.checkImpossible(seed, plan, pod, chosen)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(from, to))
		}
	}
}

// runPod creates a Pod from a template and waits until it runs.
func (c *cluster) runPod(name string, template *corev1.PodTemplateSpec) *corev1.Pod {
	c.t.Helper()
	t := template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Namespace, pod.Name = c.namespace, name
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if !podstate.IsTrue(pod, corev1.ContainersReady) {
			return fmt.Errorf("Pod %s is in phase %s", name, pod.Status.Phase)
		}
		return nil
	})
	return pod
}

func (c *cluster) checkPossible(seed uint64, updater *inplaceupdate.Updater, plan *inplaceupdate.Plan, pod *corev1.Pod, to *corev1.PodTemplateSpec, chosen []mutation) {
	c.t.Helper()
	for _, m := range chosen {
		if m.class != deliverable {
			c.t.Errorf("seed %d: a change of %s is called possible", seed, m.path)
		}
	}
	change, err := updater.Start(pod, plan, inplaceupdate.Target{Revision: "r", Labels: map[string]string{}}, time.Now())
	if err != nil {
		c.t.Errorf("seed %d: %v", seed, err)
		return
	}
	if _, err := podwrite.Send(c.t.Context(), c, pod, time.Now(), change); err != nil {
		c.t.Errorf("seed %d: the API server does not take what Plan calls possible: %v", seed, err)
		return
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		step, err := updater.Next(pod, time.Now())
		if err == nil && !step.Complete {
			err = step.Waiting
		}
		return err
	})
	if diff := cmp.Diff(deliveredOf(&to.ObjectMeta, &to.Spec), deliveredOf(&pod.ObjectMeta, &pod.Spec)); diff != "" {
		c.t.Errorf("seed %d: the live Pod differs from the template (-template +Pod):\n%s", seed, diff)
	}
}

// deliveredOf returns the fields of a Pod that can change in place, in a comparable form.
func deliveredOf(meta *metav1.ObjectMeta, spec *corev1.PodSpec) map[string]string {
	out := map[string]string{}
	for key, value := range meta.Labels {
		if !strings.Contains(key, "/") { // the API server adds topology labels of its own
			out["label "+key] = value
		}
	}
	for key, value := range meta.Annotations {
		if key == "gone" || strings.HasPrefix(key, "a-") {
			out["annotation "+key] = value
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			out["image "+containers[i].Name] = containers[i].Image
			for name, q := range containers[i].Resources.Requests {
				out[fmt.Sprintf("request %s %s", containers[i].Name, name)] = q.String()
			}
			for name, q := range containers[i].Resources.Limits {
				out[fmt.Sprintf("limit %s %s", containers[i].Name, name)] = q.String()
			}
		}
	}
	return out
}

func (c *cluster) checkImpossible(seed uint64, plan *inplaceupdate.Plan, pod *corev1.Pod, chosen []mutation) {
	c.t.Helper()
	hard := 0
	for _, m := range chosen {
		if m.class == deliverable {
			continue
		}
		hard++
		if !slices.ContainsFunc(plan.Blocking, func(r reason.Reason) bool { return strings.HasPrefix(r.Path, m.path) }) {
			c.t.Errorf("seed %d: %s changed and is not among the reasons %v", seed, m.path, plan.Blocking)
		}
		if m.class == byPolicy {
			continue
		}
		changed := pod.DeepCopy()
		template := corev1.PodTemplateSpec{ObjectMeta: changed.ObjectMeta, Spec: changed.Spec}
		m.apply(rand.New(rand.NewPCG(seed, 2)), &template)
		changed.Spec = template.Spec
		if err := c.Update(c.t.Context(), changed); !apierrors.IsInvalid(err) {
			c.t.Errorf("seed %d: %s is called immutable, and the API server says %v", seed, m.path, err)
		}
	}
	if hard == 0 {
		c.t.Errorf("seed %d: only deliverable fields changed, and Plan says %v", seed, plan.Blocking)
	}
}
