package kruise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// PodNotCreated means that a Pod or its claim could not be created. The message leaves out the generated part of names,
// so the same trouble has the same message each time.
const PodNotCreated reason.Code = "PodNotCreated"

// Create makes n Pods of a revision, each after its missing claims. unborn remembers failed Pods. Events tell the
// number of created Pods, and the first failure.
func (p *Parts[O]) Create(
	ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, n int, revision string, selector labels.Selector, unborn *pvc.Unborn,
	build func(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim),
) error {
	var tell sync.Once
	made, err := pass.Create(ctx, fanout.Task{Name: "create Pods of revision " + revision}, n, func(ctx context.Context, i int) error {
		pod, claims := build(i)
		unborn.Add(v.Owner.GetUID(), pod.Name)
		err := claimwriter.Create(ctx, v.Client, claims)
		if err == nil {
			err = p.Pods.For(v, pass).Create(ctx, pod, selector)
		}
		if err == nil {
			unborn.Remove(v.Owner.GetUID(), pod.Name)
			return nil
		}
		pattern := pod.GenerateName + "*"
		why := reason.Reason{Code: PodNotCreated, Object: reason.Object{Kind: "Pod", Name: pattern}, Detail: strings.ReplaceAll(err.Error(), pod.Name, pattern)}
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			tell.Do(func() { p.Events.Event(v.Owner, corev1.EventTypeWarning, apps.EventFailedCreate, why.String()) })
		}
		return why.With(err)
	})
	if made > 0 {
		p.Events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulCreate, "created %d Pods at revision %s", made, revision)
	}
	return err
}

// TellLimits sends events about the obstacles to the creation of Pods.
func (p *Parts[O]) TellLimits(owner O, limits reason.List) {
	for _, limit := range limits {
		if limit.Code == rollout.ScaleUpLimited {
			p.Events.Event(owner, corev1.EventTypeWarning, apps.EventScaleUpLimited, limit.Detail)
		}
	}
}

// Waits returns the limits of a step not visible in the spec: partitions and pauses are the writer's own wish.
func Waits(limits reason.List) error {
	return slices.DeleteFunc(slices.Clone(limits), func(limit reason.Reason) bool {
		return limit.Code == rollout.RolloutPaused || strings.HasSuffix(limit.Path, ".partition")
	}).Err()
}

// TellCreated sends events about the number of created Pods, and the first failure.
func TellCreated(events record.EventRecorder, owner client.Object, made int, err error) {
	if made > 0 {
		events.Eventf(owner, corev1.EventTypeNormal, apps.EventSuccessfulCreate, "created %d Pods", made)
	}
	if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		_, message := reason.Explain(err)
		events.Event(owner, corev1.EventTypeWarning, apps.EventFailedCreate, message)
	}
}

// TendClaims hands claims over and deletes claims, as decided by package pvc.
func (p *Parts[O]) TendClaims(ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, handOver []pvc.Transfer, remove []*corev1.PersistentVolumeClaim) error {
	if len(handOver)+len(remove) == 0 {
		return nil
	}
	return pass.Once(ctx, fanout.Task{Name: "tend claims"}, func() (changed bool, err error) {
		var errs []error
		for _, transfer := range handOver {
			errs = append(errs, claimwriter.HandOver(ctx, v.Client, v.Owner.GetUID(), transfer))
			changed = changed || errs[len(errs)-1] == nil
		}
		err = p.DeleteClaims(ctx, v, remove)
		return changed || len(remove) > 0 && err == nil, errors.Join(append(errs, err)...)
	})
}

// CreateClaims makes claims of existing Pods that cannot start without the claims.
func (p *Parts[O]) CreateClaims(ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, missing []*corev1.PersistentVolumeClaim) error {
	return pass.Once(ctx, fanout.Task{Name: "create claims of Pods"}, func() (bool, error) {
		return len(missing) > 0, claimwriter.Create(ctx, v.Client, missing)
	})
}

// DeleteClaims deletes claims. Events tell of failures.
func (p *Parts[O]) DeleteClaims(ctx context.Context, v *ownercache.View[O], claims []*corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, claim := range claims {
		err := claimwriter.Delete(ctx, v.Client, claim)
		if err != nil {
			p.Events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete PersistentVolumeClaim %s: %v", claim.Name, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// GrowClaims raises the requests of claims to the sizes of their templates, and puts annotations on the claims. Events
// tell the results. A failed claim does not stop the rest.
func (p *Parts[O]) GrowClaims(
	ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, claims []pvc.Small, annotations map[string]string,
) error {
	return claimwriter.GrowAll(ctx, pass, claims, claimwriter.Growth{
		Client: v.Client, Classes: p.Cache.APIReader(), Annotations: annotations,
		Path: func(claim pvc.Small) string { return "spec.volumeClaimTemplates[" + claim.Template.Name + "]" },
		Told: func(claim pvc.Small, err error) {
			if err != nil {
				p.Events.Event(v.Owner, corev1.EventTypeWarning, apps.EventFailedResize, err.Error())
				return
			}
			p.Events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulResize,
				"PersistentVolumeClaim %s grows to %s", claim.Name, claim.Template.Spec.Resources.Requests.Storage())
		},
	})
}
