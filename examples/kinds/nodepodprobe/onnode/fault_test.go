package onnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults runs the agent with a container runtime that fails, loses responses or does not respond, with an
// outdated NodePodProbe, and with agents that die. Each report is about a probe of the NodePodProbe that the agent
// has read. A report contains a result of the container's present instance, after as many equal results in a row as
// the thresholds say. A report is written only if a state or message has changed. In the end the reports contain the
// true states of the probes.
func TestFaults(t *testing.T) { chaos.Run(t, faults(t)) }

func faults(t testing.TB) chaos.Plan {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{faultapi.ClusterWide(&list{})}, Seeds: 100, Steps: 400, Quiet: time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, fails: map[string]bool{}, answers: map[string][]answer{}}
			return chaos.Subject{
				Setup: w.idle, Beside: []func(context.Context, *chaos.Process, manager.Manager) error{w.agent},
				Begin: w.begin, Users: w.users, Settle: w.settle, Denies: w.denies, Wrote: w.judge, Check: w.check, Converged: w.converged,
			}
		},
	}
}

type list = v1alpha1.NodePodProbe

// story is the state of a fault schedule, that is a test run with random faults: a Node, two Pods with two containers
// each, and the NodePodProbe of the Node.
type story struct {
	*chaos.World

	denied bool

	mu      sync.Mutex
	fails   map[string]bool     // probes that fail, by Pod and command
	answers map[string][]answer // by instance and command
	broken  []string            // rules broken in a goroutine of the agent
}

// answer is the result of a command. lost means that the agent has not received the result.
type answer struct {
	failed, lost bool
	message      string
}

const home = "home"

// idle sets up the manager's process, which only watches the NodePodProbe.
func (w *story) idle(ctx context.Context, mgr manager.Manager) error {
	_, err := mgr.GetCache().GetInformer(ctx, &list{})
	return err
}

// agent sets up the agent.
func (w *story) agent(ctx context.Context, p *chaos.Process, mgr manager.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &list{})
	if err != nil {
		return err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("%T has no store", informer)
	}
	lists := &lists{story: w, client: mgr.GetClient(), store: shared.GetIndexer()}
	probes := New(lists, &onHome{w, p}, Options{})
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { probes.Wake() }, UpdateFunc: func(any, any) { probes.Wake() }, DeleteFunc: func(any) { probes.Wake() },
	})
	return errors.Join(err, mgr.Add(manager.RunnableFunc(probes.Start)))
}

// lists implements Lists with the cache of the agent's process.
type lists struct {
	*story

	client client.Client
	store  toolscache.Indexer

	mu      sync.Mutex
	written *list
	last    *list // returned by List
	at      time.Time
}

// List implements Lists.
func (l *lists) List() *list {
	object, exists, _ := l.store.GetByKey(home)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = nil; exists {
		l.last, _ = object.(*list)
		if l.written != nil && l.written.UID == l.last.UID && len(l.written.ResourceVersion) >= len(l.last.ResourceVersion) && l.written.ResourceVersion > l.last.ResourceVersion {
			l.last = l.written
		}
	}
	return l.last
}

// PatchStatus implements Lists.
func (l *lists) PatchStatus(ctx context.Context, uid types.UID, status v1alpha1.NodePodProbeStatus) error {
	l.judgeStatus(&status)
	states := status.PodProbeStatuses
	if states == nil {
		states = []v1alpha1.PodProbeStatus{}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{"podProbeStatuses": states}})
	if err != nil {
		return err
	}
	object := &list{ObjectMeta: metav1.ObjectMeta{Name: home}}
	if err := l.client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, body)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = object
	return nil
}

// onHome implements Runtimes. Each call waits until the schedule lets the call return.
type onHome struct {
	*story

	process *chaos.Process
}

// Containers implements Runtimes.
func (r *onHome) Containers(ctx context.Context, pod types.UID, _ ...string) (out []cri.Container, err error) {
	fate := r.process.Pass(ctx, faultapi.Call{Verb: "get", Resource: schema.GroupResource{Resource: "containers"}, Name: string(pod), Task: "runtime"})
	if err := errors.Join(fate.Before, fate.After); err != nil {
		return nil, err
	}
	r.Beside().Lock()
	defer r.Beside().Unlock()
	for _, i := range r.Nodes.Instances() {
		if i.Pod.UID != pod {
			continue
		}
		c := cri.Container{PodUID: pod}
		c.Name, c.ID, c.Started, c.State = i.Name, i.ID, i.Started.Time, containerrestart.Running
		if i.Exit != nil {
			c.State = containerrestart.Exited
		}
		out = append(out, c)
	}
	return out, nil
}

// RunOutput implements Runtimes.
func (r *onHome) RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (cri.Output, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fate := r.process.Pass(ctx, faultapi.Call{Verb: "get", Resource: schema.GroupResource{Resource: "commands"}, Name: id + " " + command[0], Task: "runtime"})
	r.mu.Lock()
	defer r.mu.Unlock()
	key := id + " " + command[0]
	switch {
	case ctx.Err() != nil:
		r.answers[key] = append(r.answers[key], answer{failed: true, message: "no answer before the timeout"})
		return cri.Output{}, context.DeadlineExceeded
	case errors.Join(fate.Before, fate.After) != nil:
		r.answers[key] = append(r.answers[key], answer{lost: true})
		return cri.Output{}, errors.Join(fate.Before, fate.After)
	}
	r.Beside().Lock()
	defer r.Beside().Unlock()
	i := slices.IndexFunc(r.Nodes.Instances(), func(i faultapi.Instance) bool { return i.ID == id && i.Exit == nil })
	if i < 0 {
		r.answers[key] = append(r.answers[key], answer{lost: true})
		return cri.Output{}, errors.New("the container does not run")
	}
	if r.fails[string(r.Nodes.Instances()[i].Pod.UID)+command[0]] {
		r.answers[key] = append(r.answers[key], answer{failed: true, message: "sick"})
		return cri.Output{ExitCode: 1, Stderr: []byte("sick")}, nil
	}
	r.answers[key] = append(r.answers[key], answer{message: "well"})
	return cri.Output{Stdout: []byte("well")}, nil
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for i := range 2 {
		w.makePod(fmt.Sprint("web-", i))
	}
	w.fill()
}

func (w *story) makePod(name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	pod.Spec.NodeName = home
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}, {Name: "log", Image: "log:v1"}}
	w.must(w.User.Create(context.Background(), pod))
	w.Logf("user: Pod %s of UID %s", name, pod.UID)
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	w.Nodes.Run(pod.UID)
	w.Nodes.Report(pod.UID)
}

func (w *story) list() *list {
	found, _ := w.Server.Stored(&list{}, client.ObjectKey{Name: home}).(*list)
	if found == nil {
		return nil
	}
	return found.DeepCopy()
}

// fill creates the NodePodProbe, or writes a random spec into the NodePodProbe.
func (w *story) fill() {
	spec := v1alpha1.NodePodProbeSpec{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		p := v1alpha1.PodProbe{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
		for _, name := range []string{"m#a", "m#b", "n#a", pod.Name + "-app"} {
			if w.Chance(60) {
				p.Probes = append(p.Probes, w.probe(name))
			}
		}
		if len(p.Probes) > 0 && w.Chance(80) {
			spec.PodProbes = append(spec.PodProbes, p)
		}
	}
	current := w.list()
	raw, err := json.Marshal(spec)
	w.must(err)
	w.Logf("manager: the list is %s", raw)
	if current == nil {
		w.must(w.User.Create(context.Background(), &list{ObjectMeta: metav1.ObjectMeta{Name: home}, Spec: spec}))
		return
	}
	current.Spec = spec
	w.must(w.User.Update(context.Background(), current))
}

func (w *story) probe(name string) (p v1alpha1.ContainerProbe) {
	p.Name, p.ContainerName = name, []string{"app", "log"}[w.Rand().IntN(2)]
	n := w.Rand().IntN(3) // the thresholds depend on the command, because the agent keeps the results of a probe when only its numbers change
	p.Probe.Exec = &corev1.ExecAction{Command: []string{[]string{"x", "y", "z"}[n]}}
	p.Probe.PeriodSeconds, p.Probe.FailureThreshold, p.Probe.SuccessThreshold = int32(w.Rand().IntN(4)), int32(n), int32(2-n)
	return p
}

// users makes a random change that the manager, the kubelet or a user could make.
func (w *story) users() {
	switch n := w.Rand().IntN(20); {
	case n < 5:
		w.fill()
	case n < 6 && w.list() != nil:
		w.Logf("manager: the list is deleted")
		w.must(w.User.Delete(context.Background(), w.list()))
	case n < 9:
		w.denied = w.Chance(30)
		w.Logf("a policy denies all writes: %t", w.denied)
	case n < 13:
		w.flip()
	case n < 15:
		if pod := w.AnyPod(); pod != nil {
			name := []string{"app", "log"}[w.Rand().IntN(2)]
			w.Logf("node: %s of Pod %s exits: %t", name, pod.Name, w.Nodes.Exit(pod.UID, name, 1))
		}
	case n < 16:
		w.replacePod()
	default:
		w.Sleep(time.Duration(1+w.Rand().IntN(5)) * time.Second)
	}
}

func (w *story) flip() {
	pod := w.AnyPod()
	if pod == nil {
		return
	}
	key := string(pod.UID) + []string{"x", "y", "z"}[w.Rand().IntN(3)]
	w.fails[key] = !w.fails[key]
	w.Logf("node: %s fails: %t", key, w.fails[key])
}

func (w *story) replacePod() {
	pod := w.AnyPod()
	if pod == nil {
		return
	}
	w.must(w.User.Delete(context.Background(), pod, client.GracePeriodSeconds(0)))
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	w.makePod(pod.Name)
}

func (w *story) settle() {
	w.denied = false
	w.fill()
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if w.denied {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy says no"))
	}
	return nil
}
