package cloneset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// PodNotCreated means that a Pod or one of its claims could not be created. The generated part of names is left out, so that
// the same trouble has the same message each time.
const PodNotCreated reason.Code = "PodNotCreated"

// observed reads what the pass is decided on.
func (r *Reconciler) observed(v *view, s *settings, h *revision.History) *observation {
	cs := v.Owner
	o := &observation{
		cs: cs, settings: s, history: h, update: h.Update, current: h.Current(cs.Status.CurrentRevision), claims: v.Claims,
		pods: r.reader.Read(cs.UID, v.Pods, podcontrol.Want{
			Update: h.Update.Name, MinReady: s.minReady, Delete: cs.Spec.ScaleStrategy.PodsToDelete, Selector: s.selector,
		}, v.Now),
		world: world{
			pod:      func(name string) (*corev1.Pod, bool) { return r.cache.Pods.Get(cs.Namespace, name) },
			claim:    func(name string) (*corev1.PersistentVolumeClaim, bool) { return r.cache.Claims.Get(cs.Namespace, name) },
			users:    r.cache.UsersOf,
			plan:     r.planner.Plan,
			hopeless: r.pods.IsHopeless,
			busy:     func(pod *corev1.Pod) bool { return r.inPlace.InGracePeriod(pod) && !r.pods.IsHeldUp(pod) },
			newID:    r.options.NewID,
			nodeLabels: func(name string) (map[string]string, bool) {
				node := &metav1.PartialObjectMetadata{}
				node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
				err := r.client.Get(context.Background(), client.ObjectKey{Name: name}, node) // from memory
				return node.Labels, err == nil
			},
		},
	}
	o.unborn = r.unborn.Of(cs.UID, func(name string) bool { _, exists := o.world.pod(name); return exists })
	if isOver(o.pods, s.rollout.Replicas) {
		o.current = o.update // the rollout is over, whether the status says so yet or not: nothing goes back from here
	}
	return o
}

// isOver reports whether all Pods that are wanted are there, at the update revision.
func isOver(pods *podcontrol.Set, replicas int) bool {
	for i := range pods.Active {
		if !pods.Active[i].Updated {
			return false
		}
	}
	return len(pods.Active) == replicas
}

// tendClaims writes what was decided about claims that lost their Pods.
func (r *Reconciler) tendClaims(ctx context.Context, v *view, pass *fanout.Pass, t *todo) error {
	if len(t.handOver)+len(t.deleteClaims) == 0 {
		return nil
	}
	return pass.Once(ctx, fanout.Task{Name: "tend claims"}, func() (changed bool, err error) {
		var errs []error
		for _, transfer := range t.handOver {
			errs = append(errs, claimwriter.HandOver(ctx, v.Client, v.Owner.UID, transfer))
			changed = changed || errs[len(errs)-1] == nil
		}
		err = r.deleteClaims(ctx, v, t.deleteClaims)
		return changed || len(t.deleteClaims) > 0 && err == nil, errors.Join(append(errs, err)...)
	})
}

// deleteClaimsOf deletes the claims of a Pod that the controller itself has deleted, reuse or not, but for those that
// somebody else's Pod uses as well.
func (r *Reconciler) deleteClaimsOf(ctx context.Context, v *view, pod *corev1.Pod) error {
	known := pvc.Known{Users: r.cache.UsersOf, PodOf: func(claim *corev1.PersistentVolumeClaim) string { return podOf(v.Owner, claim) }}
	return r.deleteClaims(ctx, v, known.Of(v.Claims, pod))
}

func (r *Reconciler) deleteClaims(ctx context.Context, v *view, claims []*corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, claim := range claims {
		err := claimwriter.Delete(ctx, v.Client, claim)
		if err != nil {
			r.events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete PersistentVolumeClaim %s: %v", claim.Name, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// create makes the missing Pods, old ones first, each after its claims. Pods of one revision that are refused do not keep those of
// the other from being made.
func (r *Reconciler) create(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo) error {
	for _, limit := range t.limits {
		r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventScaleUpLimited, limit.Detail)
	}
	if t.enough && len(o.unborn) > 0 {
		r.unborn.Forget(v.Owner.UID)
		pass.Wake(lookAgain) // what was kept for Pods that are not wanted any more is lost
	}
	made, oldErr := 0, error(nil)
	if len(t.createOld) > 0 {
		template, err := o.history.Template(o.current)
		if err != nil {
			pass.Wake(time.Minute) // nobody tells when somebody has mended it
			return reason.Final(fmt.Errorf("template of the current revision: %w", err))
		}
		made, oldErr = r.createPods(ctx, v, pass, o, "create Pods of the current revision", template, o.current, t.createOld)
	}
	more, err := r.createPods(ctx, v, pass, o, "create Pods", &v.Owner.Spec.Template, o.update, t.create)
	if made+more > 0 {
		r.events.Event(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulCreate, createdText(o, made+more, made))
	}
	return errors.Join(oldErr, err)
}

// createdText says how many Pods of which revision were made.
func createdText(o *observation, made, old int) string {
	switch old {
	case 0:
		return fmt.Sprintf("created %d Pods at revision %s", made, o.update.Name)
	case made:
		return fmt.Sprintf("created %d Pods at revision %s", made, o.current.Name)
	default:
		return fmt.Sprintf("created %d Pods, %d at revision %s and %d at revision %s", made, old, o.current.Name, made-old, o.update.Name)
	}
}

// createPods makes a Pod of a revision for each id, unless that was refused a moment ago.
func (r *Reconciler) createPods(
	ctx context.Context, v *view, pass *fanout.Pass, o *observation, name string, template *corev1.PodTemplateSpec, rev *appsv1.ControllerRevision, ids []string,
) (made int, err error) {
	existing := sets.New[string]()
	for _, claim := range v.Claims {
		existing.Insert(claim.Name)
	}
	var tell sync.Once
	return pass.Create(ctx, fanout.Task{Name: name}, len(ids), func(ctx context.Context, i int) error {
		pod, claims := r.newPod(v, template, rev, ids[i], existing)
		r.unborn.Add(v.Owner.UID, pod.Name)
		err := claimwriter.Create(ctx, v.Client, claims)
		if err == nil {
			err = r.pods.For(v, pass).Create(ctx, pod, o.settings.selector)
		}
		if err == nil {
			r.unborn.Remove(v.Owner.UID, pod.Name)
			return nil
		}
		pattern := pod.GenerateName + "*"
		why := reason.Reason{Code: PodNotCreated, Object: reason.Object{Kind: "Pod", Name: pattern}, Detail: strings.ReplaceAll(err.Error(), pod.Name, pattern)}
		tell.Do(func() { r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventFailedCreate, why.String()) })
		return why.With(err)
	})
}

// newPod builds the Pod with an instance id from a template, and the claims that it lacks. The template is not modified.
func (r *Reconciler) newPod(
	v *view, template *corev1.PodTemplateSpec, rev *appsv1.ControllerRevision, id string, existing sets.Set[string],
) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
	cs, owner := v.Owner, ownerReference(v.Owner)
	pod := r.control.NewPod(template, cs.Namespace, owner, rev.Name, v.Now)
	pod.Name, pod.GenerateName = podName(cs, id), podName(cs, "")
	pod.Labels[apps.LabelInstanceID] = id
	pvc.Mount(pod, cs.Spec.VolumeClaimTemplates)
	labels := maps.Clone(cs.Spec.Selector.MatchLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[apps.LabelInstanceID] = id
	return pod, pvc.Missing(cs.Spec.VolumeClaimTemplates, cs.Namespace, pod.Name, labels, &owner, existing.Has)
}
