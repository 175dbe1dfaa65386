package executor

import (
	"context"
	"errors"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// NameTaken means that a Pod cannot be created because another Pod, which its owner does not control, has the name.
const NameTaken reason.Code = "NameTaken"

// takenRetry is the time until the next check whether another owner's Pod still has a name: events of this Pod
// enqueue the owner only if ownercache.ControllerOptions.Numbered is set. The check reads the cache and sends no
// request.
const takenRetry = 10 * time.Second

// NumberedTemplates are the sources of Pods with ordinals. Pods of the update revision come from Update of the Turn's
// History.
type NumberedTemplates struct {
	// Current is the source of Pods of the current (old) revision. Required.
	Current *appsv1.ControllerRevision
	// Prepare completes a Pod before the Pod is created, as in PodTemplates; the Pod has its name already. Prepare
	// may be nil. Prepare must be safe for concurrent use.
	Prepare func(pod *corev1.Pod, ordinal int)
	// Before creates objects that must exist before a Pod, as in PodTemplates. Optional. An error of Before counts as an
	// error of the Pod's creation. Before must be safe for concurrent use.
	Before func(ctx context.Context, pod *corev1.Pod) error
}

// CreateNumbered creates the Pods in the list of numbered.Plan, with the names of their ordinals, and returns the
// number of created Pods. If another owner's Pod has the name of an ordinal, CreateNumbered does not change this Pod:
// the ordinal is left out with an error (NameTaken), other Pods are created, and the owner is requeued. If Pods of the
// old revision are refused, or the old template cannot be decoded, Pods of the new revision are still created. Pods
// whose creation was refused before are tried last. All errors are final, as in fanout.Pass.Create.
func (t *Turn[O]) CreateNumbered(ctx context.Context, list []numbered.Create, from NumberedTemplates) (made int, err error) {
	if t.History == nil || t.History.Update == nil || from.Current == nil {
		return 0, reason.Final(errors.New("executor: CreateNumbered needs a history with an update revision, and the current revision"))
	}
	free, errs := t.free(list)
	for _, group := range []struct {
		task     string
		old      bool
		revision *appsv1.ControllerRevision
	}{{"create old Pods", true, from.Current}, {"create Pods", false, t.History.Update}} {
		n, err := t.createAt(ctx, group.task, group.revision, free[group.old], from)
		made, errs = made+n, append(errs, err)
	}
	return made, errors.Join(errs...)
}

// free returns the ordinals for which no Pod has the name, in two lists: the key true is for Pods to create at the
// old revision, and false for Pods to create at the new revision. free also returns an error for each name that
// another owner's Pod has.
func (t *Turn[O]) free(list []numbered.Create) (free map[bool][]int, errs []error) {
	free = map[bool][]int{}
	for _, c := range list {
		pod, taken := t.executor.cache.Pods.Get(t.Owner.GetNamespace(), ordinals.Name(t.Owner.GetName(), c.Ordinal))
		switch {
		case !taken:
			free[c.Old] = append(free[c.Old], c.Ordinal)
		case !metav1.IsControlledBy(pod, t.Owner): // an own Pod is newer than the view
			errs = append(errs, reason.Final(reason.Reason{
				Code: NameTaken, Object: reason.ObjectOf("Pod", pod), Detail: "somebody else controls the Pod of this name",
				Remedy: "delete the Pod, or have its ordinal left out",
			}))
			t.Pass.Wake(takenRetry)
		}
	}
	return free, errs
}

func (t *Turn[O]) createAt(
	ctx context.Context, task string, rev *appsv1.ControllerRevision, list []int, from NumberedTemplates,
) (made int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	template, err := t.History.Template(rev)
	if err != nil {
		return 0, reason.Final(err)
	}
	return t.createEach(ctx, fanout.Task{Name: task}, len(list), func(i int) string { return "create Pod " + strconv.Itoa(list[i]) },
		func(i int) draft {
			pod := t.NewPod(template, rev.Name)
			pod.Name = ordinals.Name(t.Owner.GetName(), list[i])
			d := t.draftOf(pod)
			d.before = from.Before
			if from.Prepare != nil {
				from.Prepare(pod, list[i])
			}
			return d
		})
}

// createEach creates n Pods, each with its own back-off.
func (t *Turn[O]) createEach(ctx context.Context, task fanout.Task, n int, own func(i int) string, build func(i int) draft) (made int, err error) {
	return t.Pass.CreateEach(ctx, task, n, own, func(ctx context.Context, i int) error {
		d := build(i)
		if err := t.create(ctx, d); err != nil {
			return failed("creating", d.pod, err)
		}
		return nil
	})
}

// NewPod returns a Pod of a revision for the owner; the caller must name and create the Pod: see
// podcontrol.Control.NewPod.
func (t *Turn[O]) NewPod(template *corev1.PodTemplateSpec, revisionName string) *corev1.Pod {
	owner := *metav1.NewControllerRef(t.Owner, t.executor.cache.Kind())
	return t.executor.control.NewPod(template, t.Owner.GetNamespace(), owner, t.rules, revisionName, t.Now)
}
