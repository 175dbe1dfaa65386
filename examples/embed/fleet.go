// Command embed is a whole operator for a kind of its own, Fleet, that updates its Pods in place. Everything hard comes from
// the kit; what is left reads from top to bottom: observe, decide, act. Its CRD is in crd.yaml.
package main

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownerindex"
	"github.com/workloadkit/workloadkit/podpatch"
	podapply "github.com/workloadkit/workloadkit/podpatch/apply"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	revisionapply "github.com/workloadkit/workloadkit/revision/apply"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/slowstart"
)

// Fleet keeps a number of equal Pods.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              struct {
		Replicas int                    `json:"replicas"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// DeepCopyObject makes Fleet a runtime.Object.
func (f *Fleet) DeepCopyObject() runtime.Object {
	out := *f
	out.ObjectMeta = *f.ObjectMeta.DeepCopy()
	f.Spec.Template.DeepCopyInto(&out.Spec.Template)
	return &out
}

// Names of the operator's own: the kit has none.
const (
	group         = "fleet.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

type reconciler struct {
	client.Client
	live      client.Reader
	pods      *ownerindex.Index[*corev1.Pod]
	revisions *ownerindex.Index[*appsv1.ControllerRevision]
	tracker   *expectations.Tracker
	decoder   *revision.Decoder
	planner   *inplaceupdate.Planner
	inPlace   inplaceupdate.Config
}

func podStore() expectations.Store {
	return expectations.Store{GroupResource: schema.GroupResource{Resource: "pods"}}
}

// Reconcile takes one Fleet a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	fleet := &Fleet{}
	if err := r.Get(ctx, req.NamespacedName, fleet); err != nil || fleet.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pending, err := r.tracker.Check(fleet.UID, func(_ expectations.Store, uid types.UID) bool { return r.pods.IsLive(uid) })
	if err != nil {
		return ctrl.Result{}, err
	}
	if pending != nil { // the cache does not hold all of our own writes yet
		return ctrl.Result{RequeueAfter: pending.RequeueAfter}, nil
	}
	target, err := r.ensureRevision(ctx, fleet)
	if err != nil {
		return ctrl.Result{}, err
	}
	var counts rollout.Counts
	var current, outdated []*corev1.Pod
	for _, pod := range r.pods.Of(fleet.UID) {
		if !podstate.IsActive(pod) {
			continue
		}
		// Opens the readiness gate of a new Pod, and of one whose containers run the new images.
		step, err := r.inPlace.Next(pod, metav1.Now())
		if err := errors.Join(err, r.send(ctx, fleet, pod, step.Change)); err != nil {
			return ctrl.Result{}, err
		}
		of, list := &counts.New, &current
		if pod.Labels[revisionLabel] != target.Name {
			of, list = &counts.Old, &outdated
		}
		*list = append(*list, pod)
		of.Total++
		if !podstate.IsReady(pod) {
			of.Unavailable++
		}
	}
	step := rollout.Plan(rollout.Spec{Replicas: fleet.Spec.Replicas, MaxUnavailable: 1, ScaleMaxUnavailable: rollout.Unlimited}, counts)
	if step.Create > 0 {
		return ctrl.Result{}, r.create(ctx, fleet, target.Name, step.Create)
	}
	if step.Delete > 0 {
		return ctrl.Result{}, r.delete(ctx, fleet, append(outdated, current...)[:step.Delete])
	}
	budget := rollout.NewUpdateBudget(step.UpdateUnavailable, counts.New.Unavailable, counts.Unavailable())
	for _, pod := range outdated[:min(len(outdated), step.Update)] {
		if !budget.Admit(podstate.IsReady(pod)) {
			break
		}
		if err := r.update(ctx, fleet, pod, target); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

func (r *reconciler) ensureRevision(ctx context.Context, fleet *Fleet) (*appsv1.ControllerRevision, error) {
	owner := revision.Owner{Namespace: fleet.Namespace, Name: fleet.Name, Reference: controllerRef(fleet)}
	keys := revision.Keys{HashLabel: revisionLabel}
	decision, err := revision.Decide(owner, keys, &fleet.Spec.Template, nil, r.revisions.Of(fleet.UID), r.decoder)
	if err != nil {
		return nil, err
	}
	target, _, err := revisionapply.Ensure(ctx, r.Client, r.live, owner, keys, decision, nil)
	return target, err
}

// update changes a Pod in place, or deletes it and says why that could not be.
func (r *reconciler) update(ctx context.Context, fleet *Fleet, pod *corev1.Pod, target *appsv1.ControllerRevision) error {
	plan := r.planner.Plan(revision.Find(r.revisions.Of(fleet.UID), pod.Labels[revisionLabel]), target)
	if !plan.Possible() {
		ctrl.LoggerFrom(ctx).Info("Pod is recreated", "pod", pod.Name, "why", plan.Blocking.String())
		return r.delete(ctx, fleet, []*corev1.Pod{pod})
	}
	change, err := r.inPlace.Start(pod, plan, inplaceupdate.Target{Revision: target.Name}, metav1.Now())
	if err != nil {
		return err
	}
	return r.send(ctx, fleet, pod, change, podpatch.Change{Labels: map[string]*string{revisionLabel: &target.Name}})
}

func (r *reconciler) send(ctx context.Context, fleet *Fleet, pod *corev1.Pod, changes ...podpatch.Change) error {
	result, err := podapply.Send(ctx, r, pod, metav1.Now(), changes...)
	if result.Sent > 0 {
		err = errors.Join(err, r.tracker.Wrote(fleet.UID, podStore(), result.ResourceVersion))
	}
	return err
}

func (r *reconciler) delete(ctx context.Context, fleet *Fleet, pods []*corev1.Pod) (err error) {
	for _, pod := range pods {
		gone := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		err = errors.Join(err, client.IgnoreNotFound(gone), r.tracker.Deleted(fleet.UID, podStore(), pod.UID))
	}
	return err
}

func (r *reconciler) create(ctx context.Context, fleet *Fleet, rev string, n int) error {
	_, err := slowstart.Run(ctx, n, 1, func(ctx context.Context, _ int) error {
		t := fleet.Spec.Template.DeepCopy()
		pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		pod.Namespace, pod.GenerateName = fleet.Namespace, fleet.Name+"-"
		pod.OwnerReferences = []metav1.OwnerReference{controllerRef(fleet)}
		metav1.SetMetaDataLabel(&pod.ObjectMeta, revisionLabel, rev)
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
		if err := r.Create(ctx, pod); err != nil {
			return err
		}
		return r.tracker.Wrote(fleet.UID, podStore(), pod.ResourceVersion)
	})
	return err
}
