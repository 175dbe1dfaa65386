package ownercache_test

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/ownercache"
)

// onePod keeps one Pod for each owner. The owners are ReplicaSets, because every program knows this type.
type onePod struct {
	cache *ownercache.Cache[*appsv1.ReplicaSet]
}

// Reconcile creates a missing Pod only once, although the cache shows the new Pod late.
func (r *onePod) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil || len(v.Pods) > 0 {
		return result, err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: v.Owner.Namespace, Name: v.Owner.Name + "-0", Labels: v.Owner.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v.Owner, r.cache.Kind())},
	}, Spec: v.Owner.Spec.Template.Spec}
	return result, v.Client.Create(ctx, pod) // the next Observe waits until the cache shows the Pod
}

func ExampleNew() {
	ctx := ctrl.SetupSignalHandler()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		panic(err)
	}
	cache, err := ownercache.New(ctx, mgr, &appsv1.ReplicaSet{}, ownercache.Options{})
	if err == nil {
		err = cache.AddController(mgr, "webs", &onePod{cache}, ownercache.ControllerOptions{Workers: 5})
	}
	if err == nil {
		err = mgr.Start(ctx)
	}
	if err != nil {
		panic(err)
	}
}
