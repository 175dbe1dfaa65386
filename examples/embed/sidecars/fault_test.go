package sidecars

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, only the image of the sidecar changes in a Pod. No more Pods are out of service for
// an upgrade than allowed, and in the end every Pod has the newest image.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	control, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: keys()})
	if err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{faultapi.ClusterWide(&Sidecar{}), faultapi.ClusterWide(&corev1.Namespace{})},
		Seeds: 100, Steps: 150, Quiet: 6 * time.Minute, // longer than a refused upgrade rests
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, control: control, taken: map[types.UID]bool{}}
			return chaos.Subject{
				Setup: func(ctx context.Context, mgr manager.Manager) error { return upgrade(ctx, mgr, control) },
				Begin: w.begin, Users: w.users, Settle: w.settle, Denies: w.denies, Wrote: w.judge, Check: w.serveAgain, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	control *sidecarcontrol.Control
	most    int    // Pods that may be out of service
	denied  string // the name of a Pod whose writes are refused
	pods    int
	// taken are the Pods that the operator has taken out of service, and that are not in service again yet.
	taken map[types.UID]bool
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	w.must(w.User.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	w.most = 1 + w.Rand().IntN(2)
	s := &Sidecar{ObjectMeta: metav1.ObjectMeta{Name: "log"}}
	s.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	s.Spec.Container, s.Spec.MaxUnavailable = corev1.Container{Name: "log", Image: "log:v0"}, w.most
	w.must(w.User.Create(context.Background(), s))
	w.Nodes.Images.SetBroken("log:broken", true)
	for range 2 + w.Rand().IntN(4) {
		w.createPod()
	}
}

func (w *story) sidecar() *Sidecar {
	s := &Sidecar{}
	w.must(w.User.Get(context.Background(), client.ObjectKey{Name: "log"}, s))
	return s
}

// createPod creates a Pod as the webhook would change it.
func (w *story) createPod() {
	set, err := setOf(w.sidecar())
	w.must(err)
	w.pods++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", w.pods), Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	_, err = w.control.Inject(pod, []*sidecarcontrol.Set{set}, sidecarcontrol.Facts{Now: time.Now(), Seed: w.Rand().Uint64()})
	w.must(err)
	w.Logf("user: Pod %s with %s", pod.Name, imageOf(pod))
	w.must(w.User.Create(context.Background(), pod))
}

func imageOf(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "log" })
	if i < 0 {
		return ""
	}
	return pod.Spec.InitContainers[i].Image
}

func (w *story) users() {
	switch n := w.Rand().IntN(20); {
	case n < 10:
		w.release([]string{"log:v0", "log:v1", "log:v2", "log:v3", "log:broken"}[w.Rand().IntN(5)])
	case n < 13:
		w.createPod()
	case n < 16:
		if pod := w.AnyPod(); pod != nil {
			w.Logf("user: deletes Pod %s", pod.Name)
			w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod.DeepCopy())))
		}
	default:
		w.denied = ""
		if pod := w.AnyPod(); pod != nil && w.Chance(60) {
			w.denied = pod.Name
		}
		w.Logf("admission: writes of Pod %q are refused", w.denied)
	}
}

func (w *story) release(image string) {
	s := w.sidecar()
	s.Spec.Container.Image = image
	w.Logf("user: %s", image)
	w.must(w.User.Update(context.Background(), s))
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource == "pods" && call.Subresource == "" && call.Name == w.denied {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy says no"))
	}
	return nil
}

func (w *story) settle() {
	w.denied = ""
	if w.sidecar().Spec.Container.Image == "log:broken" {
		w.release("log:v1")
	}
}

func (w *story) judge(x *chaos.Write) {
	if x.Call.Resource.Resource != "pods" {
		return
	}
	before, ok := x.Before.(*corev1.Pod)
	after, alsoOK := x.After.(*corev1.Pod)
	if !ok || !alsoOK || x.Call.Verb != "patch" {
		w.Failf("foreign", "%s: Pods are patched and nothing else", x.Call)
		return
	}
	if before.Spec.Containers[0].Image != after.Spec.Containers[0].Image || len(before.Spec.InitContainers) != len(after.Spec.InitContainers) {
		w.Failf("application", "%s changes more than the sidecar", x.Call)
	}
	if imageOf(before) == imageOf(after) {
		return
	}
	if w.isBack(before) && podstate.IsActive(before) { // a Pod in the middle of an upgrade is out of service already
		w.taken[after.UID] = true
	}
	if len(w.taken) > w.most {
		w.Failf("budget", "%d Pods are out of service for the sidecar, %d may be", len(w.taken), w.most)
	}
}

// serveAgain removes a Pod from taken as soon as the Pod is in service again, or was deleted. Later failures of the
// Pod on its Node do not count.
func (w *story) serveAgain() {
	pods := faultapi.All[*corev1.Pod](w.Server)
	for uid := range w.taken {
		i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == uid && podstate.IsActive(pod) })
		if i < 0 || w.isBack(pods[i]) {
			delete(w.taken, uid)
		}
	}
}

// isBack reports whether a Pod is in service with the image of its sidecar.
func (w *story) isBack(pod *corev1.Pod) bool {
	i := slices.IndexFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == "log" })
	return podstate.IsReady(pod) && i >= 0 && strings.HasSuffix(pod.Status.InitContainerStatuses[i].Image, imageOf(pod)) // nodes complete names
}

func (w *story) converged() {
	s, pods := w.sidecar(), 0
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !podstate.IsActive(pod) {
			continue
		}
		if pods++; imageOf(pod) != s.Spec.Container.Image || !w.isBack(pod) {
			w.Failf("converged", "Pod %s has %s, want %s in service", pod.Name, imageOf(pod), s.Spec.Container.Image)
		}
	}
	if st := s.Status; int(st.Pods) != pods || int(st.Updated) != pods || int(st.Ready) != pods || st.ObservedGeneration != s.Generation {
		w.Failf("converged", "%d Pods, status %+v", pods, st)
	}
}
