package sidecarterminator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, sidecars are stopped only after the end of the main containers, each sidecar once.
// Sidecars whose exit codes are ignored are stopped after the other sidecars, and after the phase is set. In the end
// no sidecar that should be stopped runs.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{&v1beta1.ContainerRecreateRequest{}, &corev1.Node{}}, Seeds: 200, Steps: 150, Quiet: 12 * time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world}
			return chaos.Subject{Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.agent, Settle: w.settle, Looks: w.look, Wrote: w.judge, Converged: w.converged}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	pods int
}

// sight is the input of a reconcile's decision: the Pod in the cache.
type sight struct {
	pod   *corev1.Pod
	wrote bool
}

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return Setup(ctx, mgr, mgr.GetClient(), kruise.Options{Gates: map[apps.Gate]bool{apps.GateSidecarTerminator: true}, RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

const virtual = "virtual"

func (w *story) begin() {
	for _, name := range []string{"ordinary", virtual} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		if name == virtual {
			node.Labels[apps.LabelNodeType] = apps.NodeTypeVirtualKubelet
		}
		w.must(w.User.Create(context.Background(), node))
	}
	w.Nodes.Images.SetBroken(slow, true)
	for range 2 {
		w.createPod()
	}
}

const (
	exits = "exits:v1" // the container of this image ends at once
	slow  = "slow:v1"  // the image cannot be pulled for a while
)

func (w *story) settle() { w.Nodes.Images.SetBroken(slow, false) }

// createPod creates a Pod of a Job with up to two main containers and up to three sidecars.
func (w *story) createPod() {
	node := "ordinary"
	if w.Chance(25) {
		node = virtual
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("job-%d", w.Rand().IntN(4))}}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
	if pod.Spec.RestartPolicy = corev1.RestartPolicyNever; w.Chance(30) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	for i := range 1 + w.Rand().IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("main-%d", i), Image: "main:v1"})
	}
	for i := range 1 + w.Rand().IntN(3) {
		c := corev1.Container{Name: fmt.Sprintf("side-%d", i), Image: "side:v1"}
		if w.Chance(20) {
			c.Image = slow
		}
		if w.Chance(80) {
			c.Env = append(c.Env, corev1.EnvVar{Name: apps.EnvTerminateSidecar, Value: "true"})
		}
		if w.Chance(40) {
			c.Env = append(c.Env, corev1.EnvVar{Name: apps.EnvIgnoreExitCode, Value: "true"})
		}
		if w.Chance(50) {
			c.Env = append(c.Env, corev1.EnvVar{Name: apps.EnvTerminateSidecarImage, Value: exits})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	if w.User.Create(context.Background(), pod) == nil { // otherwise a Pod of the name exists
		w.pods++
		w.Logf("user: creates Pod %s with %d containers for the Node %s", pod.Name, len(pod.Spec.Containers), node)
	}
}

// users makes a random change as a user, a container or a Node.
func (w *story) users() {
	pod := w.AnyPod()
	switch n := w.Rand().IntN(12); {
	case n < 2 && w.pods < 12 || pod == nil:
		w.createPod()
	case n < 3:
		w.Logf("user: deletes Pod %s", pod.Name)
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod.DeepCopy())))
	case n < 9:
		c := &pod.Spec.Containers[w.Rand().IntN(len(pod.Spec.Containers))]
		if code := int32(w.Rand().IntN(3) / 2); w.Nodes.Exit(pod.UID, c.Name, code) {
			w.Logf("node: container %s of Pod %s exits with %d", c.Name, pod.Name, code)
		}
	case n < 10 && w.Chance(50):
		broken := w.Chance(50)
		w.Logf("node: image %s cannot be pulled: %v", slow, broken)
		w.Nodes.Images.SetBroken(slow, broken)
	case n < 10:
		w.Logf("garbage is collected: %v", w.Server.CollectGarbage())
	default:
		w.agent()
	}
}

// agent stops the containers of requests, and ends the containers whose image exits at once.
func (w *story) agent() (changed bool) {
	for _, request := range faultapi.All[*v1beta1.ContainerRecreateRequest](w.Server) {
		if request.Status.Phase == v1beta1.ContainerRecreateRequestCompleted {
			continue
		}
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			for _, c := range request.Spec.Containers {
				if pod.Name == request.Spec.PodName && metav1.IsControlledBy(request, pod) && w.Nodes.Exit(pod.UID, c.Name, 137) {
					w.Logf("agent: stops container %s of Pod %s", c.Name, pod.Name)
				}
			}
		}
		done := request.DeepCopy()
		done.Status.Phase = v1beta1.ContainerRecreateRequestCompleted
		w.must(client.IgnoreNotFound(w.User.Status().Update(context.Background(), done)))
		changed = true
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		for i := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[i]; w.Nodes.Image(pod.UID, c.Name) == exits {
				changed = w.Nodes.Exit(pod.UID, c.Name, 0) || changed
			}
		}
	}
	return changed
}

func (w *story) look(task *chaos.Task, call *faultapi.Call) {
	s, _ := task.View.(*sight)
	if s == nil {
		s = &sight{}
		task.View = s
	}
	if s.wrote = s.wrote || call != nil && !call.IsRead(); s.wrote {
		return
	}
	if s.pod = new(corev1.Pod); task.Process.Cache.Get(context.Background(), task.Object, s.pod) != nil {
		s.pod = nil
	}
}

// judge checks a write of the controller.
func (w *story) judge(write *chaos.Write) {
	s, _ := write.Task.View.(*sight)
	if s == nil || s.pod == nil {
		w.Failf("view", "%s without a Pod", write.Call)
	}
	mains, sidecars := containersOf(s.pod)
	for _, c := range mains {
		if !c.hasEnded() || s.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && c.exitCode() != 0 {
			w.Failf("early", "%s for Pod %s, whose container %s has not ended", write.Call, s.pod.Name, c.name)
		}
	}
	counted := slices.ContainsFunc(sidecars, func(c container) bool { return !c.ignore && !c.hasEnded() })
	if request, ok := write.After.(*v1beta1.ContainerRecreateRequest); ok && write.Before == nil {
		w.judgeRequest(s.pod, sidecars, request, counted)
		return
	}
	before, _ := write.Before.(*corev1.Pod)
	after, _ := write.After.(*corev1.Pod)
	if before == nil || after == nil || before.UID != s.pod.UID {
		w.Failf("stranger", "%s", write.Call)
	}
	for i := range after.Spec.Containers {
		was, is := &before.Spec.Containers[i], &after.Spec.Containers[i]
		if was.Image != is.Image && (roleOf(is).image != is.Image || s.pod.Spec.NodeName != virtual) {
			w.Failf("image", "container %s of Pod %s on Node %s gets %s", is.Name, after.Name, after.Spec.NodeName, is.Image)
		}
	}
	phase := corev1.PodSucceeded
	if slices.ContainsFunc(mains, func(c container) bool { return c.exitCode() != 0 }) {
		phase = corev1.PodFailed
	}
	if before.Status.Phase != after.Status.Phase && (counted || after.Status.Phase != phase || s.pod.Spec.NodeName == virtual) {
		w.Failf("phase", "Pod %s is marked as %s while sidecars whose exit codes count run: %v", after.Name, after.Status.Phase, counted)
	}
}

// judgeRequest checks that a request contains only running sidecars, and no sidecar of another request.
func (w *story) judgeRequest(pod *corev1.Pod, sidecars []container, request *v1beta1.ContainerRecreateRequest, counted bool) {
	if !metav1.IsControlledBy(request, pod) || request.Spec.PodName != pod.Name || pod.Spec.NodeName == virtual {
		w.Failf("request", "%s is for Pod %s on Node %s, of Pod %s", request.Name, request.Spec.PodName, pod.Spec.NodeName, pod.Name)
	}
	for _, asked := range request.Spec.Containers {
		i := slices.IndexFunc(sidecars, func(c container) bool { return c.name == asked.Name })
		switch {
		case i < 0 || !sidecars[i].stop || sidecars[i].hasEnded():
			w.Failf("request", "%s asks for container %s of Pod %s", request.Name, asked.Name, pod.Name)
		case sidecars[i].ignore && (counted || !w.isOver(pod)):
			w.Failf("order", "%s asks for container %s of Pod %s, while others run: %v", request.Name, asked.Name, pod.Name, counted)
		}
		for _, other := range faultapi.All[*v1beta1.ContainerRecreateRequest](w.Server) {
			if other.Name != request.Name && metav1.IsControlledBy(other, pod) && slices.ContainsFunc(other.Spec.Containers, func(c v1beta1.ContainerRecreateRequestContainer) bool { return c.Name == asked.Name }) {
				w.Failf("twice", "%s and %s ask for container %s of Pod %s", request.Name, other.Name, asked.Name, pod.Name)
			}
		}
	}
}

// isOver reports whether a Pod has ended according to its phase, or was deleted.
func (w *story) isOver(pod *corev1.Pod) bool {
	current := w.Nodes.Pod(client.ObjectKeyFromObject(pod), pod.UID)
	return current == nil || hasEnded(current)
}

// converged checks that no sidecar that should be stopped runs, except sidecars that the kubelet has restarted
// because of the Pod's restart policy.
func (w *story) converged() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.DeletionTimestamp != nil || podstate.Condition(pod, corev1.PodReady) == nil {
			continue
		}
		due, _ := isDue(pod)
		if !due {
			continue
		}
		_, sidecars := containersOf(pod)
		running := map[string]bool{}
		for _, c := range sidecars {
			switch {
			case c.hasEnded() || c.status.RestartCount > 0:
			case pod.Spec.NodeName == virtual && c.image != "", pod.Spec.NodeName != virtual && c.stop && !c.ignore:
				running[c.name] = true
			}
		}
		if len(running) > 0 {
			w.Failf("stuck", "sidecars %v of Pod %s run on", slices.Sorted(maps.Keys(running)), pod.Name)
		}
	}
}
