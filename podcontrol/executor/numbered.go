package executor

import (
	"context"
	"errors"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// NameTaken means that a Pod cannot be created because a Pod that its owner does not control has the name.
const NameTaken reason.Code = "NameTaken"

// takenRetry is when to look again at a name that somebody else's Pod has: what happens to that Pod wakes the owner only with
// ownercache.ControllerOptions.Numbered. It costs no request.
const takenRetry = 10 * time.Second

// NumberedTemplates say what Pods with ordinals are made from.
type NumberedTemplates struct {
	// History holds the templates. New Pods are made from its Update, old ones from Current. All three are required.
	History *revision.History
	Current *appsv1.ControllerRevision
	// Selector is the owner's, as in Create; nil selects all of its Pods.
	Selector labels.Selector
	// Prepare completes a Pod that has its name, before it is created; nil for nothing. It must be safe for concurrent use.
	Prepare func(pod *corev1.Pod, ordinal int)
	// Before makes what a Pod needs, its claims for example; nil for nothing. A Pod is not created where it returns an error, which counts
	// as that of the Pod. It must be safe for concurrent use.
	Before func(ctx context.Context, pod *corev1.Pod) error
}

// CreateNumbered creates the Pods that rollout.Numbered names, under the names of their ordinals. It returns how many it has
// created.
//
// A Pod that somebody else controls is never touched: its ordinal is left out, the error says so (NameTaken), the others are
// created, and another pass is asked for. Old Pods that are refused, or whose template cannot be read, do not keep new ones from
// being created, and a Pod whose name was refused is tried after the others. All errors are final, as those of fanout.Pass.Create.
func (p *Pods[O]) CreateNumbered(ctx context.Context, list []rollout.NumberedCreate, from NumberedTemplates) (made int, err error) {
	if from.History == nil || from.History.Update == nil || from.Current == nil {
		return 0, reason.Final(errors.New("executor: NumberedTemplates need a history with an update revision, and the current one"))
	}
	if from.Selector == nil {
		from.Selector = labels.Everything()
	}
	free, errs := p.free(list)
	for _, group := range []struct {
		task     string
		old      bool
		revision *appsv1.ControllerRevision
	}{{"create old Pods", true, from.Current}, {"create Pods", false, from.History.Update}} {
		n, err := p.createAt(ctx, group.task, group.revision, free[group.old], from)
		made, errs = made+n, append(errs, err)
	}
	return made, errors.Join(errs...)
}

// free returns the ordinals whose names nobody has, those of old Pods under true, and an error for each that somebody else has.
func (p *Pods[O]) free(list []rollout.NumberedCreate) (free map[bool][]int, errs []error) {
	free = map[bool][]int{}
	for _, c := range list {
		pod, taken := p.executor.cache.Pods.Get(p.view.Owner.GetNamespace(), ordinals.Name(p.view.Owner.GetName(), c.Ordinal))
		switch {
		case !taken:
			free[c.Old] = append(free[c.Old], c.Ordinal)
		case !metav1.IsControlledBy(pod, p.view.Owner): // otherwise the cache has moved on since the view was taken
			errs = append(errs, reason.Final(reason.Reason{
				Code: NameTaken, Object: reason.ObjectOf("Pod", pod), Detail: "somebody else controls the Pod of this name",
				Remedy: "delete the Pod, or have its ordinal left out",
			}))
			p.pass.Wake(takenRetry)
		}
	}
	return free, errs
}

func (p *Pods[O]) createAt(
	ctx context.Context, task string, rev *appsv1.ControllerRevision, list []int, from NumberedTemplates,
) (made int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	template, err := from.History.Template(rev)
	if err != nil {
		return 0, reason.Final(err)
	}
	return p.createEach(ctx, fanout.Task{Name: task}, len(list), func(i int) string { return "create Pod " + strconv.Itoa(list[i]) }, from.Selector,
		func(ctx context.Context, i int) (*corev1.Pod, string, error) {
			pod := p.NewPod(template, rev.Name)
			pod.Name = ordinals.Name(p.view.Owner.GetName(), list[i])
			if from.Prepare != nil {
				from.Prepare(pod, list[i])
			}
			if from.Before != nil {
				return pod, "", from.Before(ctx, pod)
			}
			return pod, "", nil
		})
}

// createEach creates n Pods, each as what its own task says, and for a Node where build names one.
func (p *Pods[O]) createEach(
	ctx context.Context, task fanout.Task, n int, own func(i int) string, selector labels.Selector, build func(ctx context.Context, i int) (pod *corev1.Pod, node string, err error),
) (made int, err error) {
	return p.pass.CreateEach(ctx, task, n, own, func(ctx context.Context, i int) error {
		pod, node, err := build(ctx, i)
		if err == nil {
			err = p.create(ctx, pod, selector, node)
		}
		if err != nil {
			return failed("creating", pod, err)
		}
		return nil
	})
}

// NewPod returns a Pod for the owner at a revision, to be named and created; see podcontrol.Control.NewPod.
func (p *Pods[O]) NewPod(template *corev1.PodTemplateSpec, revisionName string) *corev1.Pod {
	owner := *metav1.NewControllerRef(p.view.Owner, p.executor.cache.Kind())
	return p.executor.control.NewPod(template, p.view.Owner.GetNamespace(), owner, p.rules, revisionName, p.view.Now)
}
