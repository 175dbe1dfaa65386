package executor_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/internal/clustertest"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// reconciler keeps equal Pods. Its owners are ReplicaSets only because every program knows the type.
type reconciler struct {
	*executor.Parts[*appsv1.ReplicaSet]
}

func newReconciler(ctx context.Context, mgr ownercache.Manager) (*reconciler, error) {
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
		Cache:     ownercache.Options{NoBarrier: true}, // there is no API server behind this Example
		Options: executor.Options[*appsv1.ReplicaSet]{
			Rules: func(*appsv1.ReplicaSet) podcontrol.Rules {
				return podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible}
			},
			Observe: func(_ *appsv1.ReplicaSet, e executor.Event) { fmt.Println(e.Type, e.Pod.Name) }, // or executor.Record
		},
	})
	return &reconciler{parts}, err
}

// Reconcile observes, decides and acts. Parts.AddTo adds Reconcile to a manager, with the Pods' own loop, which opens
// gates again.
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
			_, err := t.CreatePods(ctx, step.Create, executor.PodTemplates{
				Template: template, Revision: update.Name, Name: func(i int) string { return fmt.Sprintf("web-%d", i) }, // not in a program
			})
			return err
		},
		t.Each(ctx, fanout.Task{Name: "delete Pods"}, set.ChooseDeletions(step, orders).Delete, t.Delete),
		t.Each(ctx, fanout.Task{Name: "update Pods"}, set.ChooseUpdates(step, orders).Update, t.UpdateTo(update, r.PlansTo(t.History, update))),
	)
	return t.Pass.Result(err, t.Unfinished())
}

func Example() {
	ctx, mgr := context.Background(), clustertest.New() // a controller-runtime manager in a program
	r, err := newReconciler(ctx, mgr)
	one := int32(1)
	web := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	web.Spec.Replicas = &one
	web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	err = errors.Join(err, mgr.Create(ctx, web))

	key := types.NamespacedName{Namespace: "default", Name: "web"}
	pass := func() {
		_, failed := r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
		err = errors.Join(err, failed, mgr.Deliver(ctx))
	}
	err = errors.Join(err, mgr.Deliver(ctx))
	pass() // writes the revision, and creates the Pod

	err = errors.Join(err, mgr.Get(ctx, key, web))
	web.Generation, web.Spec.Template.Spec.Containers[0].Image = 2, "app:v2"
	err = errors.Join(err, mgr.Update(ctx, web), mgr.Deliver(ctx))
	pass() // writes the next revision, and updates the Pod in place

	pod := &corev1.Pod{}
	err = errors.Join(err, mgr.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web-0"}, pod))
	fmt.Println(pod.Spec.Containers[0].Image, err)
	// Output:
	// Created web-0
	// Started web-0
	// app:v2 <nil>
}
