package statefulset

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
)

// ClaimInTheWay means that a Pod cannot be created yet, because a claim of its name is on its way out and would go with its data.
const ClaimInTheWay reason.Code = "ClaimInTheWay"

// claimRetry is when to look again at claims whose events wake nobody: those that no StatefulSet has changed.
const claimRetry = 5 * time.Second

// claimWork is what is to be done to one claim: it gets other owners or, with a template, the size of that.
type claimWork struct {
	*corev1.PersistentVolumeClaim

	owners   []metav1.OwnerReference
	template *corev1.PersistentVolumeClaim
}

// watchClaims wakes StatefulSets by the claims that they have grown.
func watchClaims(b *builder.Builder) *builder.Builder {
	return b.Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) []reconcile.Request {
		name := claim.GetAnnotations()[apps.AnnotationOwnedByStatefulSet]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}}}
	}))
}

// claimsOf calls f with each claim that a Pod of the name has or should have; claim is nil where there is none.
func (o *observation) claimsOf(pod string, f func(template, claim *corev1.PersistentVolumeClaim)) {
	templates := o.set.Spec.VolumeClaimTemplates
	for i := range templates {
		claim, _ := o.claim(pvc.Name(templates[i].Name, pod))
		f(&templates[i], claim)
	}
}

// missingClaims are the claims that a Pod of the name lacks.
func (o *observation) missingClaims(pod string) []*corev1.PersistentVolumeClaim {
	owner := &o.self
	if _, owned := o.settings.retention.Owners(&corev1.PersistentVolumeClaim{}, o.self, nil, true); !owned {
		owner = nil
	}
	return pvc.Missing(o.set.Spec.VolumeClaimTemplates, o.set.Namespace, pod, o.set.Spec.Selector.MatchLabels, owner, func(name string) bool {
		_, exists := o.claim(name)
		return exists
	})
}

// owners says which claims of a Pod that exists get other owners.
func (o *observation) owners(pod *corev1.Pod, wanted bool) (out []claimWork) {
	if !o.settings.retains {
		return nil
	}
	o.claimsOf(pod.Name, func(_, claim *corev1.PersistentVolumeClaim) {
		if claim == nil || claim.DeletionTimestamp != nil {
			return
		}
		if owners, differ := o.settings.retention.Owners(claim, o.self, pod, wanted); differ {
			out = append(out, claimWork{PersistentVolumeClaim: claim, owners: owners})
		}
	})
	return out
}

// inTheWay says which claims keep a Pod of the name from being created.
func (o *observation) inTheWay(pod string) (list reason.List) {
	o.claimsOf(pod, func(_, claim *corev1.PersistentVolumeClaim) {
		if claim != nil && (claim.DeletionTimestamp != nil || o.settings.retention.WithPod && pvc.IsStale(claim, pod, "")) {
			list = append(list, reason.Reason{
				Code: ClaimInTheWay, Object: reason.ObjectOf("PersistentVolumeClaim", claim), Detail: "it is on its way out", Remedy: "wait until it is gone",
			})
		}
	})
	return list
}

// createClaims makes the claims that a new Pod lacks, and has those own the others that should.
func (r *Reconciler) createClaims(ctx context.Context, v *view, o *observation, pod *corev1.Pod) error {
	if err := claimwriter.Create(ctx, v.Client, o.missingClaims(pod.Name)); err != nil {
		return err
	}
	var errs reason.List
	o.claimsOf(pod.Name, func(_, claim *corev1.PersistentVolumeClaim) {
		if claim == nil || !o.settings.retains {
			return
		}
		if owners, differ := o.settings.retention.Owners(claim, o.self, nil, true); differ {
			errs.Add(ClaimInTheWay, claimwriter.SetOwners(ctx, v.Client, claim, owners))
		}
	})
	return errs.Err()
}

// tend does what is to be done to one claim.
func (r *Reconciler) tend(ctx context.Context, v *view, w claimWork) (changed bool, err error) {
	if w.template != nil {
		err = r.grow(ctx, v, w)
	} else {
		err = claimwriter.SetOwners(ctx, v.Client, w.PersistentVolumeClaim, w.owners)
	}
	return err == nil, err
}

// grow has one claim ask for the size of its template.
func (r *Reconciler) grow(ctx context.Context, v *view, w claimWork) error {
	if name := w.Spec.StorageClassName; name != nil && *name != "" {
		class, err := r.class(ctx, *name)
		if err == nil {
			err = reason.Final(pvc.MayGrow("spec.volumeClaimTemplates["+w.template.Name+"]", *name, class))
		}
		if err != nil {
			r.Events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedResize, "PersistentVolumeClaim %s cannot grow: %v", w.Name, err)
			return err
		}
	}
	err := claimwriter.Grow(ctx, v.Client, w.PersistentVolumeClaim, w.template, map[string]string{apps.AnnotationOwnedByStatefulSet: v.Owner.Name})
	if err != nil {
		r.Events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedResize, "%v", err)
		return err
	}
	r.Events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulResize, "PersistentVolumeClaim %s grows to %s", w.Name, w.template.Spec.Resources.Requests.Storage())
	return nil
}

// claimStatus says how far the claims of the Pods that exist follow the templates.
func (o *observation) claimStatus() []v1beta1.VolumeClaimStatus {
	templates := o.set.Spec.VolumeClaimTemplates
	out := make([]v1beta1.VolumeClaimStatus, len(templates))
	for i := range templates {
		out[i].VolumeClaimName = templates[i].Name
		for j := range o.pods.Active {
			claim, ok := o.claim(pvc.Name(templates[i].Name, o.pods.Active[j].Name))
			if !ok || pvc.IsSmaller(claim, &templates[i]) || len(pvc.Differences(claim, &templates[i])) > 0 {
				continue
			}
			if out[i].CompatibleReplicas++; pvc.HasGrown(claim) {
				out[i].CompatibleReadyReplicas++
			}
		}
	}
	return out
}
