package sidecarset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("SidecarSet"), Resource: "sidecarsets", ClusterScoped: true, Converted: true,
		Reach:       "puts containers into Pods of every namespace",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return Setup(ctx, mgr, c, shared)
		},
		// The Pod's sidecars may have to be upgraded.
		WholePod: func(pod *corev1.Pod) bool { return pod.Annotations[apps.AnnotationSidecarSetInjected] != "" },
		PodMutator: func(ctx context.Context, mgr ctrl.Manager, in kind.PodInputs) (podwebhook.Mutator, error) {
			step, err := newInjection(ctx, mgr, in.Revisions, in.Gates, in.Clock)
			return kind.OnceCurrent(step, in.Current), err
		},
		Rights:    kind.Rights{Objects: []string{"get", "list", "watch"}, Status: true, Owns: true},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
		Sample: kind.Sample{
			List:   func() client.ObjectList { return &v1beta1.SidecarSetList{} },
			Object: func(s kind.Shape) client.Object { return sampleSidecarSet(s) },
			Pod:    injectedSample,
			Settled: func(object client.Object, pods int) bool {
				set, ok := object.(*v1beta1.SidecarSet)
				want, s := int32(pods), &set.Status
				return ok && s.ObservedGeneration >= set.Generation && s.MatchedPods == want && s.UpdatedPods == want && s.UpdatedReadyPods == want
			},
		},
	}
}

// sampleSidecarSet returns a SidecarSet with all defaults, whose sidecars are the containers of the shape's template.
func sampleSidecarSet(s kind.Shape) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: v1beta1.SidecarSetSpec{
			Selector:          s.Selector,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
			UpdateStrategy:    pub.SidecarSetUpdateStrategy{MaxUnavailable: &s.MaxUnavailable},
		},
	}
	for i := range s.Template.Spec.Containers {
		set.Spec.Containers = append(set.Spec.Containers, pub.SidecarContainer{Container: s.Template.Spec.Containers[i]})
	}
	if err := api.Default(set); err != nil {
		panic(err) // the containers cannot be encoded as JSON
	}
	return set
}

// injectedSample returns a Pod with a single container besides the sidecars of the sample.
func injectedSample(s kind.Shape) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: *s.Template.ObjectMeta.DeepCopy()}
	pod.Spec.TerminationGracePeriodSeconds = s.Template.Spec.TerminationGracePeriodSeconds
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.test/main:v1"}}
	return pod, inject(pod, sampleSidecarSet(s), clock.RealClock{}.Now())
}
