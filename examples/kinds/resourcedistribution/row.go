package resourcedistribution

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("ResourceDistribution"), Resource: "resourcedistributions", ClusterScoped: true, Converted: true, Released: "v1alpha1",
		Reach: "puts Secrets and ConfigMaps into every namespace", Secret: "may hold a Secret, which view does not show",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Gates: []apps.Gate{apps.GateResourceDistribution}, Metrics: metrics.Work{Things: "copies", Label: "action", Help: "Copies written, by what was done to them: created, updated, deleted."}.Metrics,
		// The cache must not contain data of users' Secrets.
		Cached:    []kind.Cached{{Object: &corev1.ConfigMap{}, Keep: keepOwner}, {Object: &corev1.Secret{}, Keep: keepOwner}},
		Setup:     Setup,
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
