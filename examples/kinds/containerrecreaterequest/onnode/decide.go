package onnode

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the messages that OpenKruise's agent and controller write.
const (
	messageDeadline  = "recreating has exceeded the activeDeadlineSeconds"
	messageNoRuntime = "failed to find runtime service"
	// messageStopping is the beginning of the message of a container that is being stopped with Force; the ID of the
	// instance follows.
	messageStopping = "stopping "
)

// NoRuntimeService means that a container of a request belongs to a container runtime that the Node does not have.
const NoRuntimeService reason.Code = "NoRuntimeService"

// maxMessage is the largest length of a message in bytes.
const maxMessage = 1024

// turn returns the request for a Pod that must be handled now, or nil if the Pod has no request. behind contains the
// new requests that must wait.
func turn(requests []*v1beta1.ContainerRecreateRequest, pod types.UID) (first *v1beta1.ContainerRecreateRequest, behind []*v1beta1.ContainerRecreateRequest) {
	var mine []*v1beta1.ContainerRecreateRequest
	var candidates []containerrestart.Candidate
	for _, r := range requests {
		if r.Labels[apps.LabelRequestPodUID] != string(pod) || r.DeletionTimestamp != nil || isOver(r) {
			continue // the request is for another Pod of the same name, or has ended
		}
		mine = append(mine, r)
		candidates = append(candidates, containerrestart.Candidate{
			Object: reason.ObjectOf("ContainerRecreateRequest", r), Created: r.CreationTimestamp.Time, Progress: progressOf(r),
		})
	}
	next, waiting := containerrestart.Pick(candidates)
	if next < 0 {
		return nil, nil
	}
	for _, w := range waiting {
		if r := mine[w.Index]; progressOf(r) == containerrestart.New {
			behind = append(behind, r)
		}
	}
	return mine[next], behind
}

func isOver(r *v1beta1.ContainerRecreateRequest) bool {
	return r.Status.CompletionTime != nil || r.Status.Phase == v1beta1.ContainerRecreateRequestCompleted
}

func progressOf(r *v1beta1.ContainerRecreateRequest) containerrestart.Progress {
	switch r.Status.Phase {
	case "":
		return containerrestart.New
	case v1beta1.ContainerRecreateRequestPending:
		return containerrestart.Waiting
	}
	return containerrestart.Begun
}

// requestOf converts a request, with the progress recorded in its status, to the form that package containerrestart
// needs.
func requestOf(r *v1beta1.ContainerRecreateRequest) containerrestart.Request {
	strategy := ptr.Deref(r.Spec.Strategy, v1beta1.ContainerRecreateRequestStrategy{})
	out := containerrestart.Request{
		Ordered: strategy.OrderedRecreate, Force: strategy.ForceRecreate, OnFailure: completion.End,
		MinStarted: seconds(int64(strategy.MinStartedSeconds)), Unready: secondsOf(strategy.UnreadyGracePeriodSeconds),
		Deadline: secondsOf(r.Spec.ActiveDeadlineSeconds), Started: r.CreationTimestamp.Time,
		Paths: containerrestart.Paths{
			Containers: "spec.containers", MinStarted: "spec.strategy.minStartedSeconds", OnFailure: "spec.strategy.failurePolicy",
			Unready: "spec.strategy.unreadyGracePeriodSeconds", Deadline: "spec.activeDeadlineSeconds",
		},
	}
	if strategy.FailurePolicy == v1beta1.ContainerRecreateRequestFailurePolicyIgnore {
		out.OnFailure = completion.GoOn
	}
	for _, c := range r.Status.Conditions {
		if c.Type == apps.ConditionPreRecreateGrace && c.Status == "True" {
			out.UnreadySince = c.LastTransitionTime.Time
		}
	}
	for _, c := range r.Spec.Containers {
		out.Containers = append(out.Containers, containerOf(c, r.Status.ContainerRecreateStates))
	}
	return out
}

func containerOf(c v1beta1.ContainerRecreateRequestContainer, states []v1beta1.ContainerRecreateRequestContainerRecreateState) containerrestart.Container {
	out := containerrestart.Container{Name: c.Name}
	if c.StatusContext != nil {
		out.Before = c.StatusContext.ContainerID
	}
	i := slices.IndexFunc(states, func(s v1beta1.ContainerRecreateRequestContainerRecreateState) bool { return s.Name == c.Name })
	if i < 0 {
		return out
	}
	out.Stopped = states[i].IsKilled
	switch states[i].Phase {
	case v1beta1.ContainerRecreateRequestRecreating:
		out.Phase = containerrestart.Restarting
		out.StoppedID, _ = strings.CutPrefix(states[i].Message, messageStopping)
	case v1beta1.ContainerRecreateRequestSucceeded:
		out.Phase = containerrestart.Restarted
	case v1beta1.ContainerRecreateRequestFailed:
		out.Phase = containerrestart.Failed
		out.Why = reason.Reason{Code: containerrestart.StopFailed, Detail: states[i].Message}
	}
	return out
}

// seconds converts a number of seconds; a negative number leads to an error later.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(max(n, -1), most)) * time.Second
}

func secondsOf(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	return ptr.To(seconds(*n))
}

// statusOf returns the status of a request after a step, without a completion time.
func statusOf(r *v1beta1.ContainerRecreateRequest, step containerrestart.Step) v1beta1.ContainerRecreateRequestStatus {
	status := *r.Status.DeepCopy()
	status.Phase, status.Message = v1beta1.ContainerRecreateRequestRecreating, ""
	if step.Over() {
		status.Phase, status.Message = v1beta1.ContainerRecreateRequestCompleted, lastWords(step)
	}
	status.ContainerRecreateStates = nil
	for _, c := range step.Containers {
		status.ContainerRecreateStates = append(status.ContainerRecreateStates, stateOf(c))
	}
	return status
}

// stateOf returns the state of a container, as the status records the state. If the container is being stopped, the
// state names the instance.
func stateOf(c containerrestart.Container) v1beta1.ContainerRecreateRequestContainerRecreateState {
	state := v1beta1.ContainerRecreateRequestContainerRecreateState{Name: c.Name, Phase: v1beta1.ContainerRecreateRequestPending, IsKilled: c.Stopped}
	switch c.Phase {
	case containerrestart.Restarting:
		if state.Phase = v1beta1.ContainerRecreateRequestRecreating; c.StoppedID != "" {
			state.Message = messageStopping + c.StoppedID
		}
	case containerrestart.Restarted:
		state.Phase = v1beta1.ContainerRecreateRequestSucceeded
	case containerrestart.Failed:
		state.Phase, state.Message = v1beta1.ContainerRecreateRequestFailed, reason.Shorten(c.Why.Detail, maxMessage)
	}
	return state
}

// hopeless returns the step that ends a request that no agent can carry out.
func hopeless(r containerrestart.Request, code reason.Code, detail string) containerrestart.Step {
	return containerrestart.Step{State: completion.Failed, Containers: r.Containers, Why: reason.List{{Code: code, Detail: detail}}}
}

// lastWords returns the message for a request that has ended. If all containers were restarted, the message is empty.
func lastWords(step containerrestart.Step) string {
	var failures reason.List
	for _, r := range step.Why {
		switch r.Code {
		case completion.DeadlineExceeded:
			return messageDeadline
		case NoRuntimeService:
			return reason.Shorten(r.Detail, maxMessage)
		case containerrestart.StopFailed, containerrestart.NotStartedAgain, containerrestart.InvalidRequest:
			failures = append(failures, r)
		}
	}
	if step.State != completion.Failed {
		return ""
	}
	return reason.Shorten(failures.String(), maxMessage)
}
