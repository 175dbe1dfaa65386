package rehearsal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/rehearsal"
)

// chain is a controller that creates three Pods for each ControllerRevision, each Pod a minute after the previous Pod
// is ready.
type chain struct {
	client.Client
	clock *rehearsal.Clock
}

const pause = time.Minute

func (c *chain) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	owner := &appsv1.ControllerRevision{}
	if err := c.Get(ctx, req.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for i := range 3 {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = req.Namespace, fmt.Sprintf("%s-%d", req.Name, i)
		err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil && !podstate.IsReady(pod) {
			return ctrl.Result{}, nil
		}
		if err == nil {
			if rest := pause - c.clock.Since(podstate.ReadySince(pod).Time); rest > 0 {
				return ctrl.Result{RequeueAfter: rest}, nil
			}
			continue
		}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
		return ctrl.Result{}, client.IgnoreAlreadyExists(c.Create(ctx, pod))
	}
	return ctrl.Result{}, nil
}

func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// rehearse returns the time and the target of each write.
func rehearse(t *testing.T, change func(*rehearsal.Config), objects ...client.Object) ([]string, *faultapi.Server, error) {
	t.Helper()
	clk := rehearsal.NewClock(began())
	server, err := faultapi.New(clientgoscheme.Scheme, clk.Now, &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	owner := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "owner"}}
	if err := server.Load(append(objects, owner)...); err != nil {
		t.Fatal(err)
	}
	config := rehearsal.Config{Scheme: clientgoscheme.Scheme, Server: server, Clock: clk}
	if change != nil {
		change(&config)
	}
	r, err := rehearsal.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(r.Manager(), clk); err != nil {
		t.Fatal(err)
	}
	err = r.Run(t.Context())
	var lines []string
	for _, w := range r.Writes() {
		lines = append(lines, fmt.Sprintf("%v %s %s %s", w.At.Sub(began()), w.Controller, w.Call.Verb, w.Call.Name))
		if w.After == nil || w.Before != nil {
			t.Errorf("a creation with %v before and %v after", w.Before, w.After)
		}
	}
	return lines, server, err
}

func setup(mgr manager.Manager, clk *rehearsal.Clock) error {
	return ctrl.NewControllerManagedBy(mgr).For(&appsv1.ControllerRevision{}).Owns(&corev1.Pod{}).Complete(&chain{mgr.GetClient(), clk})
}

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
}

// running returns a Pod that runs, as read from a cluster.
func running(ready bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-0", UID: "pod-0", CreationTimestamp: metav1.NewTime(began().Add(-time.Hour)),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ControllerRevision", Name: "web", UID: "owner", Controller: new(true)}},
	}}
	pod.Spec.Containers, pod.Spec.NodeName = []corev1.Container{{Name: "app", Image: "app:v1"}}, "a"
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(began().Add(-time.Hour))}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Image: "docker.io/library/app:v1", ImageID: "docker.io/library/app@sha256:1", ContainerID: "containerd://1", Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began().Add(-time.Hour))}},
		}},
	}
	return pod
}

func TestRun(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*rehearsal.Config)
		objects []client.Object
		want    []string
		err     error
	}{
		{"each Pod comes a pause after the Pod before is ready", nil, nil, []string{
			"0s controllerrevision create web-0", "1m1s controllerrevision create web-1", "2m2s controllerrevision create web-2",
		}, nil},
		{"a container takes as long as the caller says", func(c *rehearsal.Config) {
			c.ReadyAfter = func(*corev1.Pod, faultapi.Unready) (time.Duration, bool) { return time.Hour, true }
		}, nil, []string{
			"0s controllerrevision create web-0", "1h1m0s controllerrevision create web-1", "2h2m0s controllerrevision create web-2",
		}, nil},
		{"a container that never becomes ready", func(c *rehearsal.Config) {
			c.ReadyAfter = func(*corev1.Pod, faultapi.Unready) (time.Duration, bool) { return 0, false }
		}, nil, []string{"0s controllerrevision create web-0"}, nil},
		{"a Pod that runs is not started again", nil, []client.Object{node("a"), running(true)}, []string{
			"0s controllerrevision create web-1", "1m1s controllerrevision create web-2",
		}, nil},
		{"a Pod that was unready stays so", nil, []client.Object{node("a"), running(false)}, nil, nil},
		{"no Node fits", nil, []client.Object{node("a", corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})}, []string{
			"0s controllerrevision create web-0",
		}, nil},
		{"a Node about which nothing is known fits", func(c *rehearsal.Config) {
			c.Unknown = func(*corev1.Node) bool { return true }
		}, []client.Object{node("a", corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})}, []string{
			"0s controllerrevision create web-0", "1m1s controllerrevision create web-1", "2m2s controllerrevision create web-2",
		}, nil},
		{"a refused Pod is tried again until all is quiet", func(c *rehearsal.Config) {
			c.Mutate = func(context.Context, *corev1.Pod) error { return errors.New("refused") }
		}, nil, nil, nil},
		{"too many reconciles", func(c *rehearsal.Config) { c.Most = 1 }, nil, []string{"0s controllerrevision create web-0"}, rehearsal.ErrEndless},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := rehearse(t, tt.change, tt.objects...)
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v; writes (-want +got):\n%s", err, tt.err, diff)
			}
		})
	}
}

// flood is a controller that creates many Pods in one reconcile.
type flood struct{ client.Client }

func (f *flood) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	for i := range 5 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: fmt.Sprintf("web-%d", i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
		if err := f.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// TestRunLimitsWrites: Run also ends with ErrEndless if a few reconciles make too many writes.
func TestRunLimitsWrites(t *testing.T) {
	clk := rehearsal.NewClock(began())
	server, err := faultapi.New(clientgoscheme.Scheme, clk.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Load(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "owner"}}); err != nil {
		t.Fatal(err)
	}
	r, err := rehearsal.New(rehearsal.Config{Scheme: clientgoscheme.Scheme, Server: server, Clock: clk, Most: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(r.Manager()).For(&appsv1.ControllerRevision{}).Complete(&flood{r.Manager().GetClient()}); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, rehearsal.ErrEndless) || len(r.Writes()) != 5 {
		t.Errorf("%d writes, error %v", len(r.Writes()), err)
	}
}

// TestRunKeepsStatuses: the status of a Pod that keeps running is not changed.
func TestRunKeepsStatuses(t *testing.T) {
	before := running(true)
	_, server, err := rehearse(t, nil, node("a"), before.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	after := server.Nodes().Pod(client.ObjectKeyFromObject(before), before.UID)
	if diff := cmp.Diff(before.Status, after.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestRunOnSickNodes: a Pod whose image cannot be pulled, and a Pod on a Node that is not ready, do not become ready in
// a rehearsal. A new image ends the wait for the image, unless the kubelet is down. A Pod on a Node that is not ready is
// not removed.
func TestRunOnSickNodes(t *testing.T) {
	waits := func(image string) *corev1.Pod {
		pod := running(false)
		pod.Spec.Containers[0].Image = image
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: "app:bad", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}
		return pod
	}
	stuck := waits("app:good") // the kubelet has seen the new image, and the status still names the image of the last instance
	stuck.Generation, stuck.Status.ObservedGeneration = 2, 2
	stuck.Status.ContainerStatuses[0].ContainerID = "containerd://1"
	down := node("a")
	down.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	deleted := running(true)
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: began()}, nil
	for name, tc := range map[string]struct {
		node  *corev1.Node
		pod   *corev1.Pod
		ready bool
		gone  bool
	}{
		"the image cannot be pulled":         {node("a"), waits("app:bad"), false, false},
		"a new image":                        {node("a"), waits("app:good"), true, false},
		"a new image that cannot be pulled":  {node("a"), stuck, false, false},
		"a new image on a Node that is down": {down, waits("app:good"), false, false},
		"deleted on a Node":                  {node("a"), deleted, false, true},
		"deleted on a Node that is down":     {down, deleted, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, server, err := rehearse(t, nil, tc.node.DeepCopy(), tc.pod.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			after := server.Nodes().Pod(client.ObjectKeyFromObject(tc.pod), tc.pod.UID)
			if (after == nil) != tc.gone || after != nil && podstate.IsReady(after) != tc.ready {
				t.Errorf("gone %t, want gone %t and ready %t: %+v", after == nil, tc.gone, tc.ready, after)
			}
		})
	}
}

// TestBrokenImages: an image that no Pod can run is broken for new Pods too.
func TestBrokenImages(t *testing.T) {
	for _, runs := range []bool{false, true} {
		sick := running(false)
		sick.Name, sick.UID = "sick", "sick"
		sick.Spec.Containers[0].Image = "app:v1"
		sick.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: sick.Spec.Containers[0].Name, Image: "app:v1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
		}}
		objects := []client.Object{node("a"), sick}
		if runs {
			well := running(true)
			well.Spec.Containers[0].Image = "app:v1"
			objects = append(objects, well)
		}
		lines, _, err := rehearse(t, nil, objects...)
		if want := map[bool]int{false: 1, true: 2}[runs]; err != nil || len(lines) != want { // web-0 never becomes ready, or is ready from the start
			t.Errorf("the image runs elsewhere %t: %q, %v", runs, lines, err)
		}
	}
}

func TestNewNeedsAServer(t *testing.T) {
	if _, err := rehearsal.New(rehearsal.Config{}); err == nil {
		t.Error("a rehearsal without a server")
	}
}
