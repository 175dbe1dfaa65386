// Package restarttest tests restarts of a workload's containers in the fault schedules of package chaos (test runs
// with random faults), for workloads of any kind.
package restarttest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

type (
	request = v1beta1.ContainerRecreateRequest
	state   = v1beta1.ContainerRecreateRequestContainerRecreateState
)

// patience is how long the agents wait for a stopped container.
const patience = 2 * time.Minute

// Agents act as the node agents in a fault schedule, a test run with random faults, and as the users that request
// restarts. New returns Agents.
type Agents struct {
	*chaos.World

	before map[types.UID]map[string]string // instances of each container when the request was first seen
	absent atomic.Bool                     // true if the CRD of ContainerRecreateRequests is not installed
}

// New returns the agents for a fault schedule.
func New(world *chaos.World) *Agents {
	return &Agents{World: world, before: map[types.UID]map[string]string{}}
}

// Presence tells the controllers whether the API server has the CRD of ContainerRecreateRequests.
func (a *Agents) Presence(schema.GroupVersionKind) watchhealth.State {
	if a.absent.Load() {
		return watchhealth.Absent
	}
	return watchhealth.Served
}

// Denies answers writes of ContainerRecreateRequests with NotFound while their CRD is not installed.
func (a *Agents) Denies(call faultapi.Call) error {
	if a.absent.Load() && isRequest(call) {
		return apierrors.NewNotFound(call.Resource, call.Name)
	}
	return nil
}

func isRequest(call faultapi.Call) bool {
	resource, _ := meta.UnsafeGuessKindToResource(v1beta1.GroupVersion.WithKind(reflect.TypeFor[request]().Name()))
	return call.Resource == resource.GroupResource()
}

// install installs the CRD of ContainerRecreateRequests, or removes the CRD together with all requests.
func (a *Agents) install(ctx context.Context, is bool) {
	a.Logf("user: the CRD of requests: %t", is)
	a.absent.Store(!is)
	if is {
		return
	}
	for _, r := range faultapi.All[*request](a.Server) {
		if err := a.User.Delete(ctx, r); client.IgnoreNotFound(err) != nil {
			a.Failf("story", "removing %s: %v", r.Name, err)
		}
	}
}

// Ask sets or removes the restart annotation in an owner; the caller must write the owner. Sometimes Ask also
// installs or removes the CRD of ContainerRecreateRequests.
func (a *Agents) Ask(ctx context.Context, owner client.Object) {
	if a.Chance(15) {
		a.install(ctx, a.absent.Load())
	}
	annotations := owner.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, apps.AnnotationRestartContainers)
	if a.Chance(90) {
		at := clock.RealClock{}.Now().Add(time.Duration(a.Rand().IntN(40)-30) * time.Second)
		annotations[apps.AnnotationRestartContainers] = at.UTC().Format(time.RFC3339) + []string{"", " app", " app", " gone"}[a.Rand().IntN(4)]
	}
	owner.SetAnnotations(annotations)
	a.Logf("user: restart of %s: %q", owner.GetName(), annotations[apps.AnnotationRestartContainers])
}

// Step carries out the next step of each request in progress. changed is false if there was nothing to do.
func (a *Agents) Step(ctx context.Context) (changed bool) {
	for _, r := range faultapi.All[*request](a.Server) {
		if r.DeletionTimestamp == nil && !api.HasEnded(&r.Status) {
			changed = a.step(ctx, r.DeepCopy()) || changed
		}
	}
	return changed
}

func (a *Agents) step(ctx context.Context, r *request) bool {
	pod, _ := a.Server.Stored(&corev1.Pod{}, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName}).(*corev1.Pod)
	switch {
	case pod == nil || podOf(r) != pod.UID || !podstate.IsActive(pod):
		return a.complete(ctx, r, "the Pod is gone")
	case r.Status.Phase == "":
		ids := map[string]string{}
		for _, c := range r.Spec.Containers {
			ids[c.Name], _ = a.Nodes.Env(pod.UID, c.Name)
		}
		a.before[r.UID], r.Status.Phase = ids, v1beta1.ContainerRecreateRequestRecreating
		return a.report(ctx, r)
	case clock.RealClock{}.Since(r.CreationTimestamp.Time) > patience || !a.Over() && a.Chance(3):
		return a.complete(ctx, r, "no new instance is ready")
	}
	return a.restart(ctx, pod, r)
}

// restart stops the first container that has not been restarted, or ends the request when all restarted containers are
// ready.
func (a *Agents) restart(ctx context.Context, pod *corev1.Pod, r *request) bool {
	done := 0
	for i := range r.Spec.Containers {
		name := r.Spec.Containers[i].Name
		id, _ := a.Nodes.Env(pod.UID, name)
		status := podstate.ContainerStatus(pod, name)
		switch {
		case id != "" && id == a.before[r.UID][name]:
			a.Logf("agent: stops %s/%s", pod.Name, name)
			return a.Nodes.Exit(pod.UID, name, 137)
		case id != "" && status != nil && status.ContainerID == id && status.Ready:
			done++
		}
	}
	return done == len(r.Spec.Containers) && a.complete(ctx, r, "")
}

// complete ends a request. If a message is given, no container counts as recreated.
func (a *Agents) complete(ctx context.Context, r *request, message string) bool {
	phase := v1beta1.ContainerRecreateRequestSucceeded
	if message != "" {
		phase = v1beta1.ContainerRecreateRequestFailed
	}
	r.Status = v1beta1.ContainerRecreateRequestStatus{Phase: v1beta1.ContainerRecreateRequestCompleted, Message: message, CompletionTime: new(metav1.NewTime(clock.RealClock{}.Now()))}
	for i := range r.Spec.Containers {
		r.Status.ContainerRecreateStates = append(r.Status.ContainerRecreateStates, state{Name: r.Spec.Containers[i].Name, Phase: phase})
	}
	a.Logf("agent: completes %s of Pod %s: %s", r.Name, r.Spec.PodName, message)
	return a.report(ctx, r)
}

func (a *Agents) report(ctx context.Context, r *request) bool {
	err := a.User.Status().Update(ctx, r)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		a.Failf("story", "reporting on %s: %v", r.Name, err)
	}
	return err == nil
}

func podOf(r *request) types.UID { return types.UID(strings.TrimPrefix(r.Name, "restart-")) }

// IsAway reports whether a request for a Pod is in progress.
func (a *Agents) IsAway(pod *corev1.Pod) bool { return a.isAway(pod, "") }

func (a *Agents) isAway(pod *corev1.Pod, but types.UID) bool {
	for _, r := range faultapi.All[*request](a.Server) {
		if podOf(r) == pod.UID && r.UID != but && r.DeletionTimestamp == nil && !api.HasEnded(&r.Status) {
			return true
		}
	}
	return false
}

// View is the state of a workload on which a reconciliation's decision depends.
type View struct {
	Owner client.Object
	Pods  []*corev1.Pod
	// IsAvailable reports whether a Pod is available.
	IsAvailable func(*corev1.Pod) bool
	// Least is the smallest number of Pods that must be available after a write.
	Least  int
	Paused bool
}

// Judge checks a controller's write of a request: a restart must have been requested, must not restart a Pod twice,
// and must leave enough available Pods. A request on which an agent is working may be deleted only if its Pod no
// longer exists.
func (a *Agents) Judge(x *chaos.Write, v View) {
	created, isNew := x.After.(*request)
	removed, existed := x.Before.(*request)
	if v.Owner == nil {
		a.Failf("restart", "%s of %s, by another loop", x.Call.Verb, x.Call.Name)
	}
	if existed {
		for _, pod := range v.Pods {
			if pod.UID == podOf(removed) && podstate.IsActive(pod) && !api.HasEnded(&removed.Status) && metav1.IsControlledBy(pod, v.Owner) {
				a.Failf("restart", "%s of %s, which is under way", x.Call.Verb, removed.Name)
			}
		}
		return
	}
	if isNew {
		a.judgeRestart(v, created)
	}
}

func (a *Agents) judgeRestart(v View, r *request) {
	text, wanted := v.Owner.GetAnnotations()[apps.AnnotationRestartContainers]
	var target *corev1.Pod
	available := 0
	for _, pod := range v.Pods {
		if pod.UID == podOf(r) {
			target = pod
		}
		if v.IsAvailable(pod) && !a.isAway(pod, r.UID) {
			available++
		}
	}
	switch {
	case !wanted || v.Paused:
		a.Failf("restart", "Pod %s is restarted, wish %q, paused %t", r.Spec.PodName, text, v.Paused)
	case target == nil || target.Name != r.Spec.PodName || !podstate.IsActive(target):
		a.Failf("restart", "Pod %s is restarted, which the pass has not seen", r.Spec.PodName)
	case a.isAway(target, r.UID):
		a.Failf("restart", "Pod %s is restarted twice at a time", target.Name)
	case hasRestarted(target, timeOf(text), r.Spec.Containers):
		a.Failf("restart", "Pod %s is restarted, and has restarted since %s", target.Name, text)
	case v.IsAvailable(target) && available-1 < v.Least:
		a.Failf("budget", "the restart of Pod %s leaves %d available Pods, at least %d must stay", target.Name, available-1, v.Least)
	}
}

func timeOf(text string) time.Time {
	word, _, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339, word)
	if err != nil {
		panic(fmt.Sprintf("%q is no wish", text))
	}
	return at
}

// hasRestarted reports whether the containers of a Pod have started since a time.
func hasRestarted(pod *corev1.Pod, at time.Time, containers []v1beta1.ContainerRecreateRequestContainer) bool {
	for i := range containers {
		status := podstate.ContainerStatus(pod, containers[i].Name)
		if status == nil || status.State.Running == nil || status.State.Running.StartedAt.Time.Before(at) {
			return !pod.CreationTimestamp.Time.Before(at)
		}
	}
	return true
}

// Converged checks the final state: no request is in progress and, if the rules allow all Pods to restart, each Pod
// has been restarted or its request has failed, and the condition is right.
func (a *Agents) Converged(owner client.Object, conditions v1beta1.Conditions, pods []*corev1.Pod, all bool) {
	text, wanted := owner.GetAnnotations()[apps.AnnotationRestartContainers]
	c := conditions.Find(apps.ConditionContainersRestarted)
	if (c != nil) != wanted {
		a.Failf("restart", "wish %q, condition %+v", text, c)
	}
	failed, requests := 0, map[types.UID]*request{}
	for _, r := range faultapi.All[*request](a.Server) {
		requests[podOf(r)] = r
		if !api.HasEnded(&r.Status) {
			a.Failf("restart", "request %s does not end", r.Name)
		}
		if metav1.IsControlledBy(r, owner) && r.Annotations[apps.AnnotationRestartContainers] != text {
			a.Failf("restart", "request %s of an earlier wish is left", r.Name)
		}
	}
	if !wanted || !all {
		return
	}
	waits := false // the restart waits for the CRD
	for _, pod := range pods {
		if hasRestarted(pod, timeOf(text), containersOf(pod, text)) {
			continue
		}
		failed++
		if gone := strings.Contains(text, "gone"); a.absent.Load() {
			waits = waits || !gone
		} else if requests[pod.UID] == nil && !gone {
			a.Failf("restart", "Pod %s has not restarted since %s: %+v", pod.Name, text, c)
		}
	}
	if waits != (c.Reason == string(restart.NotServed)) {
		a.Failf("restart", "Pods wait for the CRD %t, condition %+v", waits, c)
	}
	if (c.Status == corev1.ConditionTrue) != (failed == 0) {
		a.Failf("restart", "%d of %d Pods have failed to restart, and the condition is %+v", failed, len(pods), c)
	}
}

func containersOf(pod *corev1.Pod, text string) (out []v1beta1.ContainerRecreateRequestContainer) {
	names := strings.Fields(text)[1:]
	if len(names) == 0 {
		for i := range pod.Spec.Containers {
			names = append(names, pod.Spec.Containers[i].Name)
		}
	}
	for _, name := range names {
		out = append(out, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	return out
}
