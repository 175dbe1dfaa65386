package uniteddeployment

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestStatus checks the numbers, revisions and conditions in the status.
func TestStatus(t *testing.T) {
	condition := func(name string, status corev1.ConditionStatus, why, message string) v1beta1.Condition {
		return v1beta1.Condition{Type: name, Status: status, Reason: why, Message: message}
	}
	updated := condition(apps.ConditionUnitedDeploymentUpdated, "True", apps.ReasonRevisionUpdated, "updated to revision web-1")
	updating := condition(apps.ConditionUnitedDeploymentUpdated, "False", apps.ReasonRevisionUpdating, "updating to revision web-1")
	provisioned, followed := condition(apps.ConditionSubsetProvisioned, "True", "", ""), condition(apps.ConditionSubsetUpdated, "True", "", "")
	for _, c := range []struct {
		name    string
		edits   []string
		was     string // the current revision
		ready   bool
		failure string
		done    outcome
		current string
		want    v1beta1.Conditions
	}{
		{"UD-40 the first pass", nil, "", false, "", outcome{provisioned: true}, "web-1", v1beta1.Conditions{updated, provisioned, followed}},
		{"UD-38 under way", nil, "web-0", false, "", outcome{}, "web-0", v1beta1.Conditions{updating, followed}},
		{"UD-38 done", nil, "web-0", true, "", outcome{}, "web-1", v1beta1.Conditions{updated, followed}},
		{"UD-40 creation failed", nil, "web-1", true, "", outcome{provision: errors.New("no")}, "web-1", v1beta1.Conditions{
			updated, condition(apps.ConditionSubsetProvisioned, "False", "Error", "no"), followed,
		}},
		{"UD-40 an update failed", nil, "web-1", true, "", outcome{update: errors.New("no")}, "web-1", v1beta1.Conditions{updated, condition(apps.ConditionSubsetUpdated, "False", "Error", "no")}},
		{"UD-40 a subset fails", nil, "web-1", true, "quota", outcome{}, "web-1", v1beta1.Conditions{
			updated, followed, condition(apps.ConditionSubsetFailure, "True", "Error", "1: quota"),
		}},
		{"replicas without a place", all(in(subsetA, "maxReplicas: 1"), in(subsetB, "maxReplicas: 1")), "web-1", true, "", outcome{}, "web-1", v1beta1.Conditions{
			updated, followed,
			condition(apps.ConditionOddSpec, "True", "OddValue", "spec.topology.subsets: 2: must have a subset without maxReplicas, for the Pods that are left"),
			condition(apps.ConditionReplicasLimited, "True", "MaxReached", "spec.topology.subsets[a].maxReplicas: 1; raise the maximum, or add a subset without; "+
				"MaxReached: spec.topology.subsets[b].maxReplicas: 1; raise the maximum, or add a subset without"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, c.edits...)
			ud.Generation, ud.Status.CurrentRevision = 7, c.was
			have := owned("1", "a", 4, 0)
			have.Status.Replicas, have.Status.UpdatedReplicas = 5, 5
			if c.failure != "" {
				have.Status.Conditions = v1beta1.Conditions{condition(apps.ConditionFailedScale, "True", "", c.failure)}
			}
			pods := []*corev1.Pod{podAt("old", "web-0", true, false)}
			for range 5 {
				pods = append(pods, podAt("p", "web-1", c.ready, false))
			}
			o := &observation{
				ud: ud, settings: mustResolve(t, ud), revision: "web-1", workloads: []workload{have},
				pods: func(types.UID) []*corev1.Pod { return pods },
			}
			got := nextStatus(o, decide(o), c.done, new(int32(2)))
			ready := int32(0)
			if c.ready {
				ready = 5
			}
			want := v1beta1.UnitedDeploymentStatus{
				ObservedGeneration: 7, Replicas: 5, ReadyReplicas: 4, UpdatedReplicas: 5, UpdatedReadyReplicas: ready, CollisionCount: new(int32(2)), CurrentRevision: c.current,
				UpdatedRevision: "web-1", LabelSelector: "app=web", Conditions: c.want,
			}
			ignored := cmp.Options{cmpopts.IgnoreFields(v1beta1.Condition{}, "LastTransitionTime"), cmpopts.IgnoreFields(v1beta1.UnitedDeploymentStatus{}, "SubsetStatuses")}
			if diff := cmp.Diff(want, got, ignored); diff != "" {
				t.Errorf("UD-39 (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEvents: events have the names by which users of OpenKruise filter events.
func TestEvents(t *testing.T) {
	got := []string{
		apps.EventFailedRevisionProvision, apps.EventFailedFindSubsets, apps.EventFailedDeleteDuplicatedSubsets, apps.EventFailedSpecifySubsetReplicas,
		apps.EventFailedUpdateSubset, apps.EventSuccessfulUpdateSubset,
	}
	want := []string{
		"FailedRevisionProvision", "FailedFindSubsets", "FailedDeleteDuplicatedSubsets", "Failed SpecifySubsetReplicas", "FailedUpdateSubset", "SuccessfulUpdateSubset",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
