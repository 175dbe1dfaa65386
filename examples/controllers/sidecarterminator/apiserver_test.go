package sidecarterminator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarterminator"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.New(controlplane.Options{Nodes: controlplane.NoNodes})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// world is a namespace of the control plane, with a record of the controller's writes in the namespace.
type world struct {
	client.WithWatch

	t         *testing.T
	namespace string

	mu      sync.Mutex
	writes  map[string][]string // by Pod: the writes for the Pod
	refused bool
}

// begin runs the controller until the test ends.
func begin(t *testing.T, options kruise.Options) *world {
	t.Helper()
	cp := env.Start(t)
	w := &world{WithWatch: controllertest.Client(t, cp), t: t, namespace: env.Namespace(t), writes: map[string][]string{}}
	mgr, err := ctrl.NewManager(cp.Config(), ctrl.Options{
		Scheme: w.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
	})
	if err != nil {
		t.Fatal(err)
	}
	options.Gates = apps.ResolveGates(map[apps.Gate]bool{apps.GateSidecarTerminator: true})
	options.Namespace = w.namespace
	reads, err := client.NewWithWatch(cp.Config(), client.Options{Scheme: w.Scheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	if err := sidecarterminator.Setup(ctx, mgr, interceptor.NewClient(reads, w.recorded()), options); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// recorded returns client functions that record each write of the controller.
func (w *world) recorded() interceptor.Funcs {
	note := func(pod, what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes[pod] = append(w.writes[pod], what)
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			request, ok := obj.(*v1beta1.ContainerRecreateRequest)
			if !ok {
				return c.Create(ctx, obj, opts...)
			}
			note(request.Spec.PodName, "request")
			if w.refused && request.Spec.PodName == "refused" {
				return apierrors.NewForbidden(schema.GroupResource{Group: apps.Group, Resource: "containerrecreaterequests"}, request.Name, errors.New("a policy"))
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			note(obj.GetName(), "patch")
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			note(obj.GetName(), sub)
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}
}

func (w *world) written(pod string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes[pod])
}

// start creates a Pod on a Node, and writes the Pod's status.
func (w *world) start(name string, pod *corev1.Pod, virtual bool) *corev1.Pod {
	w.t.Helper()
	labels := map[string]string{}
	if virtual {
		labels[apps.LabelNodeType] = apps.NodeTypeVirtualKubelet
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name, Labels: labels}}
	if err := w.Create(w.t.Context(), node); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.Delete(context.WithoutCancel(w.t.Context()), node) })
	status := pod.Status
	pod.ObjectMeta, pod.Spec.NodeName = metav1.ObjectMeta{Namespace: w.namespace, Name: name}, node.Name
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	if err := w.Create(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Status = status
	w.report(pod)
	return pod
}

func (w *world) report(pod *corev1.Pod) {
	w.t.Helper()
	if err := w.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// carryOut acts as the node agent and the kubelet: the containers in a ContainerRecreateRequest end with exit code
// 143. Then the Pod's phase becomes that of an ended Pod, if the controller has not set such a phase already.
func (w *world) carryOut(pod *corev1.Pod, name string) []string {
	w.t.Helper()
	request := &v1beta1.ContainerRecreateRequest{}
	controlplanetest.Eventually(w.t, 30*time.Second, func(ctx context.Context) error {
		return w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, request)
	})
	if ref := metav1.GetControllerOf(request); ref == nil || ref.UID != pod.UID || ref.Kind != "Pod" {
		w.t.Errorf("request %s is controlled by %+v, want the Pod", name, ref)
	}
	want := &v1beta1.ContainerRecreateRequestStrategy{ForceRecreate: true, FailurePolicy: "Ignore"}
	if diff := cmp.Diff(want, request.Spec.Strategy); diff != "" || request.Spec.PodName != pod.Name {
		w.t.Errorf("request for Pod %s (-want +got):\n%s", request.Spec.PodName, diff)
	}
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, c := range request.Spec.Containers {
		names = append(names, c.Name)
		sidecarterminator.End(w.t, pod, c.Name)
	}
	code := int32(0)
	for i := range pod.Status.ContainerStatuses {
		state := pod.Status.ContainerStatuses[i].State.Terminated
		if state == nil {
			w.report(pod)
			return names
		}
		code = max(code, state.ExitCode)
	}
	if !sidecarterminator.Ended(pod) {
		pod.Status.Phase = map[bool]corev1.PodPhase{true: corev1.PodSucceeded, false: corev1.PodFailed}[code == 0]
	}
	w.report(pod)
	return names
}

// TestJobPods: sidecars are stopped after the main containers have ended, and the Pod gets the expected phase.
func TestJobPods(t *testing.T) {
	w := begin(t, kruise.Options{})
	priority := []string{apps.EnvContainerPriority, "1"}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		stops  [][]string // the containers in each ContainerRecreateRequest
		phase  corev1.PodPhase
		marked bool
		writes []string
	}{
		{"E-11, JT-9, JT-10 Never", sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(0), sidecarterminator.Runs("sidecar", slices.Concat(sidecarterminator.Stops, priority))), [][]string{{"sidecar"}}, corev1.PodFailed, false, []string{"request"}},
		{"E-11 OnFailure", sidecarterminator.Job(sidecarterminator.OnFailure, sidecarterminator.MainOf(0), sidecarterminator.Runs("sidecar", slices.Concat(sidecarterminator.Stops, priority))), [][]string{{"sidecar"}}, corev1.PodFailed, false, []string{"request"}},
		{"JT-7, JT-10 the exit code is ignored", sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(0), sidecarterminator.Runs("log", sidecarterminator.Ignores)), [][]string{{"log"}}, corev1.PodSucceeded, true, []string{"status", "request"}},
		{"JT-7, JT-10 main has failed", sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(1), sidecarterminator.Runs("log", sidecarterminator.Ignores)), [][]string{{"log"}}, corev1.PodFailed, true, []string{"status", "request"}},
		{"JT-7 OnFailure, the exit code is ignored", sidecarterminator.Job(sidecarterminator.OnFailure, sidecarterminator.MainOf(0), sidecarterminator.Runs("log", sidecarterminator.Ignores)), [][]string{{"log"}}, corev1.PodSucceeded, true, []string{"status", "request"}},
		{"JT-11 both kinds", sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(0), sidecarterminator.Runs("log", sidecarterminator.Ignores), sidecarterminator.Runs("proxy", sidecarterminator.Stops)), [][]string{{"proxy"}, {"log"}}, corev1.PodSucceeded, true, []string{"request", "status", "request"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			name := "job-" + strings.ToLower(fmt.Sprintf("%x", tc.name)[:16]) + fmt.Sprint(len(tc.name))
			pod := w.start(name, tc.pod, false)
			for i, want := range tc.stops {
				if diff := cmp.Diff(want, w.carryOut(pod, sidecarterminator.RequestName(pod.UID, i+1))); diff != "" {
					t.Errorf("request %d (-want +got):\n%s", i+1, diff)
				}
			}
			if pod.Status.Phase != tc.phase || sidecarterminator.IsMarked(pod) != tc.marked {
				t.Errorf("phase %s, marked %t, want %s, %t", pod.Status.Phase, sidecarterminator.IsMarked(pod), tc.phase, tc.marked)
			}
			if diff := cmp.Diff(tc.writes, w.written(name)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			w.untilTold(pod, corev1.EventTypeNormal, apps.EventSidecarTerminator)
		})
	}
}

// untilTold waits for an event about a Pod.
func (w *world) untilTold(pod *corev1.Pod, kind, name string) {
	w.t.Helper()
	controlplanetest.Eventually(w.t, 20*time.Second, func(ctx context.Context) error {
		var events corev1.EventList
		if err := w.List(ctx, &events, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.UID == pod.UID && e.Type == kind && e.Reason == name {
				return nil
			}
		}
		return fmt.Errorf("no event %s %s on Pod %s", kind, name, pod.Name)
	})
}

func TestVirtualNode(t *testing.T) {
	w := begin(t, kruise.Options{})
	pod := w.start("virtual", sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(0), sidecarterminator.Runs("log", sidecarterminator.Images), sidecarterminator.Runs("proxy", sidecarterminator.Stops)), true)
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		got := map[string]string{}
		for _, c := range pod.Spec.Containers {
			got[c.Name] = c.Image
		}
		if want := (map[string]string{"main": "example.test/main:v1", "log": "exit:v1", "proxy": "example.test/proxy:v1"}); !maps.Equal(want, got) {
			return fmt.Errorf("JT-4 images %v, want %v", got, want)
		}
		return nil
	})
	w.untilTold(pod, corev1.EventTypeNormal, apps.EventSidecarTerminator)
	if diff := cmp.Diff([]string{"patch"}, w.written("virtual")); diff != "" {
		t.Errorf("JT-4 writes (-want +got):\n%s", diff)
	}
}

// TestStuckPods: an event says why the sidecars of a Pod still run. With the restart policy OnFailure, sidecars run
// until the main container ends with exit code 0.
func TestStuckPods(t *testing.T) {
	w := begin(t, kruise.Options{})
	pod := w.start("stuck", sidecarterminator.Job(sidecarterminator.OnFailure, sidecarterminator.StuckContainer("main", "CrashLoopBackOff"), sidecarterminator.Runs("log", sidecarterminator.Stops)), false)
	w.untilTold(pod, corev1.EventTypeWarning, string(sidecarterminator.MainContainerWaiting))
	if writes := w.written("stuck"); len(writes) > 0 {
		t.Errorf("JT-2 written %v while main has not succeeded", writes)
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod.Status.ContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	w.report(pod)
	if got := w.carryOut(pod, sidecarterminator.RequestName(pod.UID, 1)); !slices.Equal(got, []string{"log"}) {
		t.Errorf("request for %v, want log", got)
	}
}

// TestRefusals: after the API server has refused a request for a Pod, events of the Pod do not lead to a second
// request, and other Pods do not wait. The clock of the test does not advance, so no back-off ends.
func TestRefusals(t *testing.T) {
	w := begin(t, kruise.Options{Clock: clocktesting.NewFakePassiveClock(time.Now()), Workers: 1})
	w.refused = true
	pod := w.start("refused", sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(0), sidecarterminator.Runs("log", sidecarterminator.Stops)), false)
	w.untilTold(pod, corev1.EventTypeWarning, apps.EventSidecarTerminator)
	for i := range 5 {
		pod.Annotations = map[string]string{"touched": fmt.Sprint(i)}
		if err := w.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		// The controller's only worker handles events in order, so after the reconciliation of this Pod, the earlier
		// event has been handled, too.
		name := fmt.Sprintf("other-%d", i)
		other := w.start(name, sidecarterminator.Job(sidecarterminator.Never, sidecarterminator.MainOf(0), sidecarterminator.Runs("log", sidecarterminator.Stops)), false)
		w.carryOut(other, sidecarterminator.RequestName(other.UID, 1))
	}
	if diff := cmp.Diff([]string{"request"}, w.written("refused")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
