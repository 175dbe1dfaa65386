package containerrecreaterequest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest"
)

// TestCacheIsBounded: a Node cannot fill the manager's memory with the statuses of its requests, and the cache keeps
// the fields that the controller reads.
func TestCacheIsBounded(t *testing.T) {
	plain := &object{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "u", ResourceVersion: "7", Finalizers: []string{"f"}, Labels: map[string]string{"a": "b"}}}
	plain.Spec.PodName, plain.Spec.Containers = "web-0", []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}
	plain.Status = v1beta1.ContainerRecreateRequestStatus{
		Phase: "Recreating", Message: "m",
		ContainerRecreateStates: []v1beta1.ContainerRecreateRequestContainerRecreateState{{Name: "app", Phase: "Recreating", Message: "stopping a"}},
		ContainerStatusSnapshot: []v1beta1.ContainerRecreateRequestContainerStatus{{Name: "app", Ready: true, ContainerID: "c"}},
		Conditions:              []metav1.Condition{{Type: apps.ConditionPreRecreateGrace, Status: "True"}},
	}
	huge := plain.DeepCopy()
	huge.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 10_000)}}
	for i := range 10_000 {
		name := fmt.Sprint("stranger-", i)
		huge.Status.ContainerRecreateStates = append(huge.Status.ContainerRecreateStates, v1beta1.ContainerRecreateRequestContainerRecreateState{Name: name})
		huge.Status.ContainerStatusSnapshot = append(huge.Status.ContainerStatusSnapshot, v1beta1.ContainerRecreateRequestContainerStatus{Name: name})
		huge.Status.Conditions = append(huge.Status.Conditions, metav1.Condition{Type: name})
	}
	long := plain.DeepCopy()
	long.Status.Message = strings.Repeat("x", 1<<20)
	long.Status.ContainerRecreateStates[0].Message = strings.Repeat("x", 1<<20)
	keep := containerrecreaterequest.Row().Cached
	if len(keep) != 1 {
		t.Fatalf("%d types are kept in part", len(keep))
	}
	for name, found := range map[string]*object{"plain": plain, "huge": huge} {
		kept := &object{}
		keep[0].Keep(kept, found.DeepCopy())
		if diff := cmp.Diff(plain, kept); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if c := cap(kept.Status.ContainerRecreateStates) + cap(kept.Status.ContainerStatusSnapshot) + cap(kept.Status.Conditions); c > 100 {
			t.Errorf("%s: memory for %d entries", name, c)
		}
	}
	kept := &object{}
	keep[0].Keep(kept, long)
	if raw, err := json.Marshal(kept); err != nil || len(raw) > 4<<10 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}
