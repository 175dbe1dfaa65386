package executor

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// PodNotCreated means that a Pod or its claim could not be created. The message leaves out the generated part of names,
// so that a repeated failure has the same message each time.
const PodNotCreated reason.Code = "PodNotCreated"

// PodTemplates are the sources of identical Pods.
type PodTemplates struct {
	// Template is the template of the Pods, and Revision the name of its revision. Template is required, and so is
	// Revision in a Turn with a History: a Pod without its revision would look outdated, and would be recreated again
	// and again.
	Template *corev1.PodTemplateSpec
	Revision string
	// Name returns the name of the i-th Pod. If nil, the API server generates the names. All names begin with the
	// owner's name and a hyphen.
	Name func(i int) string
	// Prepare completes a Pod before the Pod is created; nil for nothing. Prepare must not change name, namespace,
	// owner reference and revision label, or the Pod is not created (UnusablePod). Prepare must be safe for concurrent
	// use.
	Prepare func(pod *corev1.Pod)
	// Before creates objects that must exist before a Pod, such as claims. Optional. If Before returns an error, the Pod
	// is not created. Before must not change more of the Pod than Prepare may, and must be safe for concurrent use.
	Before func(ctx context.Context, pod *corev1.Pod) error
	// Unborn remembers the Pods whose creation failed after the call of Before, because the claims of these Pods
	// exist already, and the Pods that the API server has refused. Unborn may be nil.
	Unborn *pvc.Unborn
}

// CreatePods creates n Pods, but at most fanout.PerPass, and returns the number of created Pods. All errors are final,
// as in fanout.Pass.Create.
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

// createBorn calls Before and then creates a Pod, and remembers the Pod in Unborn until the Pod exists.
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
	switch {
	case !remembered:
	case err == nil:
		from.Unborn.Remove(t.Owner.GetUID(), d.name)
	case podwrite.IsLasting(err):
		from.Unborn.Refuse(t.Owner.GetUID(), d.name)
	}
	return err
}
