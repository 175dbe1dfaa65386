package executor_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// reconciler keeps identical Pods. The owners are ReplicaSets, because every program knows this type.
type reconciler struct {
	*executor.Parts[*appsv1.ReplicaSet]
}

func newReconciler(ctx context.Context, mgr ownercache.Manager, cache ownercache.Options) (*reconciler, error) {
	inPlace, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update-state", GraceAnnotation: "example.com/update-grace", Gate: "example.com/Updated",
		Reserved: []string{"example.com/revision"},
	}})
	if err != nil {
		return nil, err
	}
	parts, err := executor.NewParts(ctx, mgr, &appsv1.ReplicaSet{}, executor.Config[*appsv1.ReplicaSet]{
		Control:   podcontrol.Config{InPlace: inPlace, RevisionLabel: "example.com/revision"},
		Revisions: revision.Keys{HashLabel: "example.com/revision"},
		Cache:     cache,
		Options: executor.Options[*appsv1.ReplicaSet]{
			Rules: func(*appsv1.ReplicaSet) podcontrol.Rules {
				return podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible}
			},
			Observe: func(_ *appsv1.ReplicaSet, e executor.Event) { fmt.Println(e.Type, e.Pod.Name) }, // or executor.Record
		},
	})
	return &reconciler{parts}, err
}

// Reconcile observes, decides and acts. Parts.AddTo adds the reconciler to a manager, together with the loop over
// single Pods, which opens gates again.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil || t.Owner.DeletionTimestamp != nil {
		return result, err
	}
	template := &t.Owner.Spec.Template
	if err := r.SyncHistory(ctx, t, executor.Templates{Pod: template}); err != nil || t.History.Update == nil {
		return t.Pass.Result(err)
	}
	update := t.History.Update
	set, orders := t.Read(podcontrol.Want{Update: update.Name}), podcontrol.Orders{Rest: r.Executor.Rest}
	step := rollout.Plan(rollout.Spec{Replicas: int(*t.Owner.Spec.Replicas), MaxUnavailable: 1}, set.Counts(false))
	err = t.Pass.UntilChanged(
		func() error {
			_, err := t.CreatePods(ctx, step.Create, executor.PodTemplates{Template: template, Revision: update.Name})
			return err
		},
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, set.ChooseDeletions(step, orders).Delete, t.Delete),
		t.Each(ctx, fanout.Task{Name: "update Pods"}, set.ChooseUpdates(step, orders).Update, t.UpdateTo(update, r.PlansTo(t.History, update))),
	)
	return t.Pass.Result(err, t.Unfinished())
}

func Example() {
	ctx := ctrl.SetupSignalHandler()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		panic(err)
	}
	r, err := newReconciler(ctx, mgr, ownercache.Options{})
	if err == nil {
		err = r.AddTo(mgr, "webs", r, ownercache.ControllerOptions{Workers: 5}, ownercache.ControllerOptions{Workers: 5})
	}
	if err == nil {
		err = mgr.Start(ctx)
	}
	if err != nil {
		panic(err)
	}
}
