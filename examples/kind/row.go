// Package kind defines the [Row], the description of a kind of the API. The Row of a kind contains everything that
// the manager, the webhooks, the command line and package bench need to know about the kind. Package kinds contains
// the table of all rows.
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
	"k8s.io/utils/clock"
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

// Row describes a kind of the API. A Row contains the values of the kind's command-line flags, so each command and
// each manager needs Rows of its own.
type Row struct {
	// Kind is the API kind, in the stored version. Resource is the plural name of the kind in API paths.
	Kind     schema.GroupVersionKind
	Resource string
	// Short replaces the kind's name in the name of the flag for Workers. If Short is empty, [Row.Name] is used.
	Short string
	// Advanced is true if Kubernetes has a kind of the same name.
	Advanced bool
	// ClusterScoped is true if objects of the kind have no namespace.
	ClusterScoped bool
	// Scaled is true if the kind has a scale subresource. Protected is true if webhooks can refuse deletions of its
	// objects.
	Scaled, Protected bool
	// Reach is set for a cluster-scoped kind. The text says how objects of the kind affect further users, for example:
	// "puts containers into Pods of every namespace". Secret is the reason why not every user may read objects of the
	// kind; empty if every user may read the objects.
	Reach, Secret string
	// Converted is true if the CRD has several versions, so that objects are converted.
	Converted bool
	// Released is the version in which OpenKruise 1.9.0 stores objects of the kind; empty means the version of Kind.
	Released string
	// AddToScheme registers the types of the stored version.
	AddToScheme func(*runtime.Scheme) error
	// Controller is the controller's name in logs, its user agent, and the source of its events. Controller is empty if
	// Setup is nil.
	Controller string
	// Workers is the number of objects of the same namespace that are reconciled at the same time. [Row.WorkersFlag] is
	// the name of the flag. If Setup is nil, Workers is nil, and there is no flag.
	Workers *int
	// Flags adds further flags of the kind to a command line. Optional.
	Flags func(*pflag.FlagSet)
	// Gates are the feature gates of the kind. The controller runs if any of the gates is on, or if there are no gates.
	// The webhooks run even if all gates are off.
	Gates []apps.Gate
	// Metrics makes the metrics of the controller. If Metrics is nil, the metrics are those of a controller for Pods
	// with revisions.
	Metrics func(registry prometheus.Registerer, kind string) (*metrics.Controller, error)
	// Setup adds the controller to a manager. The controller writes with c, which must read from the manager's cache.
	// Setup is nil for a kind with only admission and conversion in this project.
	Setup func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error
	// Cached lists types, with functions that copy the fields that the controller reads into the objects of the
	// manager's cache. The cache keeps all fields of objects of a type that no row lists. If several rows list a
	// type, the cache keeps each field needed by any row.
	Cached []Cached
	// OpensGate is true if the controller itself opens the readiness gates of its Pods.
	OpensGate bool
	// WholePod and PodFields are for Pods that no workload of this project controls; of Pods of this project's
	// workloads, the cache keeps all fields. WholePod reports whether the kind needs all fields of a Pod. PodFields
	// copies the fields that the kind reads into the object that the cache keeps. Both functions are optional.
	WholePod  func(*corev1.Pod) bool
	PodFields func(kept, pod *corev1.Pod)
	// PodMutator makes the kind's step of the webhook that changes new Pods. The steps are carried out in the order of
	// the rows. Optional.
	PodMutator func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (podwebhook.Mutator, error)
	// PodLeaves makes a handler for requests to delete or evict Pods. The handler is called after all guards have
	// admitted the request. The responses of the handler are ignored. Optional.
	PodLeaves func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (webhookadmission.Handler, error)
	// PodComes makes the handler of a validating webhook that may refuse new Pods with an annotation of the kind.
	// Optional.
	PodComes func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (webhookadmission.Handler, error)
	// Guard makes the kind's [Guard], which decides about Pods to be taken out of service. Guard is called only if a
	// gate of the row is on. Optional.
	Guard func(ctx context.Context, mgr ctrl.Manager, in PodInputs) (Guard, error)
	// Admission makes the endpoint that defaults and validates objects of the kind; nil for a kind without webhooks.
	Admission func(admission.Options) admission.Endpoint
	// Rights are the RBAC permissions that the manager needs because of the kind. The zero value is for a kind whose
	// permissions are in a separate role.
	Rights Rights
	// Sample contains the objects with which package bench measures the kind. The zero value is for a kind that
	// package bench does not measure.
	Sample Sample
}

// Rights are a part of the manager's ClusterRole.
type Rights struct {
	// Objects lists the verbs for objects of the kind.
	Objects []string
	// Status is true if the manager writes the status of objects.
	Status bool
	// Owns is true if the controller creates objects that block the deletion of their owner. In this case OpenShift and
	// some other clusters require permission to update finalizers.
	Owns bool
	// Why explains why the manager needs these verbs, in whole sentences. Optional.
	Why string
	// More lists permissions for objects of other kinds.
	More []Right
}

// Right is a permission: verbs for resources of an API group.
type Right struct {
	Group     string
	Resources []string
	Verbs     []string
	// Why explains why the permission is needed, in whole sentences.
	Why string
}

// IsOn reports whether the controller runs with the given feature gates.
func (r Row) IsOn(gates map[apps.Gate]bool) bool {
	return len(r.Gates) == 0 || slices.ContainsFunc(r.Gates, func(gate apps.Gate) bool { return gates[gate] })
}

// RegisterMetrics makes the metrics of the controller, and registers the metrics.
func (r Row) RegisterMetrics(registry prometheus.Registerer) (*metrics.Controller, error) {
	if r.Metrics != nil {
		return r.Metrics(registry, r.Name())
	}
	return metrics.New(registry, r.Name(), r.KeepsPods())
}

// Name returns the kind in lower case, as in paths, flags and metrics.
func (r Row) Name() string { return strings.ToLower(r.Kind.Kind) }

// Title returns the kind's name for texts that users read. The title of StatefulSet and DaemonSet begins with
// Advanced, because Kubernetes has kinds of the same names.
func (r Row) Title() string {
	if r.Advanced {
		return "Advanced " + r.Kind.Kind
	}
	return r.Kind.Kind
}

// WorkersFlag returns the name of the flag that sets Workers.
func (r Row) WorkersFlag() string { return cmp.Or(r.Short, r.Name()) + "-workers" }

// IsMeasured reports whether the row has a Sample.
func (r Row) IsMeasured() bool { return r.Sample.Object != nil }

// KeepsPods reports whether the kind can be measured and its controller creates Pods for its objects.
func (r Row) KeepsPods() bool { return r.IsMeasured() && r.Sample.Pod == nil }

// Cached says which fields of a type's objects the manager's cache keeps. Keep copies the fields that the controller
// reads from an object (found) into the object that the cache stores (kept). The cache does not store whole objects,
// because users determine the size of their objects. kept already contains the object's identity, such as name and
// UID, and possibly fields that another kind reads. Either both arguments of Keep have the type of Object, or both
// contain only metadata.
type Cached struct {
	Object client.Object
	Keep   func(kept, found client.Object)
}

// PodInputs are the inputs for the code of a kind that runs in the webhooks for Pods.
type PodInputs struct {
	Gates map[apps.Gate]bool
	// Namespace is the manager's namespace, which contains the ConfigMap kruise-configuration. Revisions is the
	// namespace that contains the ControllerRevisions of cluster-scoped kinds.
	Namespace, Revisions string
	// Current waits until the cache of the kind is up to date, and returns an error if its context ends first.
	Current func(context.Context) error
	// Clock tells the time; nil means the real clock.
	Clock clock.PassiveClock
}

// Guard may refuse requests that would take a Pod out of service, as a PodUnavailableBudget does.
type Guard interface {
	// Handler returns the handler that reviews requests that would take Pods out of service.
	Handler(options admission.Options) webhookadmission.Handler
	// Mutator returns the kind's step of the webhook that changes new Pods.
	Mutator() podwebhook.Mutator
	// Permit is called by controllers before they take a Pod out of service, as described at kruise.Options.
	Permit(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error
}

// Sample contains functions that make objects of a kind for a measurement, and that report whether the controller has
// done all work on the objects.
type Sample struct {
	// PerNode is true if an object has a Pod on every Node; Shape.Replicas is then ignored.
	PerNode bool
	List    func() client.ObjectList
	Object  func(Shape) client.Object
	// Pod returns a Pod after the injection of everything that the object for the shape injects into Pods. Pod is nil
	// for a kind whose controller creates Pods.
	Pod func(Shape) (*corev1.Pod, error)
	// Settled reports whether the object's status says that all Pods run at the wanted revision.
	Settled func(object client.Object, pods int) bool
}

// Shape describes the object that a measurement needs.
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

// StoredIn returns the names of the CRDs whose objects must be stored in a version, so that a manager can run:
// v1beta1 for this manager, or v1alpha1 for OpenKruise 1.9.0. For v1alpha1, kinds that OpenKruise 1.9.0 also stores
// in v1beta1 are left out.
func StoredIn(rows []Row, version string) []string {
	return ConvertedCRDs(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return version != r.Kind.Version && version != r.Released }))
}

// Endpoints returns the admission endpoints of the rows.
func Endpoints(rows []Row, options admission.Options) []admission.Endpoint {
	var out []admission.Endpoint
	for _, r := range rows {
		if r.Admission != nil {
			out = append(out, r.Admission(options))
		}
	}
	return out
}

// AddFlags adds the flags of the rows to a command line. The values are set only after the command line was parsed.
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
