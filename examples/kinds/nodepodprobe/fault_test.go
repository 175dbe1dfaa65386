package nodepodprobe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/podprobemarker"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, with agents that are silent, late or hostile, a Node gets only the probes of its own
// Pods. A Pod gets only the marks that its own Node's reports justify, and keeps all values of other writers. A
// container restarts only for a failed liveness probe of its present instance, one container at a time, within the
// budget. In the end NodePodProbes and Pods contain exactly the probes and marks of the existing PodProbeMarkers.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 120, Steps: 300, Quiet: 3 * time.Minute,
		Kinds: []client.Object{&v1alpha1.PodProbeMarker{}, faultapi.ClusterWide(&v1alpha1.NodePodProbe{}), &corev1.Node{}, &v1beta1.ContainerRecreateRequest{}},
		New: func(world *chaos.World) chaos.Subject {
			w := &story{
				World: world, silent: map[string]bool{}, seen: map[string]*v1alpha1.NodePodProbe{}, instances: map[string]string{}, fails: map[string]bool{},
				granted: map[types.UID]bool{}, touched: map[types.UID]bool{}, restarts: map[restarted]time.Time{}, past: newPast(),
			}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.work, Settle: w.settle,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults: Pods with four names on three Nodes,
// and three PodProbeMarkers.
type story struct {
	*chaos.World

	policy    string          // the resource whose writes are refused
	silent    map[string]bool // Nodes whose agent does nothing
	seen      map[string]*v1alpha1.NodePodProbe
	instances map[string]string // container instances in the last report, by Node, Pod and probe
	fails     map[string]bool   // containers that fail their probes, by Pod and probe

	mu      sync.Mutex
	granted map[types.UID]bool // Pods that the disruption budget permits to restart, without a request yet

	touched map[types.UID]bool // Pods in which a user has damaged the record of marks
	past    *past

	restarts map[restarted]time.Time
}

const (
	team = "team-a"
	// manual is the value that users write into labels and annotations.
	manual = "by-hand"
)

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	options := kruise.Options{
		Gates: map[apps.Gate]bool{apps.GatePodProbeMarker: true, apps.GateEnhancedLivenessProbe: true}, Permit: w.permit,
		RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
		},
	}
	return errors.Join(Setup(ctx, mgr, mgr.GetClient(), options), podprobemarker.Setup(ctx, mgr, mgr.GetClient(), options))
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func nodeNames() []string   { return []string{"node-0", "node-1", "node-2"} }
func markerNames() []string { return []string{"m", "xm", "other"} }
func podNames() []string    { return []string{"web-0", "web-1", "web-2", "web-3"} }

// one returns a random name from the list.
func (w *story) one(names []string) string { return names[w.Rand().IntN(len(names))] }

func (w *story) begin() {
	for _, name := range nodeNames() {
		w.makeNode(name)
	}
	for _, name := range podNames()[:2+w.Rand().IntN(3)] {
		w.makePod(name)
	}
	for _, name := range markerNames()[:1+w.Rand().IntN(3)] {
		w.makeMarker(name)
	}
}

func stored[T client.Object](w *story, like T, namespace, name string) (object T, ok bool) {
	found, ok := w.Server.Stored(like, client.ObjectKey{Namespace: namespace, Name: name}).(T)
	if !ok {
		return object, false
	}
	object, ok = found.DeepCopyObject().(T)
	return object, ok
}

func (w *story) makeNode(name string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Logf("user: Node %s", name)
	w.must(w.User.Create(context.Background(), node))
	w.setReady(node, w.Chance(80))
}

func (w *story) setReady(node *corev1.Node, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	w.must(w.User.Status().Update(context.Background(), node))
}

// makePod creates a random Pod. The cache keeps all fields of the Pod, or only the fields of Pods with an owner of
// another API group. The Pod may have liveness probes that the agent runs, and an annotation that names
// PodProbeMarkers.
func (w *story) makePod(name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: map[string]string{"app": w.one([]string{"web", "web", "db"})}, Annotations: map[string]string{}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}, {Name: "log", Image: "log:v1"}}
	if w.Chance(50) {
		pod.Spec.DNSPolicy = corev1.DNSClusterFirst
	}
	if w.Chance(50) {
		pod.Annotations[apps.AnnotationContainerProbeContext] = `[{"name":"app","livenessProbe":{"exec":{"command":["live"]}}},{"name":"log","livenessProbe":{"tcpSocket":{"port":1}}}]`
	}
	if w.Chance(20) {
		pod.Annotations[apps.AnnotationPodProbeMarkerList] = w.one([]string{"m,xm", "xm", ""})
	}
	w.Logf("user: Pod %s with labels %v and annotations %v", name, pod.Labels, pod.Annotations)
	w.must(w.User.Create(context.Background(), pod))
	if w.Chance(60) { // the Pod runs at once
		w.Nodes.Schedule(pod, w.one(nodeNames()))
		w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
		w.Nodes.Run(pod.UID)
		w.Nodes.Report(pod.UID)
	}
}

// probe returns a random probe for a PodProbeMarker. Different PodProbeMarkers use the same conditions and keys, so
// that conflicts occur.
func (w *story) probe(marker, name string) v1alpha1.PodContainerProbe {
	p := v1alpha1.PodContainerProbe{Name: name, ContainerName: w.one([]string{"app", "app", "log", "missing"})}
	switch w.Rand().IntN(3) {
	case 0:
		p.Probe.Exec = &corev1.ExecAction{Command: []string{name, w.one([]string{"a", "b"})}}
	case 1:
		p.Probe.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromString("web")} // unknown to the container log
	case 2:
		p.Probe.HTTPGet = &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80), Scheme: "HTTP"}
	}
	if w.Chance(70) {
		p.PodConditionType = w.one([]string{"example.com/one", "example.com/two"}) + name
	}
	for _, state := range []v1alpha1.ProbeState{v1alpha1.ProbeSucceeded, v1alpha1.ProbeFailed} {
		if p.PodConditionType == "" || w.Chance(60) {
			p.MarkerPolicy = append(p.MarkerPolicy, v1alpha1.ProbeMarkerPolicy{
				State:       state,
				Labels:      map[string]string{w.one([]string{"role", "zone"}): w.one([]string{marker + "-" + string(state), string(state)})},
				Annotations: map[string]string{w.one([]string{"note", "hint"}): marker + "/" + name + "/" + string(state)},
			})
		}
	}
	return p
}

func (w *story) makeMarker(name string) {
	m := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.one([]string{"web", "web", "db"})}}
	w.fill(m)
	w.must(w.User.Create(context.Background(), m))
}

func (w *story) fill(m *v1alpha1.PodProbeMarker) {
	m.Spec.Probes = []v1alpha1.PodContainerProbe{w.probe(m.Name, "p")}
	if w.Chance(50) {
		m.Spec.Probes = append(m.Spec.Probes, w.probe(m.Name, "q"))
	}
	w.Logf("user: marker %s of %v with %s", m.Name, m.Spec.Selector.MatchLabels, text(m.Spec.Probes))
}

// users makes a random change that a user, a Node or an attacker could make.
func (w *story) users() {
	switch n := w.Rand().IntN(50); {
	case n < 8:
		w.changeMarker()
	case n < 18:
		w.changePod()
	case n < 23:
		w.changeNode()
	case n < 26:
		w.policy = w.one([]string{"", "", "nodepodprobes", "pods", "podprobemarkers", "containerrecreaterequests"})
		w.Logf("admission: refuses %q", w.policy)
	case n < 30:
		w.flip()
	case n < 33:
		w.restartContainers()
	case n < 36:
		w.lie(w.one(nodeNames()))
	case n < 38:
		name := w.one(nodeNames())
		w.silent[name] = !w.silent[name]
		w.Logf("the agent of %s is silent: %t", name, w.silent[name])
	case n < 39:
		w.Sleep(time.Duration(w.Rand().IntN(20)) * time.Second)
	default:
		w.report(w.one(nodeNames()))
	}
}

func (w *story) changeMarker() {
	name := w.one(markerNames())
	m, exists := stored(w, &v1alpha1.PodProbeMarker{}, team, name)
	switch {
	case !exists:
		w.makeMarker(name)
	case m.DeletionTimestamp != nil:
	case w.Chance(40):
		w.Logf("user: marker %s is deleted", name)
		w.must(w.User.Delete(context.Background(), m))
	default:
		w.fill(m)
		w.must(w.User.Update(context.Background(), m))
	}
}

func (w *story) changePod() {
	name := w.one(podNames())
	pod, exists := stored(w, &corev1.Pod{}, team, name)
	if !exists {
		w.makePod(name)
		return
	}
	switch n := w.Rand().IntN(20); {
	case n < 4:
		var options []client.DeleteOption
		if w.Chance(50) {
			options = append(options, client.GracePeriodSeconds(0))
		}
		w.Logf("user: Pod %s is deleted", name)
		w.must(w.User.Delete(context.Background(), pod, options...))
	case n < 9:
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "app", w.one([]string{"web", "db", "none"}))
		w.Logf("user: Pod %s is of %s", name, pod.Labels["app"])
		w.must(w.User.Update(context.Background(), pod))
	case n < 12:
		metav1.SetMetaDataLabel(&pod.ObjectMeta, w.one([]string{"role", "zone", "mine"}), manual)
		w.Logf("user: Pod %s has labels %v", name, pod.Labels)
		w.must(w.User.Update(context.Background(), pod))
	case n < 13:
		w.touched[pod.UID] = true
		if delete(pod.Annotations, apps.AnnotationProbeMarks); w.Chance(50) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, apps.AnnotationProbeMarks, w.one([]string{"{", `{"m#p":{"labels":{"app":"web","mine":"by-hand"},"condition":"Ready"}}`}))
		}
		w.Logf("user: Pod %s has the ledger %q", name, pod.Annotations[apps.AnnotationProbeMarks])
		w.must(w.User.Update(context.Background(), pod))
	case n < 15:
		t := corev1.PodConditionType(w.one([]string{"example.com/onep", "example.com/twop"}))
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, Reason: manual})
		w.Logf("others: Pod %s has the condition %s", name, t)
		w.must(w.User.Status().Update(context.Background(), pod))
	case n < 17 && pod.Status.PodIP == "" && pod.Spec.NodeName != "":
		pod.Status.PodIP = fmt.Sprintf("10.0.0.%d", 1+w.Rand().IntN(200))
		w.Logf("node: Pod %s has the address %s", name, pod.Status.PodIP)
		w.must(w.User.Status().Update(context.Background(), pod))
	default:
		container := w.one([]string{"app", "log"})
		w.Logf("node: container %s of Pod %s exits: %t", container, name, w.Nodes.Exit(pod.UID, container, 1))
	}
}

func (w *story) changeNode() {
	name := w.one(nodeNames())
	node, exists := stored(w, &corev1.Node{}, "", name)
	switch n := w.Rand().IntN(10); {
	case !exists:
		w.makeNode(name)
	case n < 5:
		ready := w.Chance(60)
		w.Logf("node: %s is ready: %t", name, ready)
		w.setReady(node, ready)
	case n < 6:
		w.virtual(node, node.Labels == nil)
	default:
		w.Logf("user: Node %s is deleted", name)
		w.must(w.User.Delete(context.Background(), node))
	}
}

func (w *story) virtual(node *corev1.Node, is bool) {
	if node.Labels = nil; is {
		node.Labels = map[string]string{apps.LabelNodeType: apps.NodeTypeVirtualKubelet}
	}
	w.Logf("user: Node %s has labels %v", node.Name, node.Labels)
	w.must(w.User.Update(context.Background(), node))
}

// flip changes the result of future checks of a Pod's probe.
func (w *story) flip() {
	pod := w.AnyPod()
	if pod == nil {
		return
	}
	probe := w.one([]string{"p", "q", "app", "log"})
	key := string(pod.UID) + "/" + probe
	w.fails[key] = !w.fails[key]
	w.Logf("node: probe %s of Pod %s fails: %t", probe, pod.Name, w.fails[key])
}

// permit acts as a disruption budget of one Pod: permit returns an error while another Pod has a permission or an
// unfinished ContainerRecreateRequest.
func (w *story) permit(_ context.Context, pod *corev1.Pod, _ disruption.Operation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := maps.Clone(w.granted)
	for _, r := range faultapi.All[*v1beta1.ContainerRecreateRequest](w.Server) {
		others[podOf(r)] = others[podOf(r)] || !hasEnded(r)
	}
	delete(others, pod.UID)
	delete(w.granted, pod.UID)
	for _, taken := range others {
		if taken {
			return reason.Reason{Code: "BudgetUsed", Object: reason.ObjectOf("Pod", pod), Detail: "another Pod is out of service"}
		}
	}
	w.granted[pod.UID] = true
	return nil
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource == w.policy {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy says no"))
	}
	return nil
}

// settle removes all obstacles, so that the controllers can reach the final state: no write is refused, Nodes are
// ready, agents work, and liveness probes succeed.
func (w *story) settle() {
	w.policy, w.silent = "", map[string]bool{}
	for _, name := range nodeNames() {
		if node, exists := stored(w, &corev1.Node{}, "", name); exists {
			w.setReady(node, true)
			w.virtual(node, false)
		}
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		delete(w.fails, string(pod.UID)+"/app")
		delete(w.fails, string(pod.UID)+"/log")
	}
}
