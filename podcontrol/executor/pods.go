package executor

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// PodNotCreated means that a Pod or its claim could not be created. The message leaves out the generated part of names,
// so the same trouble has the same message each time.
const PodNotCreated reason.Code = "PodNotCreated"

// PodTemplates are the sources of Pods all alike.
type PodTemplates struct {
	// Template and Revision are the content of the Pods, and the name of its revision. Template is required, and so is
	// Revision in a Turn with a History: a Pod without its revision would look outdated, and be recreated without end.
	Template *corev1.PodTemplateSpec
	Revision string
	// Name returns the name of the i-th Pod. Nil leaves names to the API server. All names begin with the owner's name and
	// a hyphen.
	Name func(i int) string
	// Prepare completes a Pod before its creation; nil for nothing. Name, namespace, owner reference and revision label
	// stay as given, or the Pod is not created (UnusablePod). Prepare must be safe for concurrent use.
	Prepare func(pod *corev1.Pod)
	// Before makes a Pod's preconditions, such as claims; nil for nothing. After an error of Before the Pod is not
	// created. Before changes no more than Prepare may, and must be safe for concurrent use.
	Before func(ctx context.Context, pod *corev1.Pod) error
	// Unborn remembers the Pods that failed after Before, whose claims wait for them; nil for none.
	Unborn *pvc.Unborn
}

// CreatePods creates n Pods, at most as many as a pass creates, and returns the number of created Pods. All errors are
// final, as in fanout.Pass.Create.
func (t *Turn[O]) CreatePods(ctx context.Context, n int, from PodTemplates) (made int, err error) {
	if from.Template == nil {
		return 0, reason.Final(errors.New("executor: PodTemplates need a Template"))
	}
	return t.Pass.Create(ctx, fanout.Task{Name: "create Pods of revision " + from.Revision}, n, func(ctx context.Context, i int) error {
		pod := t.NewPod(from.Template, from.Revision)
		pod.GenerateName = t.Owner.GetName() + "-"
		if from.Name != nil {
			pod.Name = from.Name(i)
		}
		d := t.draftOf(pod)
		d.prefix = pod.GenerateName
		if from.Prepare != nil {
			from.Prepare(pod)
		}
		err := t.createBorn(ctx, d, from)
		if err == nil {
			return nil
		}
		pattern, detail := d.prefix+"*", err.Error()
		if pod.Name != "" {
			detail = strings.ReplaceAll(detail, pod.Name, pattern)
		}
		return reason.Reason{Code: PodNotCreated, Object: reason.Object{Kind: "Pod", Name: pattern}, Detail: detail}.With(err)
	})
}

// createBorn creates a Pod after its preconditions, and remembers the Pod until it exists.
func (t *Turn[O]) createBorn(ctx context.Context, d draft, from PodTemplates) error {
	remembered := from.Unborn != nil && d.name != ""
	d.before = func(ctx context.Context, pod *corev1.Pod) error {
		if remembered {
			from.Unborn.Add(t.Owner.GetUID(), d.name)
		}
		if from.Before == nil {
			return nil
		}
		return from.Before(ctx, pod)
	}
	err := t.create(ctx, d)
	if err == nil && remembered {
		from.Unborn.Remove(t.Owner.GetUID(), d.name)
	}
	return err
}
