package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// neighbour is a CloneSet in another namespace, and somebody who watches CloneSets in their old version.
type neighbour struct {
	c    *cluster
	cs   *v1beta1.CloneSet
	next int // number of the next image

	mu     sync.Mutex
	seen   int64 // the newest generation that the watch has shown
	events int
	lost   error
	lag    time.Duration
}

// patience is how long a rollout may take, and the watch may be behind.
const patience = 2 * time.Minute

func (c *cluster) newNeighbour(ctx context.Context, pods int) (*neighbour, error) {
	labels := map[string]string{"app": "web"}
	replicas := int32(pods)
	n := &neighbour{c: c, next: 2, cs: &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: quiet, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
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
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CloneSetList"))
	watcher, err := c.Watch(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("watching v1alpha1: %w", err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			n.take(event.Object.(client.Object))
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lost = errors.New("the watch of v1alpha1 has ended")
	}()
	return n, nil
}

func (n *neighbour) take(object client.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events++
	if object.GetNamespace() == quiet {
		n.seen = max(n.seen, object.GetGeneration())
	}
}

// watched returns the number of events, and how long the watch was behind at most.
func (n *neighbour) watched() (events int, lag time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.events, n.lag
}

// rollOut changes the image and returns how long it took until all Pods run it.
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
	took := clock.RealClock{}.Since(began)
	return took, n.caughtUp(ctx)
}

// settled waits until all Pods are as wanted.
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

// caughtUp waits until the watch has shown the newest spec.
func (n *neighbour) caughtUp(ctx context.Context) error {
	began := clock.RealClock{}.Now()
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lag = max(n.lag, clock.RealClock{}.Since(began))
		return n.seen >= n.cs.Generation, n.lost
	})
}
