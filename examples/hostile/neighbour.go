package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// neighbour is the user of the namespace that is not attacked, with a CloneSet and a client that watches CloneSets in
// their old API version.
type neighbour struct {
	c    *cluster
	cs   *v1beta1.CloneSet
	next int // number of the next image

	mu     sync.Mutex
	events int
	lost   error
	beats  map[string]time.Time // times of the changes that the watch has not shown yet, by the number of the change
	lags   []time.Duration      // delays of events in the watch
	failed []error              // errors of refused annotations and Pods
	pods   []time.Duration      // durations of the creation of Pods with sidecars
}

// startDelay is how long the neighbour's containers take to start, as real containers also need some time. Without
// the delay, a rollout would keep the API server busy all the time, and any other load would make the rollout slower.
const startDelay = "1s"

// patience is the longest time that a rollout may take.
const patience = 2 * time.Minute

func (c *cluster) newNeighbour(ctx context.Context, pods int) (*neighbour, error) {
	labels := map[string]string{"app": "web"}
	replicas := int32(pods)
	n := &neighbour{c: c, next: 2, cs: &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: quiet, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{controlplane.StartDelay: startDelay}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate, RollingUpdate: &v1beta1.RollingUpdateCloneSet{
				PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: new(intstr.FromString("20%")),
			}},
		},
	}}
	if err := c.Create(ctx, n.cs); err != nil {
		return nil, fmt.Errorf("creating the neighbour: %w", err)
	}
	if err := n.settled(ctx); err != nil {
		return nil, err
	}
	return n, n.watch(ctx)
}

// watch watches CloneSets in their old API version until ctx ends.
func (n *neighbour) watch(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CloneSetList"))
	watcher, err := n.c.Watch(ctx, list)
	if err != nil {
		return fmt.Errorf("watching v1alpha1: %w", err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			n.take(event.Object)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lost = errors.New("the watch of v1alpha1 has ended")
	}()
	return nil
}

// beatAnnotation contains the number of the last change. With this number, the delay of the watch is measured.
const beatAnnotation = "hostile/beat"

func (n *neighbour) take(object runtime.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cs, ok := object.(client.Object)
	if !ok || cs.GetResourceVersion() == "" {
		n.lost = fmt.Errorf("the watch of v1alpha1 has sent %T", object)
		return
	}
	n.events++
	beat := cs.GetAnnotations()[beatAnnotation]
	if wrote, ok := n.beats[beat]; ok && cs.GetNamespace() == quiet {
		n.lags = append(n.lags, clock.RealClock{}.Since(wrote))
		delete(n.beats, beat)
	}
}

// beat changes a CloneSet without Pods every second until ctx ends.
func (n *neighbour) beat(ctx context.Context) error {
	cs := n.cs.DeepCopy()
	cs.ObjectMeta = metav1.ObjectMeta{Namespace: quiet, Name: "beat"}
	cs.Spec.Replicas, cs.Status = new(int32), v1beta1.CloneSetStatus{}
	if err := n.c.Create(ctx, cs); err != nil {
		return fmt.Errorf("creating the CloneSet that beats: %w", err)
	}
	n.beats = map[string]time.Time{}
	go func() {
		_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			n.createPod(ctx)
			return false, nil
		})
	}()
	go func() {
		beat := 0
		_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			n.mu.Lock()
			name := strconv.Itoa(beat)
			beat++
			n.beats[name] = clock.RealClock{}.Now()
			n.mu.Unlock()
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, beatAnnotation, name))
			if err := n.c.Patch(ctx, cs, patch); err != nil && ctx.Err() == nil {
				n.mu.Lock()
				delete(n.beats, name)
				n.failed = append(n.failed, err)
				n.mu.Unlock()
			}
			return false, nil
		})
	}()
	return nil
}

// createPod creates a Pod with sidecars, as a dry run.
func (n *neighbour) createPod(ctx context.Context) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: quiet, GenerateName: "web-", Labels: map[string]string{"mesh": "yes"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	began := clock.RealClock{}.Now()
	err := n.c.Create(ctx, pod, client.DryRunAll)
	if err == nil && len(pod.Spec.Containers) != 4 {
		err = fmt.Errorf("a Pod has %d containers, want its own and 3 sidecars", len(pod.Spec.Containers))
	}
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, clock.RealClock{}.Since(began))
	if err != nil {
		n.failed = append(n.failed, err)
	}
}

// watched returns the number of events, and the delay with which the watch has shown each change. If the watch has
// not shown a change yet, watched returns the delay so far.
func (n *neighbour) watched() (events int, failed []error, lags, pods []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lags = slices.Clone(n.lags)
	for _, wrote := range n.beats {
		lags = append(lags, clock.RealClock{}.Since(wrote))
	}
	return n.events, n.failed, lags, slices.Clone(n.pods)
}

// rollOut changes the image, and returns the time until all Pods run the new image.
func (n *neighbour) rollOut(ctx context.Context) (time.Duration, error) {
	began := clock.RealClock{}.Now()
	body := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.test/app:v%d"}]`, n.next)
	n.next++
	if err := n.c.Patch(ctx, n.cs, client.RawPatch("application/json-patch+json", []byte(body))); err != nil {
		return 0, fmt.Errorf("changing the neighbour's image: %w", err)
	}
	if err := n.settled(ctx); err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return clock.RealClock{}.Since(began), n.lost
}

// settled waits until all Pods of the CloneSet are available and updated.
func (n *neighbour) settled(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := n.c.Get(ctx, client.ObjectKeyFromObject(n.cs), n.cs); err != nil {
			return false, err
		}
		s, replicas := &n.cs.Status, *n.cs.Spec.Replicas
		return s.ObservedGeneration == n.cs.Generation && s.UpdatedAvailableReplicas == replicas && s.Replicas == replicas, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the neighbour's Pods, status %+v: %w", n.cs.Status, err)
	}
	return nil
}
