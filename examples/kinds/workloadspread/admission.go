package workloadspread

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
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
)

// endpoint returns the admission rules that validate WorkloadSpreads. options.Reader reads the list of configured
// workload kinds, and the other WorkloadSpreads with the same target. If there is no Reader, both checks are skipped.
// While the feature gate is off, no WorkloadSpread can be created.
func endpoint(options admission.Options) *admission.Rules[v1beta1.WorkloadSpread, v1alpha1.WorkloadSpread] {
	look := lookups{options.Reader, options.Namespace}
	return &admission.Rules[v1beta1.WorkloadSpread, v1alpha1.WorkloadSpread]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "WorkloadSpread"},
		Resource:   "workloadspreads",
		Name:       "workloadspread",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.WorkloadSpread) []decode.Problem { return obj.Spec.Undecodable },
		Closed:      admission.Gated(options, "no Pod would be spread", apps.GateWorkloadSpread),
		ValidateCreate: func(ctx context.Context, obj *v1beta1.WorkloadSpread) (field.ErrorList, error) {
			s, errs := validateSpec(&obj.Spec)
			if look.reader == nil || len(errs) > 0 {
				return errs, nil
			}
			errs, err := look.unlisted(ctx, obj, s)
			if err != nil || len(errs) > 0 {
				return errs, err
			}
			return look.rivals(ctx, obj, s)
		},
		ValidateUpdate: func(ctx context.Context, obj, stored *v1beta1.WorkloadSpread) (field.ErrorList, error) {
			s, errs := validateUpdate(obj, stored)
			if look.reader == nil || len(errs) > 0 || !refilters(obj, stored) {
				return errs, nil
			}
			return look.rivals(ctx, obj, s)
		},
		OldField: oldField,
	}
}

func oldField(hubField string) string {
	if !strings.HasPrefix(hubField, "spec.subsets") {
		return hubField
	}
	return strings.NewReplacer("].requiredNodeSelector", "].requiredNodeSelectorTerm", "].preferredNodeSelector", "].preferredNodeSelectorTerms").Replace(hubField)
}

// lookups reads the objects that the validation of a WorkloadSpread needs.
type lookups struct {
	reader    client.Reader
	namespace string
}

// unlisted returns an error if the manager's configuration must list the target's kind, and does not. The list is
// read only for such kinds. Invalid entries of the list are ignored, because the manager logs such entries.
func (l *lookups) unlisted(ctx context.Context, obj *v1beta1.WorkloadSpread, s *settings) (field.ErrorList, error) {
	if _, ok := api.BuiltIn(s.kind); ok || l.namespace == "" {
		return nil, nil
	}
	var configuration corev1.ConfigMap
	err := l.reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: apps.ConfigurationName}, &configuration)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", l.namespace, apps.ConfigurationName, err)
	}
	listed, _ := api.ParseTargets(configuration.Data[apps.ConfigurationSpreadTargets])
	return unlisted(obj, s, listed), nil
}

// spreadsPerPage is the largest number of WorkloadSpreads in memory at a time; each status contains the names of Pods.
const spreadsPerPage = 20

func (l *lookups) rivals(ctx context.Context, obj *v1beta1.WorkloadSpread, s *settings) (field.ErrorList, error) {
	for list := (&v1beta1.WorkloadSpreadList{}); ; {
		page := []client.ListOption{client.InNamespace(obj.Namespace), client.Limit(spreadsPerPage), client.Continue(list.Continue)}
		list = &v1beta1.WorkloadSpreadList{}
		if err := l.reader.List(ctx, list, page...); err != nil {
			return nil, fmt.Errorf("listing the other WorkloadSpreads of namespace %s: %w", obj.Namespace, err)
		}
		if errs := rivals(obj, s, list.Items); len(errs) > 0 || list.Continue == "" {
			return errs, nil
		}
	}
}
