// Package sidecars is a whole operator for the example kind Sidecar: a container that is injected into all new Pods
// that match a selector. If the image of the container is changed later, running Pods are updated without a restart
// of other containers. A webhook injects the container, and a controller upgrades the container; the library
// workloadkit contains the code of both.
package sidecars

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/upgrader"
)

// group is the prefix of all names of the operator, because the library workloadkit has no default names.
const group = "sidecars.example.com"

// keys returns the names of the annotations and labels that are written onto Pods.
func keys() sidecarcontrol.Keys {
	return sidecarcontrol.Keys{
		HashAnnotation: group + "/hash", HashWithoutImagesAnnotation: group + "/hash-without-images", InjectedAnnotation: group + "/injected",
		StateAnnotation: group + "/state", InjectedEnv: "SIDECAR_INJECTED",
	}
}

// setOf returns the containers that a Sidecar injects, or the error if the Sidecar is invalid. The webhook and the
// controller both call setOf, and so use the same containers.
func setOf(s *Sidecar) (*sidecarcontrol.Set, error) {
	if problems := decode.Reasons(s.Spec.undecodable); problems != nil {
		return nil, problems
	}
	container := s.Spec.Container
	container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return sidecarcontrol.NewSet(sidecarcontrol.Spec{
		Name: s.Name, Selector: &s.Spec.Selector, Volumes: s.Spec.Volumes, InitContainers: []sidecarcontrol.Sidecar{{Container: container}},
	})
}

type reconciler struct{ *upgrader.Upgrader[*Sidecar] }

// Reconcile takes the next step towards the newest container in the Pods of a Sidecar.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // injected containers stay in their Pods after the deletion
		return result, err
	}
	pass, status := r.Fanout.Begin(v), v.Owner.DeepCopyObject().(*Sidecar).Status
	condition := func(kind string, err error) {
		meta.SetStatusCondition(&status.Conditions, reason.Condition(kind, v.Owner.Generation, err))
	}
	set, err := setOf(v.Owner)
	if err == nil {
		var work upgrader.Work
		work, err = r.Work(ctx, v, pass, set, upgrader.Plan{Rollout: rolloutOf(v)})
		status.Pods, status.Updated, status.Ready = count(work.Pods)
		condition("Blocked", blocked(work.Pods))
		condition("Waiting", work.Choice.Limits.Err())
	} else {
		err = reason.Final(err)
	}
	condition("Failed", err)
	status.ObservedGeneration = v.Owner.Generation
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(err, statusErr)
}

// rolloutOf returns a function that returns the rules of the rollout: how many Pods may be unavailable at the same
// time.
func rolloutOf(v *ownercache.View[*Sidecar]) func([]sidecarcontrol.Standing) sidecarcontrol.Rollout {
	return func([]sidecarcontrol.Standing) sidecarcontrol.Rollout {
		return sidecarcontrol.Rollout{MaxUnavailable: max(v.Owner.Spec.MaxUnavailable, 1), MaxUnavailablePath: "spec.maxUnavailable"}
	}
}

func count(pods []sidecarcontrol.Standing) (all, updated, ready int32) {
	for i := range pods {
		if pods[i].Updated {
			updated++
		}
		if pods[i].Serves() {
			ready++
		}
	}
	return int32(len(pods)), updated, ready
}

// blocked returns the reasons why Pods cannot be upgraded in place; nil if there are none.
func blocked(pods []sidecarcontrol.Standing) error {
	var errs []error
	for i := range pods {
		if !pods[i].Updated {
			errs = append(errs, pods[i].Blocked.Err())
		}
	}
	return errors.Join(errs...)
}
