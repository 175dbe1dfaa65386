// Package kind answers "what does a kind of the API bring?": the [Row] of a kind contains everything that the manager,
// the webhooks, the command line and the bench need to know about the kind. Package kinds has the table of all rows.
package kind

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// Row describes a kind of the API. A Row must be used by only one command or manager, because it contains the values of
// flags.
type Row struct {
	// Kind is the API kind, in the stored version. Resource is its plural.
	Kind     schema.GroupVersionKind
	Resource string
	// Short is used in place of the kind's name in the name of the flag for Workers. If empty, [Row.Name] is used.
	Short string
	// Advanced is true if Kubernetes has a kind of the same name.
	Advanced bool
	// ClusterScoped is true if objects have no namespace.
	ClusterScoped bool
	// Scaled is true if the kind has a scale subresource, and Protected if deletions of its objects can be refused.
	Scaled, Protected bool
	// Reach says, for a cluster-scoped kind, what whoever may write objects can do to others: "puts containers into
	// Pods of every namespace". Secret says why not everybody may read objects, or is empty.
	Reach, Secret string
	// Converted is true if the CRD has several versions.
	Converted bool
	// Released is the version in which OpenKruise 1.9.0 stores the kind; empty if it is the version of Kind.
	Released string
	// AddToScheme registers the types of the stored version.
	AddToScheme func(*runtime.Scheme) error
	// Controller is the controller's name in logs, as a user agent and as the source of events. Controller is empty if
	// Setup is nil.
	Controller string
	// Workers is the number of objects of a namespace that are reconciled at the same time. Its flag is
	// [Row.WorkersFlag]. If Setup is nil, there is neither a number nor a flag.
	Workers *int
	// Flags adds the flags of the kind. Optional.
	Flags func(*pflag.FlagSet)
	// Gates are the kind's feature gates. The controller runs if any of the gates is on; if there are no gates, always.
	// The webhooks run in any case.
	Gates []apps.Gate
	// Metrics makes the controller's metrics. If nil, the metrics are those of a controller for Pods with revisions.
	Metrics func(registry prometheus.Registerer, kind string) (*metrics.Controller, error)
	// Setup adds the controller to a manager. c writes to the API server, and reads from the manager's cache. Setup is
	// nil for a kind that only has admission and conversion here.
	Setup func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error
	// Cached says which fields of objects the manager's cache keeps for the controller. Objects of types without a row are
	// kept whole. Of a type with several rows, the cache keeps each field needed by any row.
	Cached []Cached
	// OpensGate is true if the controller opens the readiness gates of its Pods itself.
	OpensGate bool
	// WholePod reports whether the kind needs all fields of another owner's Pod, and PodFields copies the fields that
	// the kind reads from another owner's Pod into the copy kept by the cache. Both are optional; Pods of this
	// project's workloads are kept whole.
	WholePod  func(*corev1.Pod) bool
	PodFields func(kept, pod *corev1.Pod)
	// PodMutator makes the kind's step of the webhook for new Pods. The steps run in the order of the rows. Optional.
	PodMutator func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (podwebhook.Mutator, error)
	// PodLeaves makes a handler that is called with requests to delete or evict Pods, after all guards have admitted
	// the request. Its responses are ignored. Optional.
	PodLeaves func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (webhookadmission.Handler, error)
	// PodComes makes a handler that may refuse new Pods with an annotation of the kind, after all mutating webhooks.
	// Optional.
	PodComes func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (webhookadmission.Handler, error)
	// Guard makes the judge of Pods about to be taken out of service, while the gates of the row are on. Optional.
	Guard func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (Guard, error)
	// Admission makes the endpoint that defaults and validates the kind.
	Admission func(admission.Options) admission.Endpoint
	// Rights are the rights that the manager needs because of the kind. The zero value is for a kind whose rights are
	// granted separately.
	Rights Rights
	// Sample says how the bench measures the kind. The zero value is for kinds that the bench does not measure.
	Sample Sample
}

// Rights are a part of the manager's ClusterRole.
type Rights struct {
	// Objects are the verbs for objects of the kind.
	Objects []string
	// Status is true if the manager writes the status.
	Status bool
	// Owns is true if the controller creates objects that block the deletion of their owner. OpenShift and other
	// clusters then require the right to update finalizers.
	Owns bool
	// Why says why the manager needs these verbs, in whole sentences. Optional.
	Why string
	// More are rights for objects of other kinds.
	More []Right
}

// Right are verbs for resources of a group.
type Right struct {
	Group     string
	Resources []string
	Verbs     []string
	// Why says why the right is needed, in whole sentences.
	Why string
}

// IsOn reports whether the controller runs with the given feature gates.
func (r Row) IsOn(gates map[apps.Gate]bool) bool {
	return len(r.Gates) == 0 || slices.ContainsFunc(r.Gates, func(gate apps.Gate) bool { return gates[gate] })
}

// RegisterMetrics makes and registers the metrics of the controller.
func (r Row) RegisterMetrics(registry prometheus.Registerer) (*metrics.Controller, error) {
	if r.Metrics != nil {
		return r.Metrics(registry, r.Name())
	}
	return metrics.New(registry, r.Name(), r.KeepsPods())
}

// Name returns the kind in lower case, as in paths, flags and metrics.
func (r Row) Name() string { return strings.ToLower(r.Kind.Kind) }

// Title returns the kind's name for texts. It is needed because two kinds have the same name as a kind of Kubernetes.
func (r Row) Title() string {
	if r.Advanced {
		return "Advanced " + r.Kind.Kind
	}
	return r.Kind.Kind
}

// WorkersFlag returns the name of the flag that sets Workers.
func (r Row) WorkersFlag() string { return cmp.Or(r.Short, r.Name()) + "-workers" }

// IsMeasured reports whether there is a Sample.
func (r Row) IsMeasured() bool { return r.Sample.Object != nil }

// KeepsPods reports whether objects of the kind create Pods of their own. Objects of all other kinds change other
// owners' Pods, or have nothing to do with Pods.
func (r Row) KeepsPods() bool { return r.IsMeasured() && r.Sample.Pod == nil }

// Cached is a type in the manager's cache. Keep copies the fields that the controller reads from an object into the
// copy that is kept, because users determine the size of their objects. The copy already has the object's identity, and
// possibly fields that another kind reads. Both have the type of Object, or both are only metadata.
type Cached struct {
	Object client.Object
	Keep   func(kept, found client.Object)
}

// PodInputs are inputs for a kind's part in the webhooks for Pods.
type PodInputs struct {
	Gates map[apps.Gate]bool
	// Namespace is the manager's namespace, with ConfigMap kruise-configuration. Revisions is the namespace of the
	// cluster's ControllerRevisions.
	Namespace, Revisions string
	// Current waits until the cache of the kind is up to date, and returns an error if its context ends first.
	Current func(context.Context) error
}

// Guard keeps Pods in service: Guard may refuse requests that would take a Pod out of service.
type Guard interface {
	// Handler reviews requests that would take Pods out of service.
	Handler(options admission.Options) webhookadmission.Handler
	// Step is the kind's step in the admission of new Pods.
	Mutator() podwebhook.Mutator
	// Permit is the function that controllers call before taking a Pod out of service: see kruise.Options.
	Permit(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error
}

// Sample tells a measurement how to make objects of a kind, and how to find out when they have settled.
type Sample struct {
	// PerNode is true if an object has a Pod on every Node, whatever Shape.Replicas says.
	PerNode bool
	List    func() client.ObjectList
	Object  func(Shape) client.Object
	// Pod returns a Pod as it would be after every injection for the object of a shape. Pod is nil for a kind that
	// creates its own Pods.
	Pod func(Shape) (*corev1.Pod, error)
	// Settled reports whether, by the object's status, all Pods run at the wanted revision.
	Settled func(object client.Object, pods int) bool
}

// Shape describes the object that a measurement wants.
type Shape struct {
	Namespace, Name string
	Replicas        int32
	Selector        *metav1.LabelSelector
	Template        corev1.PodTemplateSpec
	MaxUnavailable  intstr.IntOrString
}

// ConvertedCRDs returns the names of the CRDs with several versions.
func ConvertedCRDs(rows []Row) []string {
	var names []string
	for _, r := range rows {
		if r.Converted {
			names = append(names, r.Resource+"."+r.Kind.Group)
		}
	}
	return names
}

// StoredIn returns the names of the CRDs whose objects must be stored in the version that a reader needs: v1beta1 for
// this manager, v1alpha1 for OpenKruise 1.9.0. OpenKruise 1.9.0 stores some kinds in v1beta1 as well.
func StoredIn(rows []Row, version string) []string {
	return ConvertedCRDs(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return version != r.Kind.Version && version != r.Released }))
}

// Endpoints returns the webhook endpoints of the rows.
func Endpoints(rows []Row, options admission.Options) []admission.Endpoint {
	var out []admission.Endpoint
	for _, r := range rows {
		out = append(out, r.Admission(options))
	}
	return out
}

// AddFlags adds the flags of the rows to a command line. Read the values only after the command line is parsed.
func AddFlags(rows []Row, fs *pflag.FlagSet) {
	for _, r := range rows {
		if r.Workers != nil {
			fs.IntVar(r.Workers, r.WorkersFlag(), *r.Workers, r.Kind.Kind+"s of one namespace reconciled side by side; namespaces take turns")
		}
		if r.Flags != nil {
			r.Flags(fs)
		}
	}
}
