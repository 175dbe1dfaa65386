package persistentpodstate

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate PersistentPodStates. options.Reader reads the list of
// configured workload kinds, and the other PersistentPodStates with the same target. If there is no Reader, both checks
// are skipped.
func endpoint(options admission.Options) *admission.Rules[v1beta1.PersistentPodState, v1alpha1.PersistentPodState] {
	look := podStateLookups{reader: options.Reader, namespace: options.Namespace}
	return &admission.Rules[v1beta1.PersistentPodState, v1alpha1.PersistentPodState]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "PersistentPodState"},
		Resource:   "persistentpodstates",
		Name:       "persistentpodstate",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable:    func(obj *v1beta1.PersistentPodState) []decode.Problem { return obj.Spec.Undecodable },
		ValidateCreate: look.validate,
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.PersistentPodState) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		OldField: func(hubField string) string {
			if strings.HasPrefix(hubField, "spec.requiredPersistentTopology.") || strings.HasPrefix(hubField, "spec.preferredPersistentTopology") {
				return strings.Replace(hubField, ".keys", ".nodeTopologyKeys", 1)
			}
			return hubField
		},
	}
}

// podStateLookups reads the objects that the validation of a PersistentPodState needs.
type podStateLookups struct {
	reader    client.Reader
	namespace string
}

func (l *podStateLookups) validate(ctx context.Context, obj *v1beta1.PersistentPodState) (field.ErrorList, error) {
	s, errs := validateSpec(&obj.Spec)
	if l.reader == nil || len(errs) > 0 {
		return errs, nil
	}
	if !api.IsStatefulSet(s.kind) && l.namespace != "" {
		listed, err := l.kinds(ctx)
		if err != nil {
			return nil, err
		}
		errs = unlisted(obj, s, listed)
	}
	// PersistentPodStates are large because of their records, so only one page of the list is in memory at a time.
	for list := (&v1beta1.PersistentPodStateList{}); ; {
		page := []client.ListOption{client.InNamespace(obj.Namespace), client.Limit(podStatesPerPage), client.Continue(list.Continue)}
		list = &v1beta1.PersistentPodStateList{}
		if err := l.reader.List(ctx, list, page...); err != nil {
			return nil, fmt.Errorf("listing the other PersistentPodStates of namespace %s: %w", obj.Namespace, err)
		}
		if errs = append(errs, rivals(obj, s, list.Items)...); len(errs) > 0 || list.Continue == "" {
			return errs, nil
		}
	}
}

// podStatesPerPage is the number of objects in a page.
const podStatesPerPage = 10

// kinds returns the workload kinds that the manager's configuration lists in addition to StatefulSets. Invalid entries
// are ignored.
func (l *podStateLookups) kinds(ctx context.Context) ([]schema.GroupVersionKind, error) {
	var configuration corev1.ConfigMap
	err := l.reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: apps.ConfigurationName}, &configuration)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", l.namespace, apps.ConfigurationName, err)
	}
	kinds, _ := api.ParseKinds(configuration.Data[apps.ConfigurationStatefulSetLikes]) // the manager logs invalid entries
	return kinds, nil
}
