package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownerindex"
	"github.com/workloadkit/workloadkit/revision"
)

// FleetList is a list of Fleets.
type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Fleet `json:"items"`
}

// DeepCopyObject makes FleetList a runtime.Object.
func (l *FleetList) DeepCopyObject() runtime.Object {
	out := &FleetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Fleet))
	}
	return out
}

func groupVersion() schema.GroupVersion { return schema.GroupVersion{Group: group, Version: "v1"} }

func controllerRef(f *Fleet) metav1.OwnerReference {
	return *metav1.NewControllerRef(f, groupVersion().WithKind("Fleet"))
}

func main() {
	config, err := ctrl.GetConfig()
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run wires the parts together and runs until ctx ends.
func run(ctx context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(groupVersion(), &Fleet{}, &FleetList{})
	metav1.AddToGroupVersion(scheme, groupVersion())
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	r := &reconciler{Client: mgr.GetClient(), live: mgr.GetAPIReader(), decoder: revision.NewDecoder(1000, nil)}
	r.inPlace = inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: group + "/update-state", GraceAnnotation: group + "/update-grace", Gate: gate,
	}}
	r.planner = inplaceupdate.NewPlanner(r.inPlace, r.decoder, nil)
	if r.pods, err = ownerindex.New(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return err
	}
	if r.revisions, err = ownerindex.New(ctx, mgr.GetCache(), &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	r.tracker = expectations.New(map[expectations.Store]expectations.Progress{podStore(): r.pods}, expectations.Options{})
	wakes := ownerindex.EnqueueController(groupVersion().WithKind("Fleet").GroupKind(), nil)
	if err := ctrl.NewControllerManagedBy(mgr).For(&Fleet{}).Watches(&corev1.Pod{}, wakes).Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
