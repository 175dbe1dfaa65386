package restart

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/node/containerrestart/batch"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// These are the reasons why a Pod is not restarted.
const (
	// RequestFailed means that a ContainerRecreateRequest has ended, because of a node agent's error or the deadline,
	// before all containers were recreated.
	RequestFailed reason.Code = "RequestFailed"
	// NoContainer means that a Pod has no container with a requested name.
	NoContainer reason.Code = "NoContainer"
	// NotStartedAgain means that the kubelet would not start a container again once it has stopped.
	NotStartedAgain reason.Code = "NotStartedAgain"
	// NeverStarted means that a container has never started, so there is nothing to restart.
	NeverStarted reason.Code = "NeverStarted"
	// BeingChanged means that an update of the Pod or a lifecycle hook is in progress and must end before the restart.
	BeingChanged reason.Code = "BeingChanged"
	// EarlierRequest means that the ContainerRecreateRequest of the previous restart must be deleted first.
	EarlierRequest reason.Code = "EarlierRequest"
	// NoAgents means that there are no node agents to restart containers, because a feature gate is off.
	NoAgents reason.Code = "NoAgents"
	// NotServed means that the API server does not serve ContainerRecreateRequests: their CustomResourceDefinition is
	// not installed, or does not serve the version.
	NotServed reason.Code = "NotServed"
	// NotYet means that the time requested for the restart is in the future.
	NotYet reason.Code = "NotYet"
)

// These are the reasons of the condition ContainersRestarted if no Pod has a problem.
const (
	Restarting reason.Code = "Restarting"
	Restarted  reason.Code = "Restarted"
)

// mostNamed is the largest number of reasons in a condition, and longestDetail the largest length of a message that
// comes from a Node.
const (
	mostNamed     = 5
	longestDetail = 256
)

// lookAgain is how long a reconciliation waits before it asks again whether the API server serves
// ContainerRecreateRequests.
const lookAgain = 10 * time.Second

// WithoutAgents returns the reason that no node agents exist.
func WithoutAgents() reason.Reason {
	return reason.Reason{Code: NoAgents, Detail: "nothing restarts containers without the feature gate " + string(apps.GateKruiseDaemon), Remedy: "switch the gate on"}
}

// Unserved returns the reason that the API server does not serve a resource.
func Unserved(resource schema.GroupVersionResource) reason.Reason {
	return reason.Reason{
		Code: NotServed, Detail: "the API server does not serve " + resource.Resource + " in version " + resource.Version,
		Remedy: "install CustomResourceDefinition " + resource.GroupResource().String(),
	}
}

// keepShare is the interval at which the disruption budgets are asked again about a Pod whose containers are being
// restarted, so that the budgets continue to count the Pod.
const keepShare = 4 * time.Second

// View contains the state of a requested restart of a workload. A nil View means that no restart is requested.
type View struct {
	// Wish is the requested restart; nil if the workload does not have the annotation.
	Wish *Wish
	// Off says why no container of the workload can be restarted now. The code of Off is empty if containers can be
	// restarted.
	Off reason.Reason
	// Rest returns the error with which the restart of a Pod was refused, as long as the backoff before the next
	// attempt lasts, and otherwise nil. If the function Rest is nil, no Pod was refused.
	Rest func(*corev1.Pod) error
	Now  time.Time

	requests map[types.UID]*v1beta1.ContainerRecreateRequest
}

// NewView returns a View of the restart that wish requests, and of the workload's ContainerRecreateRequests.
func NewView(wish *Wish, requests []*v1beta1.ContainerRecreateRequest, now time.Time) *View {
	v := &View{Wish: wish, Now: now, requests: make(map[types.UID]*v1beta1.ContainerRecreateRequest, len(requests))}
	for _, request := range requests {
		if pod, ours := podOf(request); ours {
			v.requests[pod] = request
		}
	}
	return v
}

// Away reports whether a restart of the Pod is in progress. Such a Pod counts as unavailable.
func (v *View) Away(pod *corev1.Pod) bool {
	request := v.requests[pod.UID]
	return request != nil && IsUnderWay(request)
}

// Plan contains the writes of a reconciliation for a restart, and the condition about the restart.
type Plan struct {
	// Wish is the requested restart that the plan carries out.
	Wish *Wish
	// Restart lists the Pods for which requests are to be created. Their number stays within maxUnavailable.
	Restart []*corev1.Pod
	// Keep lists the Pods whose containers are being restarted. The budgets must be asked again about these Pods.
	Keep []*corev1.Pod
	// Remove lists the ContainerRecreateRequests to delete, because no decision depends on these requests any more.
	Remove []*v1beta1.ContainerRecreateRequest
	// Failures lists the Pods that cannot be restarted, with reasons. Off says why no Pod can be restarted. The code of
	// Off is empty if some Pod can be restarted, or if no Pod waits for a restart.
	Failures reason.List
	Off      reason.Reason
	// Condition describes the progress of the restart; the zero value if no restart is requested.
	Condition v1beta1.Condition
	// After is the time after which the workload is reconciled again if no event occurs; zero means never.
	After time.Duration
}

// Rules are the rules that a workload sets for a restart.
type Rules struct {
	// Replicas is the wanted number of Pods, Partition the number of Pods whose containers are not restarted,
	// MaxUnavailable the largest number of unavailable Pods. Paths are the paths of these fields in the spec.
	Replicas, Partition, MaxUnavailable int
	Paused                              bool
	Paths                               rollout.Paths
	// Order returns the Pods in the order in which they are restarted.
	Order func() []*corev1.Pod
	// Skips reports whether a Pod is not restarted because the Pod is about to be deleted. If Skips is nil, no Pod is
	// skipped.
	Skips func(*corev1.Pod) bool
	// Keeps reports whether a Pod's containers are not restarted for another reason than Partition; these Pods are
	// the last in the order. If Keeps is nil, there are no such Pods.
	Keeps func(*corev1.Pod) bool
}

const pausedPath = "spec.updateStrategy.rollingUpdate.paused"

func (r *Rules) batch(crew []joined) batch.Rules {
	out := batch.Rules{
		Replicas: r.Replicas, Partition: r.Partition, MaxUnavailable: r.MaxUnavailable, Paused: r.Paused,
		Paths: batch.Paths{Partition: r.Paths.Partition, MaxUnavailable: r.Paths.MaxUnavailable, Paused: pausedPath},
	}
	for i := range crew {
		if r.Keeps != nil && crew[i].Standing == batch.Waiting && r.Keeps(crew[i].pod) {
			out.Partition++
		}
	}
	return out
}

// Decide decides which containers to restart now. The decision depends on the arguments alone. All active Pods are
// restarted, except Pods whose deletion waits for a hook. rulesOf is called only if a restart is requested, or if
// requests are left.
func Decide(v *View, set *podcontrol.Set, rulesOf func() Rules) *Plan {
	if v == nil || v.Wish == nil && len(v.requests) == 0 {
		return &Plan{}
	}
	plan, rules := &Plan{Wish: v.Wish}, rulesOf()
	crew := v.crew(set, set.Select(func(*podcontrol.Pod) bool { return true }), rules.Skips)
	waiting := slices.ContainsFunc(crew, func(j joined) bool { return j.Standing == batch.Waiting })
	if waiting {
		crew = v.crew(set, rules.Order(), rules.Skips)
	}
	plan.tidy(v, set)
	plan.read(crew)
	switch {
	case v.Wish == nil:
		return plan
	case v.Off.Code != "" && waiting:
		plan.Off = v.Off
		if v.Off.Code == NotServed { // a feature gate cannot change while the process runs
			plan.wake(lookAgain)
		}
		plan.report(crew, reason.List{v.Off}, false)
		return plan
	case v.Now.Before(v.Wish.At):
		plan.wake(v.Wish.At.Sub(v.Now))
		plan.report(crew, reason.List{{Code: NotYet, Detail: "the restart begins at " + v.Wish.At.Format(time.RFC3339)}}, false)
		return plan
	}
	members := make([]batch.Member, len(crew))
	for i := range crew {
		members[i] = crew[i].Member
	}
	step := batch.Next(rules.batch(crew), batch.Record{}, members, v.Now)
	for i := range crew {
		if slices.Contains(step.Restart, crew[i].Name) {
			plan.Restart = append(plan.Restart, crew[i].pod)
		}
	}
	if step.State == completion.Running {
		plan.wake(step.After)
	}
	if len(plan.Restart) > 0 {
		plan.wake(keepShare)
	}
	plan.report(crew, step.Why, step.State == completion.Complete)
	return plan
}

// joined is a Pod whose containers have been restarted, or are to be restarted.
type joined struct {
	batch.Member

	pod     *corev1.Pod
	failure reason.Reason // why the Pod cannot be restarted; the code is empty if the Pod can
}

func (v *View) crew(set *podcontrol.Set, pods []*corev1.Pod, skips func(*corev1.Pod) bool) []joined {
	crew := make([]joined, 0, len(pods))
	for _, pod := range pods {
		if facts := set.Of(pod); facts != nil && !facts.Leaving && (skips == nil || !skips(pod)) {
			member, failure := v.member(facts)
			crew = append(crew, joined{member, pod, failure})
		}
	}
	return crew
}

// read sets the fields Keep and Failures of the plan from the Pods to restart.
func (p *Plan) read(crew []joined) {
	for i := range crew {
		if crew[i].Standing == batch.Restarting {
			p.Keep, p.After = append(p.Keep, crew[i].pod), keepShare
		}
		if crew[i].failure.Code != "" {
			p.Failures = append(p.Failures, crew[i].failure)
		}
	}
	slices.SortFunc(p.Failures, func(a, b reason.Reason) int { return strings.Compare(a.Object.Name, b.Object.Name) })
}

// wake shortens After to the given time, if After is longer or zero.
func (p *Plan) wake(after time.Duration) {
	if after > 0 && (p.After == 0 || after < p.After) {
		p.After = after
	}
}

// tidy sets the field Remove of the plan to the ContainerRecreateRequests to delete. A request in progress is deleted
// only if its Pod no longer exists.
func (p *Plan) tidy(v *View, set *podcontrol.Set) {
	active := make(map[types.UID]*corev1.Pod, len(v.requests))
	if len(v.requests) > 0 {
		for i := range set.Active {
			active[set.Active[i].UID] = set.Active[i].Pod
		}
		for _, pod := range slices.DeleteFunc(slices.Clone(set.NotSelected), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) }) {
			active[pod.UID] = pod // removing the owner reference of a Pod may fail, and the Pod then stays
		}
	}
	for uid, request := range v.requests {
		pod := active[uid]
		switch {
		case request.DeletionTimestamp != nil:
			continue
		case pod == nil:
		case IsUnderWay(request), v.Wish.isFor(request) && !v.Wish.isShown(pod):
			continue
		}
		p.Remove = append(p.Remove, request)
	}
	slices.SortFunc(p.Remove, func(a, b *v1beta1.ContainerRecreateRequest) int { return strings.Compare(a.Name, b.Name) })
}

// isShown reports whether the status of the Pod shows that all its containers have been restarted.
func (w *Wish) isShown(pod *corev1.Pod) bool {
	return !pod.CreationTimestamp.Time.Before(w.At.Truncate(time.Second)) || batch.IsRestarted(pod, w.Containers, w.At)
}

// member returns the batch.Member for a Pod, from which package batch chooses the Pods to restart. failure says why
// the Pod cannot be restarted; the code is empty if the Pod can be restarted.
func (v *View) member(pod *podcontrol.Pod) (m batch.Member, failure reason.Reason) {
	m = batch.Member{Name: pod.Name, Available: pod.Available}
	request := v.requests[pod.UID]
	switch {
	case request != nil && IsUnderWay(request):
		m.Standing = batch.Restarting
	case v.Wish == nil:
	case v.Wish.isShown(pod.Pod):
		m.Standing = batch.Restarted
	case request != nil && v.Wish.isFor(request):
		if m.Standing, failure = batch.Restarted, failureOf(request); failure.Code != "" {
			m.Standing = batch.Failed
		}
	case request != nil:
		m.Refused = reason.Reason{Code: EarlierRequest, Detail: "the request of an earlier restart is about to go"}
	default:
		if failure = v.Wish.obstacle(pod.Pod); failure.Code != "" {
			m.Standing = batch.Failed
		} else {
			m.Refused = v.refusal(pod)
		}
	}
	of := reason.ObjectOf("Pod", pod.Pod)
	if failure.Code != "" {
		failure.Object = of
	}
	if m.Refused.Code != "" && m.Refused.Object.Name == "" {
		m.Refused.Object = of
	}
	return m, failure
}

// obstacle returns the reason why a Pod can never be restarted; the code is empty if there is no such reason.
func (w *Wish) obstacle(pod *corev1.Pod) reason.Reason {
	const killed = 137 // a container that handles SIGTERM may instead exit with code 0
	for _, name := range w.namesIn(pod) {
		at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		switch {
		case at < 0:
			return reason.Reason{Code: NoContainer, Detail: "has no container " + name + " to restart"}
		case !podstate.IsRestarted(pod, &pod.Spec.Containers[at], 0) || !podstate.IsRestarted(pod, &pod.Spec.Containers[at], killed):
			return reason.Reason{Code: NotStartedAgain, Path: "spec.restartPolicy", Detail: "the kubelet would not start container " + name + " again"}
		}
	}
	return reason.Reason{}
}

// refusal returns the reason why a Pod cannot be restarted now; the code is empty if there is no such reason.
func (v *View) refusal(pod *podcontrol.Pod) reason.Reason {
	if pod.Updating || pod.State != "" && pod.State != lifecycle.Normal {
		return reason.Reason{Code: BeingChanged, Detail: "an update of the Pod, or a hook, comes first"}
	}
	for _, name := range v.Wish.namesIn(pod.Pod) {
		if status := podstate.ContainerStatus(pod.Pod, name); status == nil || status.ContainerID == "" {
			return reason.Reason{Code: NeverStarted, Detail: "container " + name + " has never started"}
		}
	}
	if v.Rest != nil {
		if err := v.Rest(pod.Pod); err != nil {
			if why := reason.From(err); len(why) > 0 {
				return why[0]
			}
			code, message := reason.Explain(err)
			return reason.Reason{Code: code, Detail: message}
		}
	}
	return reason.Reason{}
}

// report sets the plan's Condition to the progress of the restart.
func (p *Plan) report(crew []joined, why reason.List, complete bool) {
	var count [batch.Failed + 1]int
	for i := range crew {
		count[crew[i].Standing]++
	}
	c := &p.Condition
	c.Type, c.Status, c.Reason = apps.ConditionContainersRestarted, corev1.ConditionFalse, string(Restarting)
	c.Message = fmt.Sprintf("%d of %d Pods have restarted since %s", count[batch.Restarted], len(crew), p.Wish.At.Format(time.RFC3339))
	if n := count[batch.Restarting]; n > 0 {
		c.Message += fmt.Sprintf("; %d are restarting", n)
	}
	switch {
	case complete && len(p.Failures) == 0:
		c.Status, c.Reason = corev1.ConditionTrue, string(Restarted)
	case complete:
		c.Reason = string(p.Failures[0].Code)
	case len(why) > 0:
		c.Reason = string(why[0].Code)
		c.Message += "; waiting: " + why.Summary(mostNamed)
	}
	if len(p.Failures) > 0 {
		c.Message += "; not restarted: " + p.Failures.Summary(mostNamed)
	}
	c.Message = reason.Shorten(c.Message, longestMessage)
}

// longestMessage is the largest length of the condition's message.
const longestMessage = 1024

// Problems returns the reasons that only users can remove.
func (p *Plan) Problems() reason.List {
	if p.Off.Code == "" {
		return p.Failures
	}
	return append(reason.List{p.Off}, p.Failures...)
}

// Report writes the plan's Condition into the conditions of a status. A nil Plan changes nothing.
func (p *Plan) Report(conditions *v1beta1.Conditions, now metav1.Time) {
	switch {
	case p == nil:
	case p.Condition.Type == "":
		conditions.Drop(apps.ConditionContainersRestarted)
	default:
		conditions.Set(p.Condition, now)
	}
}
