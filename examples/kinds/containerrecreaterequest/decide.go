package containerrecreaterequest

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// PodGone means that the Pod of a request was deleted, is being deleted, or was replaced by another Pod of the same
	// name.
	PodGone reason.Code = "PodGone"
	// PodEnded means that the Pod of a request has ended, so the kubelet would not restart its containers.
	PodEnded reason.Code = "PodEnded"
	// AgentSilent means that no node agent has begun to process a request.
	AgentSilent reason.Code = "AgentSilent"
)

// silence is how long a node agent may take to begin with a request.
const silence = time.Minute

// skew is the tolerated difference between the clocks of Nodes and the controller.
const skew = time.Minute

// longestID is the largest length in bytes of a container ID that the controller copies. A longer ID can only come
// from a hostile Node.
const longestID = 256

// longestMessage is the largest length of a message in a status, and mostConditions the largest number of conditions.
const (
	longestMessage = 1024
	mostConditions = 16
)

// observed contains all inputs of a reconciliation.
type observed struct {
	request  *v1beta1.ContainerRecreateRequest
	settings *settings
	problems judge.Faults
	// pod is the Pod with the requested name, or nil if there is none.
	pod *corev1.Pod
	// rivals are the requests for the same Pod that have not ended, including this request.
	rivals []*v1beta1.ContainerRecreateRequest
	now    time.Time
}

// plan says what a reconciliation must do; the fields are in the order of the writes.
type plan struct {
	// holds is true if the Pod must be made not ready: the finalizer is added first, and then the readiness gate is
	// closed. graces is true if the status must then record the present time as the beginning of the unready grace
	// period.
	holds, graces bool
	// status is the status to write.
	status v1beta1.ContainerRecreateRequestStatus
	// end is the reason why the controller completes the request; the code is empty if the controller does not
	// complete the request.
	end reason.Reason
	// invalid is true if the request ends because its spec is invalid.
	invalid bool
	// releases is true if the Pod may become ready again; the finalizer is removed afterwards.
	releases bool
	// deactivates is true if the label for node agents must be removed.
	deactivates bool
	// removes is true if the request must be deleted.
	removes bool
	// after is the time until the next reconciliation if no event occurs; zero means never.
	after time.Duration
}

// decide plans a whole reconciliation from its argument alone.
//
// The node agent writes the phase and the states of containers until the request is completed. Each write of the status
// requires the version that was read, so agent and controller cannot both end the request.
func decide(o *observed) plan {
	p := plan{status: *o.request.Status.DeepCopy()}
	switch {
	case o.request.DeletionTimestamp != nil || api.HasEnded(&o.request.Status):
		p.cleanUp(o)
	case len(o.problems) > 0:
		problems := o.problems.Reasons()
		p.invalid = true
		p.finish(o, problems[0], reason.Shorten(problems.Summary(kruise.ReasonsInEvent), longestMessage))
	case !isOf(o.request, o.pod):
		p.finish(o, gone(o), apps.RequestPodGone)
	case o.request.Status.Phase != "" && o.request.Labels[apps.LabelRequestActive] != "true": // the label was removed
		p.finish(o, silent(o.request), apps.RequestAgentSilent)
	default:
		p.carryOn(o)
	}
	if p.graces || !apiequality.Semantic.DeepEqual(o.request.Status, p.status) {
		trim(&p.status, o.request.Spec.Containers)
	}
	return p
}

// trim removes from a status what a node agent has written in addition to the states of the request's containers,
// because the API server would refuse the final write of a status that is too large.
func trim(status *v1beta1.ContainerRecreateRequestStatus, containers []v1beta1.ContainerRecreateRequestContainer) {
	state, instance := once(containers), once(containers)
	status.ContainerRecreateStates = slices.DeleteFunc(status.ContainerRecreateStates,
		func(s v1beta1.ContainerRecreateRequestContainerRecreateState) bool { return !state(s.Name) })
	status.ContainerStatusSnapshot = slices.DeleteFunc(status.ContainerStatusSnapshot,
		func(s v1beta1.ContainerRecreateRequestContainerStatus) bool {
			return !instance(s.Name) || len(s.ContainerID) > longestID
		})
	if len(status.Conditions) > mostConditions {
		status.Conditions = slices.DeleteFunc(status.Conditions,
			func(c metav1.Condition) bool {
				return c.Type != apps.ConditionPreRecreateGrace && c.Type != apps.ConditionWaiting
			})
	}
	short := func(text *string) { *text = reason.Shorten(*text, longestMessage) }
	for i := range status.ContainerRecreateStates {
		short(&status.ContainerRecreateStates[i].Message)
	}
	for i := range status.Conditions {
		short(&status.Conditions[i].Message)
	}
	short(&status.Message)
}

// once returns a function that returns true for the first call with the name of each container, and false for all
// other calls.
func once(containers []v1beta1.ContainerRecreateRequestContainer) func(name string) bool {
	left := sets.New[string]()
	for i := range containers {
		left.Insert(containers[i].Name)
	}
	return func(name string) bool {
		is := left.Has(name)
		left.Delete(name)
		return is
	}
}

// isOf reports whether a Pod is the Pod of a request, and is not being deleted.
func isOf(request *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	return pod != nil && pod.Name == request.Spec.PodName && pod.Namespace == request.Namespace &&
		string(pod.UID) == request.Labels[apps.LabelRequestPodUID] && pod.DeletionTimestamp == nil
}

// gone returns the reason PodGone with the details why the Pod of a request no longer exists.
func gone(o *observed) reason.Reason {
	why := reason.Reason{Code: PodGone, Object: reason.Object{Kind: "Pod", Namespace: o.request.Namespace, Name: o.request.Spec.PodName}}
	label := o.request.Labels[apps.LabelRequestPodUID]
	switch {
	case o.pod == nil:
		why.Detail = "does not exist"
	case label == "":
		why.Detail = "is not known to be the Pod of the request, which has no label " + apps.LabelRequestPodUID
		why.Remedy = "let the webhook see new requests"
	case string(o.pod.UID) != label:
		why.Old, why.New, why.Detail = label, string(o.pod.UID), "another Pod has the name"
	default:
		why.Detail = "is being deleted"
	}
	return why
}

// finish completes a request in the plan. The states of containers that were already stopped are not changed.
func (p *plan) finish(o *observed, why reason.Reason, message string) {
	p.end = why
	p.status.Phase, p.status.Message = v1beta1.ContainerRecreateRequestCompleted, message
	p.status.CompletionTime = new(metav1.NewTime(o.now))
	p.status.Conditions = without(p.status.Conditions, apps.ConditionWaiting)
}

// cleanUp plans what is done for a request that has ended or is being deleted: the Pod's readiness gate is opened,
// and the label by which agents find the request is removed.
func (p *plan) cleanUp(o *observed) {
	p.releases = slices.Contains(o.request.Finalizers, apps.FinalizerRequestUnreadyAcquired)
	_, p.deactivates = o.request.Labels[apps.LabelRequestActive]
	if o.request.DeletionTimestamp != nil {
		return
	}
	if p.status.Phase != "" { // the API server refuses a status without a phase
		p.status.Conditions = without(p.status.Conditions, apps.ConditionWaiting)
		// Node agents write the completion time, and with a time far in the future the request would never be
		// deleted.
		if end := p.status.CompletionTime; end == nil || end.After(o.now.Add(skew)) {
			p.status.CompletionTime = new(metav1.NewTime(o.now))
		}
	}
	if len(o.problems) > 0 {
		return // the TTL of an invalid request cannot be computed
	}
	step := completion.Next(completion.Rules{TTL: o.settings.ttl}, completion.Progress{Ended: p.status.CompletionTime.Time}, o.now)
	p.after, p.removes = step.After, step.Remove && !p.releases && !p.deactivates && apiequality.Semantic.DeepEqual(o.request.Status, p.status)
}

// carryOn plans the next step of a request that is in progress, or that waits for other requests.
func (p *plan) carryOn(o *observed) {
	created, phase := o.request.CreationTimestamp.Time, o.request.Status.Phase
	step := completion.Next(completion.Rules{Endless: true, Deadline: o.settings.deadline, Paths: completion.Paths{Deadline: "spec.activeDeadlineSeconds"}},
		completion.Progress{Started: created}, o.now)
	if step.State == completion.Failed {
		p.finish(o, step.Why[0], apps.RequestDeadlineExceeded)
		return
	}
	p.after = step.After
	if phase == "" {
		wait := min(created.Add(silence).Sub(o.now), silence)
		if wait <= 0 {
			p.finish(o, silent(o.request), apps.RequestAgentSilent)
		} else if p.after <= 0 || wait < p.after {
			p.after = wait
		}
		return // the API server refuses a status without a phase
	}
	p.wait(o)
	if phase != v1beta1.ContainerRecreateRequestRecreating {
		return
	}
	if podstate.HasEnded(o.pod) && !podstate.IsTrue(o.pod, apps.ConditionSidecarTerminated) {
		p.finish(o, reason.Reason{Code: PodEnded, Object: reason.ObjectOf("Pod", o.pod), Detail: "has ended with phase " + string(o.pod.Status.Phase)}, apps.RequestPodEnded)
		return
	}
	if fresh := snapshot(o); len(fresh) > 0 {
		p.status.ContainerStatusSnapshot = fresh
	}
	if o.settings.unready != nil {
		p.holds = podstate.HasGate(o.pod, apps.ConditionKruisePodReady)
		p.graces = !hasGrace(&p.status)
	}
}

func silent(request *v1beta1.ContainerRecreateRequest) reason.Reason {
	why := reason.Reason{
		Code: AgentSilent, Object: reason.Object{Kind: "Node", Name: request.Labels[apps.LabelRequestNodeName]},
		Detail: "has no node agent that takes requests up", Remedy: "see whether the agent runs there",
	}
	switch {
	case request.Labels[apps.LabelRequestActive] != "true":
		why.Detail, why.Remedy = "has an agent that cannot see the request, whose label "+apps.LabelRequestActive+" is not true", "make another request"
	case request.Labels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet:
		why.Detail, why.Remedy = "is virtual, and has no node agent", "delete the Pod"
	}
	return why
}

// snapshot returns the status of those running containers of the request whose instances were started after the request
// was created: OpenKruise's agent waits until these instances are ready. The instance that was running when the request
// was created is known by its ID. Comparing times would not be enough: the clocks of Node and API server differ, and
// times are in whole seconds.
func snapshot(o *observed) (out []v1beta1.ContainerRecreateRequestContainerStatus) {
	seen := make(map[string]*corev1.ContainerStatus, len(o.pod.Status.ContainerStatuses))
	for i := range o.pod.Status.ContainerStatuses {
		status := &o.pod.Status.ContainerStatuses[i]
		seen[status.Name] = status
	}
	created := o.request.CreationTimestamp
	for i := range o.settings.containers {
		c := &o.settings.containers[i]
		status := seen[c.Name]
		if status == nil || status.State.Running == nil || status.ContainerID == "" || len(status.ContainerID) > longestID {
			continue
		}
		isOld := status.State.Running.StartedAt.Before(&created)
		if c.StatusContext != nil {
			isOld = status.ContainerID == c.StatusContext.ContainerID
		}
		if !isOld {
			out = append(out, v1beta1.ContainerRecreateRequestContainerStatus{
				Name: c.Name, Ready: status.Ready, RestartCount: status.RestartCount, ContainerID: status.ContainerID,
			})
		}
	}
	return out
}

// holder returns the request's entry in the readiness gate of the Pod.
func holder(request *v1beta1.ContainerRecreateRequest) podreadiness.Holder {
	return podreadiness.Holder{UserAgent: apps.NotReadyUserAgentRequest, Key: request.Namespace + "/" + request.Name}
}

// hasGrace reports whether the status records since when the Pod is not ready. This time is recorded once and never
// changed.
func hasGrace(status *v1beta1.ContainerRecreateRequestStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type == apps.ConditionPreRecreateGrace && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.IsZero()
	})
}

// withGrace returns the conditions with a condition that records since when the Pod is not ready. Only the time of
// the condition has a meaning, because v1alpha1 has a field only for the time.
func withGrace(conditions []metav1.Condition, now time.Time) []metav1.Condition {
	return append(without(conditions, apps.ConditionPreRecreateGrace), metav1.Condition{
		Type: apps.ConditionPreRecreateGrace, Status: metav1.ConditionTrue, Reason: apps.ConditionPreRecreateGrace,
		LastTransitionTime: metav1.NewTime(now),
	})
}

// without returns the conditions that are not of the given type.
func without(conditions []metav1.Condition, t string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return c.Type == t })
}
