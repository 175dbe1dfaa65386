package onnode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// request returns a request for the container app of Pod u1, created a number of seconds after a fixed start.
func request(name string, created int, phase v1beta1.ContainerRecreateRequestPhase, change ...func(*v1beta1.ContainerRecreateRequest)) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{apps.LabelRequestPodUID: "u1"},
			CreationTimestamp: metav1.NewTime(begin.Add(time.Duration(created) * time.Second)),
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: "web", Containers: []v1beta1.ContainerRecreateRequestContainer{{
			Name: "app", StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://a0"},
		}}},
		Status: v1beta1.ContainerRecreateRequestStatus{Phase: phase},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func TestTurn(t *testing.T) {
	type R = v1beta1.ContainerRecreateRequest
	ended := func(r *R) { r.Status.CompletionTime = &metav1.Time{Time: begin} }
	deleted := func(r *R) { r.DeletionTimestamp = &metav1.Time{Time: begin} }
	foreign := func(r *R) { r.Labels[apps.LabelRequestPodUID] = "u2" }
	for name, tt := range map[string]struct {
		requests []*R
		first    string
		behind   []string
	}{
		"CR-20 none":                               {nil, "", nil},
		"CR-20 the oldest new one, others wait":    {[]*R{request("b", 2, ""), request("a", 1, ""), request("c", 3, "")}, "a", []string{"b", "c"}},
		"CR-20 a pending one before a new one":     {[]*R{request("a", 1, ""), request("b", 2, "Pending")}, "b", []string{"a"}},
		"CR-20 one under way before a pending one": {[]*R{request("a", 1, "Pending"), request("b", 2, "Recreating"), request("c", 3, "")}, "b", []string{"c"}},
		"CR-31 an end is an end":                   {[]*R{request("a", 1, "Completed"), request("b", 2, "Recreating", ended)}, "", nil},
		"CR-16 one that goes":                      {[]*R{request("a", 1, "", deleted), request("b", 2, "")}, "b", nil},
		"CR-10 of another Pod of the name":         {[]*R{request("a", 1, "", foreign), request("b", 2, "")}, "b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			first, waiting := turn(tt.requests, "u1")
			got := ""
			if first != nil {
				got = first.Name
			}
			var behind []string
			for _, r := range waiting {
				behind = append(behind, r.Name)
			}
			if got != tt.first {
				t.Errorf("first %q, want %q", got, tt.first)
			}
			if diff := cmp.Diff(tt.behind, behind); diff != "" {
				t.Errorf("behind (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestOf(t *testing.T) {
	r := request("a", 1, "Recreating", func(r *v1beta1.ContainerRecreateRequest) {
		r.Spec.ActiveDeadlineSeconds = ptr.To(int64(60))
		r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{
			FailurePolicy: "Ignore", OrderedRecreate: true, ForceRecreate: true, UnreadyGracePeriodSeconds: ptr.To(int64(5)), MinStartedSeconds: 7,
		}
		r.Status.Conditions = []metav1.Condition{
			{Type: "Other", Status: "True", LastTransitionTime: metav1.NewTime(begin)},
			{Type: apps.ConditionPreRecreateGrace, Status: "True", LastTransitionTime: metav1.NewTime(begin.Add(3 * time.Second))},
		}
		for _, name := range []string{"done", "failed", "new", "log"} {
			r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
		}
		r.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{
			{Name: "failed", Phase: "Failed", Message: "no"},
			{Name: "done", Phase: "Succeeded", IsKilled: true},
			{Name: "app", Phase: "Recreating", IsKilled: true, Message: "stopping containerd://a1"},
			{Name: "log", Phase: "Pending"},
			{Name: "nobody", Phase: "Failed"},
		}
	})
	want := containerrestart.Request{
		Ordered: true, Force: true, OnFailure: completion.GoOn, MinStarted: 7 * time.Second, Unready: ptr.To(5 * time.Second),
		UnreadySince: begin.Add(3 * time.Second), Started: begin.Add(time.Second), Deadline: ptr.To(time.Minute),
		Containers: []containerrestart.Container{
			{Name: "app", Before: "containerd://a0", Phase: containerrestart.Restarting, Stopped: true, StoppedID: "containerd://a1"},
			{Name: "done", Phase: containerrestart.Restarted, Stopped: true},
			{Name: "failed", Phase: containerrestart.Failed, Why: reason.Reason{Code: containerrestart.StopFailed, Detail: "no"}},
			{Name: "new"},
			{Name: "log"},
		},
		Paths: containerrestart.Paths{
			Containers: "spec.containers", MinStarted: "spec.strategy.minStartedSeconds", OnFailure: "spec.strategy.failurePolicy",
			Unready: "spec.strategy.unreadyGracePeriodSeconds", Deadline: "spec.activeDeadlineSeconds",
		},
	}
	if diff := cmp.Diff(want, requestOf(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := requestOf(request("b", 0, ""))
	if plain.OnFailure != completion.End || plain.Unready != nil || plain.Deadline != nil || !plain.UnreadySince.IsZero() {
		t.Errorf("CR-27 defaults: %+v", plain)
	}
	huge := request("c", 0, "", func(r *v1beta1.ContainerRecreateRequest) {
		r.Spec.ActiveDeadlineSeconds = ptr.To(int64(1) << 62)
		r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{UnreadyGracePeriodSeconds: ptr.To(-int64(1) << 62)}
	})
	if r := requestOf(huge); *r.Deadline < 200*365*24*time.Hour || *r.Unready >= 0 {
		t.Errorf("times out of range: %s, %s", r.Deadline, r.Unready)
	}
}

func TestStatusOf(t *testing.T) {
	const app, log = "app", "log"
	type S = v1beta1.ContainerRecreateRequestStatus
	type C = v1beta1.ContainerRecreateRequestContainerRecreateState
	conditions := []metav1.Condition{{Type: apps.ConditionPreRecreateGrace}}
	snapshot := []v1beta1.ContainerRecreateRequestContainerStatus{{Name: app}}
	failed := containerrestart.Container{Name: app, Phase: containerrestart.Failed, Stopped: true, Why: reason.Reason{Code: containerrestart.StopFailed, Detail: "no answer"}}
	for name, tt := range map[string]struct {
		step containerrestart.Step
		want S
	}{
		"CR-21 the first step": {
			containerrestart.Step{State: completion.Running, Containers: []containerrestart.Container{
				{Name: app, Phase: containerrestart.Restarting, Stopped: true, StoppedID: "containerd://a0"}, {Name: log, Phase: containerrestart.Pending},
			}},
			S{Phase: "Recreating", ContainerRecreateStates: []C{
				{Name: app, Phase: "Recreating", IsKilled: true, Message: "stopping containerd://a0"}, {Name: log, Phase: "Pending"},
			}},
		},
		"CR-30 a container that has ended by itself": {
			containerrestart.Step{State: completion.Running, Containers: []containerrestart.Container{{Name: app, Phase: containerrestart.Restarting, Stopped: true}}},
			S{Phase: "Recreating", ContainerRecreateStates: []C{{Name: app, Phase: "Recreating", IsKilled: true}}},
		},
		"CR-31 all done": {
			containerrestart.Step{State: completion.Complete, Containers: []containerrestart.Container{{Name: app, Phase: containerrestart.Restarted, Stopped: true}}},
			S{Phase: "Completed", ContainerRecreateStates: []C{{Name: app, Phase: "Succeeded", IsKilled: true}}},
		},
		"CR-27 a failure that is ignored": {
			containerrestart.Step{State: completion.Complete, Containers: []containerrestart.Container{failed}, Why: reason.List{failed.Why}},
			S{Phase: "Completed", ContainerRecreateStates: []C{{Name: app, Phase: "Failed", IsKilled: true, Message: "no answer"}}},
		},
		"CR-27 a failure that ends the request": {
			containerrestart.Step{State: completion.Failed, Containers: []containerrestart.Container{failed}, Why: reason.List{{Code: completion.FailureNotTolerated}, failed.Why}},
			S{Phase: "Completed", Message: "StopFailed: no answer", ContainerRecreateStates: []C{{Name: app, Phase: "Failed", IsKilled: true, Message: "no answer"}}},
		},
		"CR-12 past the deadline": {
			containerrestart.Step{State: completion.Failed, Why: reason.List{{Code: completion.DeadlineExceeded}}},
			S{Phase: "Completed", Message: "recreating has exceeded the activeDeadlineSeconds"},
		},
		"CR-23 a runtime that is not there": {
			hopeless(containerrestart.Request{}, NoRuntimeService, "failed to find runtime service: x"),
			S{Phase: "Completed", Message: "failed to find runtime service: x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.Conditions, tt.want.ContainerStatusSnapshot = conditions, snapshot
			r := request("a", 0, "Recreating", func(r *v1beta1.ContainerRecreateRequest) {
				r.Status.Conditions, r.Status.ContainerStatusSnapshot, r.Status.Message = conditions, snapshot, "of yore"
			})
			if diff := cmp.Diff(tt.want, statusOf(r, tt.step)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecord: after a step was recorded in the status, the state of each container is read as it was.
func TestRecord(t *testing.T) {
	for _, c := range []containerrestart.Container{
		{Name: "app", Before: "containerd://a0", Phase: containerrestart.Restarting, Stopped: true, StoppedID: "containerd://a1"},
		{Name: "app", Before: "containerd://a0", Phase: containerrestart.Restarting, Stopped: true},
		{Name: "app", Before: "containerd://a0", Phase: containerrestart.Restarted, Stopped: true},
		{Name: "app", Before: "containerd://a0", Phase: containerrestart.Failed, Stopped: true, Why: reason.Reason{Code: containerrestart.StopFailed, Detail: "no"}},
	} {
		spec := v1beta1.ContainerRecreateRequestContainer{Name: "app", StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://a0"}}
		if diff := cmp.Diff(c, containerOf(spec, []v1beta1.ContainerRecreateRequestContainerRecreateState{stateOf(c)})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
