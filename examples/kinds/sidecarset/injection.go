package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// inject adds the newest sidecars of a SidecarSet to a Pod as the webhook would, for measurements.
func inject(pod *corev1.Pod, set *v1beta1.SidecarSet, now time.Time) error {
	control, err := kruise.SidecarControl(nil)
	if err != nil {
		return err
	}
	compiled, err := Compile(set, set.Status.LatestRevision, nil)
	if err != nil {
		return err
	}
	_, err = control.Inject(pod, []*sidecarcontrol.Set{compiled}, sidecarcontrol.Facts{Now: now})
	return err
}

// newInjection returns the step of the Pod webhook that injects sidecars. namespace is the namespace in which
// revisions are stored. Revisions in other namespaces are ignored. now tells the time; nil means the real clock. The
// step runs on every replica of the manager, and reads from the manager's cache. Call newInjection before the manager
// starts, and only if the CRD of SidecarSets is installed.
func newInjection(ctx context.Context, mgr podwebhook.Manager, namespace string, gates map[apps.Gate]bool, now clock.PassiveClock) (podwebhook.Mutator, error) {
	if namespace == "" {
		return podwebhook.Mutator{}, errors.New("injection needs the namespace of the revisions")
	}
	control, err := kruise.SidecarControl(gates)
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	owners, err := ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.SidecarSet{})
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	revisions, err := ownercache.NewIndex(ctx, mgr.GetCache(), &appsv1.ControllerRevision{})
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	sets, err := podwebhook.NewSets(ctx, mgr, &v1beta1.SidecarSet{}, func(set *v1beta1.SidecarSet) (*sidecarcontrol.Set, error) {
		return Compile(set, revisionName(set), func(pin *pub.SidecarSetInjectRevision) *appsv1.ControllerRevision {
			return find(revisions.Of(namespace, set.UID), pin)
		})
	})
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &appsv1.ControllerRevision{}, cache.BlockUntilSynced(false))
	if err != nil {
		return podwebhook.Mutator{}, fmt.Errorf("informer for ControllerRevisions: %w", err)
	}
	changed := func(obj any) {
		if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = missed.Obj
		}
		rev, ok := obj.(*appsv1.ControllerRevision)
		if !ok || rev.Labels[apps.LabelSidecarSetName] == "" {
			return
		}
		// The creation or deletion of a pinned revision changes the sidecars that new Pods get.
		if set, ok := owners.Get("", rev.Labels[apps.LabelSidecarSetName]); ok && set.Spec.InjectionStrategy.Revision != nil {
			sets.Update(set)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, after any) { changed(after) }, DeleteFunc: changed,
	})
	if err != nil {
		return podwebhook.Mutator{}, fmt.Errorf("watching ControllerRevisions: %w", err)
	}
	sets.Await(registration.HasSynced)
	return podwebhook.Injection{Control: control, Sets: sets.For, Clock: now}.Mutator("SidecarSet")
}
