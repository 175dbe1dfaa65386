package daemon_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/daemon"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/onnode"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/faultnodes"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

const agentName = "agent"

// onHome is the agent of the Node home, in a simulated process.
type onHome struct {
	*story

	process *chaos.Process
	pods    toolscache.Indexer
	cached  *onnode.Cached
	worker  *agent.Worker

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// agent sets up the agent: the daemon's work for Pods, with the queue and the caches of the simulated process.
func (w *story) agent(ctx context.Context, p *chaos.Process, mgr manager.Manager) error {
	a := &onHome{story: w, process: p}
	machine := &machine{Machine: faultnodes.New(w.Nodes, w.Beside(), home), story: w}
	server, err := fakecri.Start(fakecri.Options{Machine: machine, Faults: &gate{a, machine}})
	if err != nil {
		return err
	}
	w.runtime, w.idle = server, map[types.UID]bool{}
	runtimes := cri.NewRuntimes(nil, cri.NewDialed("home", func(ctx context.Context) (net.Conn, error) { return server.Dial(ctx, "") }))
	runtimes.OnChange(func(context.Context) { a.wakeAll() })
	requests, err := store(ctx, mgr, &request{})
	if err != nil {
		return err
	}
	if a.pods, err = store(ctx, mgr, &corev1.Pod{}); err != nil {
		return err
	}
	if a.cached, err = onnode.NewCached(active{requests}, v1beta1.GroupVersion.WithResource("containerrecreaterequests").GroupResource(), patchRequest(mgr)); err != nil {
		return err
	}
	work := daemon.Work(daemon.Ways{Requests: a.cached, Report: patchPod(mgr), Restarts: onnode.Options{Tell: func(_ context.Context, e onnode.Event) {
		w.tell(e.Reason, e.Message)
	}}})
	a.worker, err = agent.NewWorker(home, a, steady{runtimes}, work, agent.WorkerOptions{Wake: a.wake, HookFailed: func(_ context.Context, _ reason.Object, container string, err error) {
		w.tell(container, err.Error())
	}})
	if err != nil {
		return err
	}
	return errors.Join(a.listen(mgr), mgr.Add(manager.RunnableFunc(a.worker.Start)), mgr.Add(manager.RunnableFunc(runtimes.Start)),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			server.Stop()
			return nil
		})))
}

// steady replaces the error of each call without a response by a fixed error. Otherwise either a deadline or a broken
// connection would end the call first, and the different texts would make the fault schedule nondeterministic.
type steady struct{ *cri.Runtimes }

func unanswered(err error) error {
	if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Unavailable {
		return status.Error(code, "no answer")
	}
	return err
}

// Containers implements agent.Runtimes.
func (s steady) Containers(ctx context.Context, pod types.UID, ids ...string) ([]cri.Container, error) {
	found, err := s.Runtimes.Containers(ctx, pod, ids...)
	return found, unanswered(err)
}

// Environment implements agent.Runtimes.
func (s steady) Environment(ctx context.Context, id string) ([]string, error) {
	env, err := s.Runtimes.Environment(ctx, id)
	return env, unanswered(err)
}

// Stop implements agent.Runtimes.
func (s steady) Stop(ctx context.Context, id string, grace time.Duration) error {
	return unanswered(s.Runtimes.Stop(ctx, id, grace))
}

// Exec implements agent.Runtimes.
func (s steady) Exec(ctx context.Context, id string, command []string, limit time.Duration) (int32, error) {
	code, err := s.Runtimes.Exec(ctx, id, command, limit)
	return code, unanswered(err)
}

// listen makes events enqueue Pods, as the informers of a real agent do.
func (a *onHome) listen(mgr manager.Manager) error {
	c, err := controller.New(agentName, mgr, controller.Options{
		Reconciler: a, MaxConcurrentReconciles: 2,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
	})
	if err != nil {
		return err
	}
	byRequest := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, r *request) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName}}}
	})
	return errors.Join(
		c.Watch(source.Kind(mgr.GetCache(), &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})),
		c.Watch(source.Kind(mgr.GetCache(), &request{}, byRequest)),
		c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.queue = queue
			return nil
		})),
	)
}

// wake enqueues a Pod after a millisecond, so that events at the same time cause one reconcile. Otherwise the order
// of goroutines would make the schedule nondeterministic.
func (a *onHome) wake(pod types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queue != nil {
		a.queue.AddAfter(reconcile.Request{NamespacedName: pod}, time.Millisecond)
	}
}

func (a *onHome) wakeAll() {
	for _, key := range slices.Sorted(slices.Values(a.pods.ListKeys())) {
		namespace, name, _ := strings.Cut(key, "/")
		a.wake(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// Reconcile runs the agent's work for a Pod.
func (a *onHome) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := a.Pod(req.NamespacedName)
	needs := pod == nil || a.needs(pod)
	if pod != nil && needs {
		a.note(func() { a.idle[pod.UID] = false })
	}
	again, err := a.worker.Do(ctx, req.NamespacedName)
	if !needs && err == nil {
		a.note(func() { a.idle[pod.UID] = true })
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// Pod implements agent.Pods.
func (a *onHome) Pod(name types.NamespacedName) *corev1.Pod {
	object, _, err := a.pods.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !ok {
		return nil
	}
	return pod
}

// needs reports whether the agent's cache shows a reason to stop a container of a Pod: a request, or an in-place
// update.
func (a *onHome) needs(pod *corev1.Pod) bool {
	found, wait := a.cached.Of(client.ObjectKeyFromObject(pod))
	return wait > 0 || isUpdating(pod) || slices.ContainsFunc(found, func(r *request) bool {
		return r.Labels[apps.LabelRequestPodUID] == string(pod.UID) && r.DeletionTimestamp == nil && !hasEnded(r)
	})
}

// store returns the store of a kind in the cache of a process.
func store(ctx context.Context, mgr manager.Manager, object client.Object) (toolscache.Indexer, error) {
	informer, err := mgr.GetCache().GetInformer(ctx, object)
	if err != nil {
		return nil, err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("%T has no store", informer)
	}
	return shared.GetIndexer(), nil
}

// active is a store that shows only the requests that the agent's watch selects.
type active struct{ toolscache.Indexer }

// ByIndex leaves out the requests without the label for agents.
func (s active) ByIndex(index, key string) ([]any, error) {
	found, err := s.Indexer.ByIndex(index, key)
	return slices.DeleteFunc(found, func(object any) bool {
		r, ok := object.(*request)
		return !ok || r.Labels[apps.LabelRequestActive] != "true" || r.Labels[apps.LabelRequestNodeName] != home
	}), err
}

func patchRequest(mgr manager.Manager) onnode.Patch {
	return func(ctx context.Context, name types.NamespacedName, patch []byte) (string, error) {
		r := &request{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		err := mgr.GetClient().Status().Patch(ctx, r, client.RawPatch(types.MergePatchType, patch))
		return r.ResourceVersion, err
	}
}

func patchPod(mgr manager.Manager) func(context.Context, types.NamespacedName, []byte) error {
	return func(ctx context.Context, name types.NamespacedName, patch []byte) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		return mgr.GetClient().Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))
	}
}

// note changes, under a lock, fields of the story that goroutines of the agent and the container runtime also use.
func (w *story) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *story) tell(news ...string) { w.note(func() { w.told = append(w.told, news...) }) }

// gate makes each call to the container runtime wait until the fault schedule lets the call continue.
type gate struct {
	*onHome

	machine *machine
}

// Next implements fakecri.Faults. The runtime may stop a container after the agent has stopped waiting for the
// response.
func (g *gate) Next(ctx context.Context, method string, request any) fakecri.Fault {
	id := target(request)
	if method == "StopContainer" {
		g.judgeNeed(id)
	}
	if g.isSpared(method) {
		return fakecri.Fault{}
	}
	call := faultapi.Call{Verb: "get", Resource: schema.GroupResource{Resource: method}, Name: id, Task: "runtime"}
	fates := make(chan faultapi.Fate, 1)
	go func() {
		fate := g.process.Pass(ctx, call)
		if fates <- fate; ctx.Err() != nil && fate == (faultapi.Fate{}) && method == "StopContainer" {
			_ = g.machine.Stop(ctx, id, 0)
		}
	}()
	select {
	case <-ctx.Done():
		return fakecri.Fault{Kind: fakecri.Hang}
	case fate := <-fates:
		return g.fault(fate)
	}
}

// isSpared reports whether a call is carried out at once, without faults.
func (g *gate) isSpared(method string) bool {
	g.Beside().Lock()
	defer g.Beside().Unlock()
	return g.quick && g.trouble == "" || method == "Version" && g.Over()
}

// fault converts the fate of a call to a fault of the simulated runtime.
func (g *gate) fault(fate faultapi.Fate) fakecri.Fault {
	g.Beside().Lock()
	defer g.Beside().Unlock()
	err := cmp.Or(fate.Before, fate.After)
	switch {
	case err == nil && g.trouble == "":
		return fakecri.Fault{}
	case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown: // the agent has died
		return fakecri.Fault{Done: fate.Before == nil, Kind: fakecri.Hang}
	}
	f := fakecri.Fault{Done: fate.After != nil || fate.Before == nil && g.Chance(30), Kind: g.trouble, Err: status.Error(codes.Unavailable, "injected")}
	if f.Kind == "" {
		f.Kind = []fakecri.Kind{fakecri.Fail, fakecri.Hang, fakecri.Drop, fakecri.Restart}[g.Rand().IntN(4)]
	}
	if g.Chance(5) {
		f.Err = status.Error(codes.FailedPrecondition, "injected for good")
	}
	g.Logf("the runtime: %s, done before: %t", f.Kind, f.Done)
	return f
}

// target returns a text that distinguishes calls of the same method.
func target(request any) string {
	switch r := request.(type) {
	case *runtimeapi.ListContainersRequest:
		return strings.Join([]string{r.GetFilter().GetLabelSelector()["io.kubernetes.pod.uid"]}, "")
	case interface{ GetContainerId() string }:
		return r.GetContainerId()
	}
	return ""
}

// judgeNeed checks that the agent begins no stop of a container if its last complete reconciliation of the Pod has
// found no reason for a stop.
func (g *gate) judgeNeed(id string) {
	uid, _, _ := strings.Cut(id, "/")
	g.note(func() {
		if g.idle[types.UID(uid)] {
			g.late = append(g.late, id)
		}
	})
}

// machine contains the containers of the Node, with a secret value in each environment.
type machine struct {
	*faultnodes.Machine

	story *story
	one   sync.Mutex
}

// Containers implements fakecri.Machine.
func (m *machine) Containers() []fakecri.Container {
	all := m.Machine.Containers()
	for i := range all {
		all[i].Env = append(slices.Clone(all[i].Env), fakecri.Variable{Name: "PASSWORD", Value: password})
	}
	return all
}

// Stop implements fakecri.Machine.
func (m *machine) Stop(ctx context.Context, id string, grace time.Duration) error {
	m.one.Lock()
	defer m.one.Unlock()
	nodes := m.story.Beside()
	nodes.Lock()
	all := m.story.Nodes.Instances()
	nodes.Unlock()
	if i := slices.IndexFunc(all, func(i faultapi.Instance) bool { return i.ID == id && i.Exit == nil }); i >= 0 {
		m.story.note(func() { m.story.stops = append(m.story.stops, all[i]) })
	}
	return m.Machine.Stop(ctx, id, grace)
}
