package inplaceupdate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
)

// operatorKeys is the configuration of an operator with the label "revision" and the annotation "since".
func operatorKeys() *inplaceupdate.Updater {
	return newUpdater(func(c *inplaceupdate.Config) { c.Keys.Reserved = []string{"revision", "since"} })
}

// TestReservedKeys: a template's values of the operator's own keys do not change a Pod.
func TestReservedKeys(t *testing.T) {
	reads := env(0, fromLabel("REVISION", "revision"), fromAnnotation("SINCE", "since"), fromAnnotation("STATE", stateKey))
	for _, tc := range []struct {
		name     string
		from, to *template
		want     podpatch.Change
	}{
		{"a label is added", newTemplate(), newTemplate(label("revision", "mine")), podpatch.Change{}},
		{"a label is removed", newTemplate(label("revision", "mine")), newTemplate(), podpatch.Change{}},
		{"an annotation of the operator's", newTemplate(), newTemplate(annotation("since", "today")), podpatch.Change{}},
		{"annotations of this package", newTemplate(), newTemplate(annotation(stateKey, "{"), annotation(graceKey, "{"), annotation(oldState, "{"), annotation(oldGrace, "{"), annotation(metaKey, "{")), podpatch.Change{}},
		{"a container reads them", newTemplate(reads), newTemplate(reads, label("revision", "mine"), annotation("since", "today"), annotation(stateKey, "{")), podpatch.Change{}},
		{"others beside them", newTemplate(label("revision", "mine")), newTemplate(label("revision", "yours"), label("x", "1"), annotation("y", "2")), podpatch.Change{Labels: keys("x", "1"), Annotations: keys("y", "2")}},
		{"a label that is named as an annotation of this package", newTemplate(), newTemplate(label(stateKey, "1")), podpatch.Change{Labels: keys(stateKey, "1")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater := operatorKeys()
			plan := updater.Plan(tc.from, tc.to)
			got := podpatch.Change{Labels: plan.Labels, Annotations: plan.Annotations}
			if len(got.Labels) == 0 {
				got.Labels = nil
			}
			if len(got.Annotations) == 0 {
				got.Annotations = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(plan.RefMetadata) > 0 || !plan.Possible() {
				t.Errorf("blocking %v, read by containers %v, delivered (-want +got):\n%s", plan.Blocking, plan.RefMetadata, diff)
			}
			// As sent by an operator, with the operator's own label.
			change := mustStart(t, updater, newPod(tc.from), tc.from, tc.to, toward("2", 0), now)
			if _, err := podpatch.Merge(newPod(tc.from), now, change, podpatch.Change{Labels: keys("revision", "web-2")}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidateTemplate(t *testing.T) {
	for _, tc := range []struct {
		name     string
		template *template
		want     []string
	}{
		{"nothing", newTemplate(label("x", "1"), annotation("y", "2")), nil},
		{"an empty template", &template{}, nil},
		{
			"all of it", newTemplate(label("revision", "mine"), annotation("since", "today"), annotation(stateKey, "{"), annotation(oldGrace, "{")),
			[]string{
				"ReservedKey metadata.labels[revision]", "ReservedKey metadata.annotations[" + stateKey + "]", "ReservedKey metadata.annotations[since]",
				"ReservedKey metadata.annotations[" + oldGrace + "]",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := operatorKeys().ValidateTemplate(tc.template)
			if diff := cmp.Diff(tc.want, codesAndPaths(list)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			for _, why := range list {
				if why.New == "" || why.Remedy == "" || why.Detail == "" {
					t.Errorf("says too little: %+v", why)
				}
			}
			pod := &corev1.Pod{ObjectMeta: *tc.template.ObjectMeta.DeepCopy()}
			operatorKeys().StripReserved(&pod.ObjectMeta)
			if left := operatorKeys().ValidateTemplate(&template{ObjectMeta: pod.ObjectMeta}); len(left) > 0 || len(pod.Labels) < len(tc.template.Labels)-1 {
				t.Errorf("a Pod made of it has %v %v", pod.Labels, pod.Annotations)
			}
		})
	}
}

// TestAnnotationsThatCannotChange: annotations kept by ValidatePodSpecificAnnotationUpdates of Kubernetes 1.36.
func TestAnnotationsThatCannotChange(t *testing.T) {
	const appArmor, mirror = "container.apparmor.security.beta.kubernetes.io/app", "kubernetes.io/config.mirror"
	for _, tc := range []struct {
		name     string
		from, to *template
		want     []string
	}{
		{"added", newTemplate(), newTemplate(annotation(appArmor, "unconfined")), []string{"ImmutableField metadata.annotations[" + appArmor + "]"}},
		{"changed", newTemplate(annotation(appArmor, "runtime/default")), newTemplate(annotation(appArmor, "unconfined")), []string{"ImmutableField metadata.annotations[" + appArmor + "]"}},
		{"removed", newTemplate(annotation(appArmor, "runtime/default")), newTemplate(), []string{"ImmutableField metadata.annotations[" + appArmor + "]"}},
		{"left alone", newTemplate(annotation(appArmor, "runtime/default")), newTemplate(annotation(appArmor, "runtime/default"), annotation("x", "1")), nil},
		{"a mirror Pod's, and both sorted", newTemplate(), newTemplate(annotation(mirror, "x"), annotation(appArmor, "unconfined")), []string{"ImmutableField metadata.annotations[" + appArmor + "]", "ImmutableField metadata.annotations[" + mirror + "]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, codesAndPaths(newUpdater().Plan(tc.from, tc.to).Blocking)); diff != "" {
				t.Errorf("blocking (-want +got):\n%s", diff)
			}
		})
	}
}
