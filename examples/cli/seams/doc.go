// Package seams makes kubectl's own commands work for the kinds of OpenKruise.
//
// kubectl has package variables for other implementations: a scheme of types, and functions per kind (package
// polymorphichelpers). [Install] sets these variables, so that "set image", "expose", "exec" and "rollout history" of
// this command line are kubectl's own commands, with all flags and texts. For kinds of Kubernetes, kubectl's
// functions are still used.
package seams

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// Install registers the types in kubectl's scheme, and sets kubectl's function variables. No command may run at the
// same time. A second call changes nothing.
func Install() error {
	for _, add := range []func(*runtime.Scheme) error{
		v1beta1.AddToScheme, v1alpha1.AddToScheme, policyv1beta1.AddToScheme, policyv1alpha1.AddToScheme,
	} {
		if err := add(scheme.Scheme); err != nil {
			return fmt.Errorf("types for kubectl: %w", err)
		}
	}
	err := scheme.Scheme.SetVersionPriority(v1beta1.GroupVersion, v1alpha1.GroupVersion)
	if err != nil {
		return fmt.Errorf("versions of %s: %w", v1beta1.GroupVersion.Group, err)
	}
	if err := scheme.Scheme.SetVersionPriority(policyv1beta1.GroupVersion, policyv1alpha1.GroupVersion); err != nil {
		return fmt.Errorf("versions of %s: %w", policyv1beta1.GroupVersion.Group, err)
	}
	replaceFunctions()
	return nil
}

// replaceFunctions wraps each of kubectl's functions in a function that handles the kinds of OpenKruise.
func replaceFunctions() {
	update, attach, expose := polymorphichelpers.UpdatePodSpecForObjectFn, polymorphichelpers.AttachablePodForObjectFn, polymorphichelpers.CanBeExposedFn
	ports, protocols, selector := polymorphichelpers.PortsForObjectFn, polymorphichelpers.MultiProtocolsForObjectFn, polymorphichelpers.MapBasedSelectorForObjectFn
	polymorphichelpers.UpdatePodSpecForObjectFn = func(object runtime.Object, change func(*corev1.PodSpec) error) (bool, error) {
		if known, err := UpdatePodSpec(object, change); known {
			return true, err
		}
		return update(object, change)
	}
	polymorphichelpers.AttachablePodForObjectFn = func(getter genericclioptions.RESTClientGetter, object runtime.Object, timeout time.Duration) (*corev1.Pod, error) {
		return attach(getter, standIn(object), timeout)
	}
	polymorphichelpers.CanBeExposedFn = func(kind schema.GroupKind) error {
		if kind.Group == v1beta1.GroupVersion.Group && (kind.Kind == "CloneSet" || kind.Kind == "StatefulSet" || kind.Kind == "DaemonSet") {
			return nil
		}
		return expose(kind)
	}
	polymorphichelpers.PortsForObjectFn = func(object runtime.Object) ([]string, error) { return ports(standIn(object)) }
	polymorphichelpers.MultiProtocolsForObjectFn = func(object runtime.Object) (map[string][]string, error) { return protocols(standIn(object)) }
	polymorphichelpers.MapBasedSelectorForObjectFn = func(object runtime.Object) (string, error) { return selector(standIn(object)) }
	polymorphichelpers.HistoryViewerFn = historyViewer
}
