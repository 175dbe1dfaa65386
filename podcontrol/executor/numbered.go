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

// NameTaken means that a Pod cannot be created because a Pod not controlled by its owner has the name.
const NameTaken reason.Code = "NameTaken"

// takenRetry is the time until another look at a name taken by somebody else's Pod: only with
// ownercache.ControllerOptions.Numbered do events of the Pod wake the owner. The look costs no request.
const takenRetry = 10 * time.Second

// NumberedTemplates are the sources of Pods with ordinals, beside the Turn's History: new Pods are made from its
// Update.
type NumberedTemplates struct {
	// Current is the source of old Pods. Required.
	Current *appsv1.ControllerRevision
	// Prepare completes a named Pod before its creation, as in PodTemplates; nil for nothing. Prepare must be safe for
	// concurrent use.
	Prepare func(pod *corev1.Pod, ordinal int)
	// Before makes a Pod's preconditions, as in PodTemplates; nil for nothing. An error of Before counts as the Pod's
	// error. Before must be safe for concurrent use.
	Before func(ctx context.Context, pod *corev1.Pod) error
}

// CreateNumbered creates the Pods named by numbered.Plan, under the names of their ordinals, and returns the number
// of created Pods. CreateNumbered never touches a Pod controlled by somebody else: its ordinal is left out, the error
// says so (NameTaken), the remaining Pods are created, and the pass is repeated later. Refused old Pods, or an
// unreadable old template, do not stop the creation of new Pods. A Pod with a refused name is tried after all other
// Pods. All errors are final, as in fanout.Pass.Create.
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

// free returns the ordinals with free names, the ordinals of old Pods under true, and an error for each name taken by
// somebody else.
func (t *Turn[O]) free(list []numbered.Create) (free map[bool][]int, errs []error) {
	free = map[bool][]int{}
	for _, c := range list {
		pod, taken := t.executor.cache.Pods.Get(t.Owner.GetNamespace(), ordinals.Name(t.Owner.GetName(), c.Ordinal))
		switch {
		case !taken:
			free[c.Old] = append(free[c.Old], c.Ordinal)
		case !metav1.IsControlledBy(pod, t.Owner): // otherwise the cache has moved on since the view was taken
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

// createEach creates n Pods, each under its own task.
func (t *Turn[O]) createEach(ctx context.Context, task fanout.Task, n int, own func(i int) string, build func(i int) draft) (made int, err error) {
	return t.Pass.CreateEach(ctx, task, n, own, func(ctx context.Context, i int) error {
		d := build(i)
		if err := t.create(ctx, d); err != nil {
			return failed("creating", d.pod, err)
		}
		return nil
	})
}

// NewPod returns a Pod for the owner at a revision, to be named and created; see podcontrol.Control.NewPod.
func (t *Turn[O]) NewPod(template *corev1.PodTemplateSpec, revisionName string) *corev1.Pod {
	owner := *metav1.NewControllerRef(t.Owner, t.executor.cache.Kind())
	return t.executor.control.NewPod(template, t.Owner.GetNamespace(), owner, t.rules, revisionName, t.Now)
}
