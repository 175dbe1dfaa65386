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

// Why a Pod is not restarted.
const (
	// RequestFailed means that a node agent, or the deadline, has ended a request before all containers were recreated.
	RequestFailed reason.Code = "RequestFailed"
	// NoContainer means that a Pod has no container with a requested name.
	NoContainer reason.Code = "NoContainer"
	// NotStartedAgain means that the kubelet would not start a stopped container again.
	NotStartedAgain reason.Code = "NotStartedAgain"
	// NeverStarted means that a container has never started, so there is nothing to restart.
	NeverStarted reason.Code = "NeverStarted"
	// BeingChanged means that an update of the Pod, or a hook, comes first.
	BeingChanged reason.Code = "BeingChanged"
	// EarlierRequest means that the request of an earlier restart is about to go.
	EarlierRequest reason.Code = "EarlierRequest"
	// NoAgents means that nothing restarts containers, because of a feature gate.
	NoAgents reason.Code = "NoAgents"
	// NotServed means that the API server does not have the requests for restarts: their CustomResourceDefinition is not
	// installed, or does not serve the version.
	NotServed reason.Code = "NotServed"
	// NotYet means that the time of the restart is to come.
	NotYet reason.Code = "NotYet"
)

// Reasons of the condition without a reason of a Pod.
const (
	Restarting reason.Code = "Restarting"
	Restarted  reason.Code = "Restarted"
)

// mostNamed limits the number of reasons in a condition, and longestDetail the length of a message that comes from a
// Node.
const (
	mostNamed     = 5
	longestDetail = 256
)

// lookAgain is the time until the next pass while the API server does not serve the requests.
const lookAgain = 10 * time.Second

// WithoutAgents says that no agents exist.
func WithoutAgents() reason.Reason {
	return reason.Reason{Code: NoAgents, Detail: "nothing restarts containers without the feature gate " + string(apps.GateKruiseDaemon), Remedy: "switch the gate on"}
}

// Unserved says that the API server does not have a resource.
func Unserved(resource schema.GroupVersionResource) reason.Reason {
	return reason.Reason{
		Code: NotServed, Detail: "the API server does not serve " + resource.Resource + " in version " + resource.Version,
		Remedy: "install CustomResourceDefinition " + resource.GroupResource().String(),
	}
}

// keepShare is the interval at which the budgets are asked again for a Pod whose containers are being restarted.
const keepShare = 4 * time.Second

// View is what a pass knows about the restart of a workload. A nil View means that there is no restart.
type View struct {
	// Wish is nil if the workload does not have the annotation.
	Wish *Wish
	// Off says why no container can be restarted at present. The code is empty if containers can be restarted.
	Off reason.Reason
	// Rest returns why the restart of a Pod must wait after a refusal, or nil. A nil Rest means that no Pod must wait.
	Rest func(*corev1.Pod) error
	Now  time.Time

	requests map[types.UID]*v1beta1.ContainerRecreateRequest
}

// NewView returns a View with the requests of a workload.
func NewView(wish *Wish, requests []*v1beta1.ContainerRecreateRequest, now time.Time) *View {
	v := &View{Wish: wish, Now: now, requests: make(map[types.UID]*v1beta1.ContainerRecreateRequest, len(requests))}
	for _, request := range requests {
		if pod, ours := podOf(request); ours {
			v.requests[pod] = request
		}
	}
	return v
}

// Away reports whether a restart of the Pod is in progress: such a Pod is not available.
func (v *View) Away(pod *corev1.Pod) bool {
	request := v.requests[pod.UID]
	return request != nil && IsUnderWay(request)
}

// Plan says what a pass does for the restart.
type Plan struct {
	// Wish is the request for a restart from which the plan was made.
	Wish *Wish
	// Restart are the Pods for which requests are to be created, within maxUnavailable.
	Restart []*corev1.Pod
	// Keep are the Pods whose containers are being restarted. The budgets must be asked again for these Pods.
	Keep []*corev1.Pod
	// Remove are the requests to delete, because no decision needs the requests any more.
	Remove []*v1beta1.ContainerRecreateRequest
	// Failures name the Pods that cannot be restarted. Off says why no Pod can be restarted. The code of Off is empty
	// if some Pod can be restarted, or if no Pod waits for a restart.
	Failures reason.List
	Off      reason.Reason
	// Condition is the progress; the zero value if there is no request for a restart.
	Condition v1beta1.Condition
	// After is the time until the next pass if no event occurs; zero for never.
	After time.Duration
}

// Rules are the workload's rules for a restart.
type Rules struct {
	// Replicas is the wanted number of Pods, Partition how many keep their containers, MaxUnavailable how many may be
	// unavailable. Paths are the paths of the fields.
	Replicas, Partition, MaxUnavailable int
	Paused                              bool
	Paths                               rollout.Paths
	// Order returns the Pods in the order of restarts.
	Order func() []*corev1.Pod
	// Skips reports Pods that are about to be deleted, and so are not restarted. Nil for none.
	Skips func(*corev1.Pod) bool
	// Keeps reports Pods whose containers are not restarted, besides the Pods excluded by Partition; these Pods are the
	// last in the order. Nil for none.
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

// Decide decides which containers to restart now, from its arguments alone. All active Pods are restarted, except Pods
// that wait for a hook before their deletion. rulesOf is called only if there is something to decide.
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

// joined is a Pod whose containers are to be restarted, or have been restarted.
type joined struct {
	batch.Member

	pod     *corev1.Pod
	failure reason.Reason // the code is empty if the Pod can be restarted
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

// read collects the Pods for Keep and the Failures of the plan.
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

// wake sets After, unless After is shorter already.
func (p *Plan) wake(after time.Duration) {
	if after > 0 && (p.After == 0 || after < p.After) {
		p.After = after
	}
}

// tidy finds the requests to delete. A request in progress is deleted only if the Pod is gone.
func (p *Plan) tidy(v *View, set *podcontrol.Set) {
	active := make(map[types.UID]*corev1.Pod, len(v.requests))
	if len(v.requests) > 0 {
		for i := range set.Active {
			active[set.Active[i].UID] = set.Active[i].Pod
		}
		for _, pod := range slices.DeleteFunc(slices.Clone(set.NotSelected), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) }) {
			active[pod.UID] = pod // the Pod may stay, because the release may fail
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

// isShown reports whether the Pod's own status shows that no container is left to restart.
func (w *Wish) isShown(pod *corev1.Pod) bool {
	return !pod.CreationTimestamp.Time.Before(w.At.Truncate(time.Second)) || batch.IsRestarted(pod, w.Containers, w.At)
}

// member describes a Pod. failure says why the Pod cannot be restarted; the code is empty if the Pod can be restarted.
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

// obstacle says why a Pod can never be restarted.
func (w *Wish) obstacle(pod *corev1.Pod) reason.Reason {
	const killed = 137 // a container that handles the signal may end with 0
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

// refusal says why a Pod cannot be restarted now.
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

// report sets the plan's Condition to the progress.
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

// longestMessage limits the length of the condition's message.
const longestMessage = 1024

// Problems returns the obstacles that only users can remove.
func (p *Plan) Problems() reason.List {
	if p.Off.Code == "" {
		return p.Failures
	}
	return append(reason.List{p.Off}, p.Failures...)
}

// Report writes the progress into the conditions of a status. A nil Plan changes nothing.
func (p *Plan) Report(conditions *v1beta1.Conditions, now metav1.Time) {
	switch {
	case p == nil:
	case p.Condition.Type == "":
		conditions.Drop(apps.ConditionContainersRestarted)
	default:
		conditions.Set(p.Condition, now)
	}
}
