package workloadspread

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestGivesBack: the review of an eviction does not free the Pod's place in the subset, because a PodDisruptionBudget
// may refuse the eviction again and again.
func TestGivesBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		review guard.Review
		want   bool
	}{
		{"WS-27 a deletion", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Delete}, true},
		{"an eviction", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Evict}, false},
		{"a dry run", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Delete, DryRun: true}, false},
		{"an update", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Update}, false},
		{"no Pod", guard.Review{Operation: disruption.Delete}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := givesBack(&c.review); got != c.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// TestLateRelease: if a process is slow, another request may delete the Pod, and the controller's count may free the
// Pod's place, before the process frees the place. The place must not be freed twice.
func TestLateRelease(t *testing.T) {
	for _, c := range []struct {
		name string
		// verb is the verb of the request before which the Pod is deleted and the Pods are counted; empty means
		// never.
		verb, resource string
		replaced       bool // true if a Pod of the same name is created at once
		counted        int32
		deleting       []string
	}{
		{name: "WS-27 the Pod is there", counted: 3, deleting: []string{"web-0"}},
		{name: "WS-27 deleted before the process asks for the Pod", verb: "get", resource: "pods", counted: 2},
		{name: "WS-27 deleted before the process writes", verb: "patch", resource: "workloadspreads", counted: 2},
		{name: "WS-27 deleted and replaced", verb: "patch", resource: "workloadspreads", replaced: true, counted: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHurry(t, 4)
			pod := controlled(&corev1.Pod{ObjectMeta: inShop("web-0")}, h.owner, "Deployment").(*corev1.Pod)
			pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
			pod.Annotations = map[string]string{apps.AnnotationMatchedWorkloadSpread: mark{Name: "web", Subset: "a"}.text()}
			h.create(true, pod)
			count := func(replicas int32) {
				h.version()
				h.spread.Status.VersionedSubsetStatuses = ledger{apps.SubsetVersionIgnored: {{Name: "a", Replicas: replicas, MissingReplicas: 4 - replicas}, {Name: "b", MissingReplicas: -1}}}
				h.must(h.user.Status().Update(t.Context(), h.spread))
			}
			count(3)
			h.deliver()
			h.office.before = func(call faultapi.Call) {
				if call.Verb != c.verb || call.Resource.Resource != c.resource {
					return
				}
				h.office.before = nil
				h.must(h.user.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)))
				if c.replaced {
					h.must(h.user.Create(t.Context(), &corev1.Pod{ObjectMeta: inShop("web-0"), Spec: pod.Spec}))
				}
				count(2)
			}
			h.must(h.webhook.giveBack(t.Context(), h.live, pod.DeepCopy()))
			h.version()
			got := h.spread.Status.VersionedSubsetStatuses[apps.SubsetVersionIgnored][0]
			if diff := cmp.Diff(c.deleting, slices.Collect(maps.Keys(got.DeletingPods))); diff != "" || got.Replicas != c.counted {
				t.Errorf("%+v, want %d Pods, and deletions %q", got, c.counted, c.deleting)
			}
		})
	}
}
