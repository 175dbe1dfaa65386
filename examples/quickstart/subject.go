package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/reason"
)

// subject is the workload whose Pods a story shows; T is a pointer to its type.
type subject[T client.Object] struct {
	*story
	kind     string
	labels   []string // the labels that the controller adds to Pods
	empty    func() T
	template func(T) *corev1.PodTemplateSpec
	isDone   func(T) bool
}

// edit is a change of the workload that has not been written yet.
type edit[T client.Object] struct {
	before, after T
	field, why    string // the field whose change cannot be made in live Pods, and the reason; empty if the change can be made
	write         func(context.Context) error
}

// create returns a function that creates the object.
func (s *subject[T]) create(object T) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating the %s: %w", s.kind, err)
		}
		return nil
	}
}

// get reads the object from the API server.
func (s *subject[T]) get(ctx context.Context) (T, error) {
	now := s.empty()
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, now); err != nil {
		return now, fmt.Errorf("reading the %s: %w", s.kind, err)
	}
	return now, nil
}

// settled reports whether the object's status shows that the last change is complete.
func (s *subject[T]) settled(ctx context.Context) (bool, error) {
	now, err := s.get(ctx)
	return err == nil && s.isDone(now), err
}

// edit prepares a change of the object. Before the change is written, package inplaceupdate predicts whether Pods will
// be updated in place or recreated, and why.
func (s *subject[T]) edit(ctx context.Context, change func(T)) (edit[T], error) {
	var e edit[T]
	updater, err := kruise.InPlace(s.workload.gates, s.labels)
	if err != nil {
		return e, err
	}
	if e.before, err = s.get(ctx); err != nil {
		return e, err
	}
	after, original := e.before.DeepCopyObject().(T), e.before
	change(after)
	e.after = after
	if plan := updater.Plan(s.template(original), s.template(after)); !plan.Possible() {
		e.field, e.why = plan.Blocking[0].Path, explained(plan.Blocking[0])
	}
	e.write = func(ctx context.Context) error {
		if err := s.client.Patch(ctx, after, client.MergeFrom(original)); err != nil {
			return fmt.Errorf("changing the %s: %w", s.kind, err)
		}
		return nil
	}
	return e, nil
}

// explained returns a reason as a text that fits into a row of the table.
func explained(r reason.Reason) string { return fmt.Sprintf("%s (%s)", r.Path, r.Code) }
