package uniteddeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestUpdated: the condition does not say that Pods are updated if Pods are missing, if Pods must still be changed
// after a change of a patch, or if updated Pods have not become ready yet.
func TestUpdated(t *testing.T) {
	type text = [3]string // status, reason and message
	updated := text{"True", "UnitedDeploymentRevisionUpdated", "updated to revision web-1"}
	oneSubset := []string{"    - name: b\n      nodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [b]}]}\n", ""}
	noSubset := []string{"    subsets:\n    - name: a\n" + zoneA, "    subsets: []\n"}
	patched := in(subsetA, "patch: {metadata: {labels: {zone: x}}}")
	paused := []string{"spec:\n        selector", "spec:\n        updateStrategy: {rollingUpdate: {paused: true}}\n        selector"}
	outdated := func(w *v1beta1.CloneSet) { w.Status.UpdatedReplicas, w.Status.ReadyReplicas = 1, 4 }
	for _, c := range []struct {
		name   string
		edits  []string
		was    string // the reason before
		at     string // the current revision
		have   func(*v1beta1.CloneSet)
		notYet int // Pods that are not ready
		want   text
	}{
		{"UD-40 updated", nil, "UnitedDeploymentRevisionUpdated", "web-1", nil, 0, updated},
		{"UD-38 under way", nil, "", "web-0", nil, 5, text{"False", "UnitedDeploymentRevisionUpdating", "updating to revision web-1"}},
		{
			"paused", nil, "", "web-0", func(w *v1beta1.CloneSet) {
				w.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{Paused: true}
			}, 5,
			text{"False", "UnitedDeploymentRevisionUpdating", "updating to revision web-1; updates are paused in the workloads of subsets a"},
		},
		{"a pause of what is updated", paused, "", "web-1", nil, 0, updated},
		{"no subset", noSubset, "UnitedDeploymentRevisionUpdated", "web-1", nil, 0, text{"False", "NoSubsets", "none of 5 Pods is at revision web-1: spec.topology.subsets is empty; add a subset"}},
		{"no subset, and no Pods wanted", all(noSubset, []string{"replicas: 5", "replicas: 0"}), "", "web-1", nil, 0, updated},
		{"another patch", patched, "UnitedDeploymentRevisionUpdated", "web-1", nil, 0, text{"False", "SubsetsUpdating", "updating subsets: a (Pods: 5, not updated: 0, not ready: 0)"}},
		{"Pods follow a patch", nil, "UnitedDeploymentRevisionUpdated", "web-1", outdated, 0, text{"False", "SubsetsUpdating", "updating subsets: a (Pods: 5, not updated: 4, not ready: 1)"}},
		{
			"all Pods follow a patch, the last is not ready", nil, "SubsetsUpdating", "web-1", func(w *v1beta1.CloneSet) { w.Status.ReadyReplicas = 4 }, 1,
			text{"False", "SubsetsUpdating", "updating subsets: a (Pods: 5, not updated: 0, not ready: 1)"},
		},
		{
			"the workload has not seen the patch", nil, "SubsetsUpdating", "web-1", func(w *v1beta1.CloneSet) { w.Generation = 3 }, 0,
			text{"False", "SubsetsUpdating", "updating subsets: a (Pods: 5, not updated: 0, not ready: 0)"},
		},
		{"all Pods have followed the patch", nil, "SubsetsUpdating", "web-1", nil, 0, updated},
		{"a Pod that is not ready any more", nil, "UnitedDeploymentRevisionUpdated", "web-1", nil, 1, updated},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, all(oneSubset, c.edits)...)
			if c.was != "" {
				ud.Status.Conditions = v1beta1.Conditions{{Type: apps.ConditionUnitedDeploymentUpdated, Status: "True", Reason: c.was}}
			}
			have := owned("1", "a", 5, 0)
			have.Labels[apps.LabelSubsetRevision], have.Spec.Replicas = "web-1", new(int32(5))
			have.Status.Replicas, have.Status.UpdatedReplicas = 5, 5
			if c.have != nil {
				c.have(have)
			}
			var pods []*corev1.Pod
			for i := range 5 {
				pods = append(pods, podAt("p", "web-1", i >= c.notYet, false))
			}
			o := &observation{
				ud: ud, settings: mustResolve(t, ud), revision: "web-1", workloads: []workload{have},
				pods: func(types.UID) []*corev1.Pod { return pods },
			}
			got := o.isUpdated(decide(o), c.at)
			if diff := cmp.Diff(c.want, text{string(got.Status), got.Reason, got.Message}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
