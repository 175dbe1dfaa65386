// Package kinds answers "which kinds are there, and what does each bring?": one table that the manager, its webhooks, its command line
// and the bench read. A new kind is a file here with its row, and a line in [All].
package kinds

import (
	"context"
	"fmt"
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

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
)

// Kind is one row: a kind of the API with all that is built for it. A row belongs to one command or manager, because it holds the values
// of its flags.
type Kind struct {
	// Kind is what the API calls it, in the stored version, and Resource its plural.
	Kind     schema.GroupVersionKind
	Resource string
	// ClusterScoped says that objects are in no namespace.
	ClusterScoped bool
	// Converted says that its CRD has several versions.
	Converted bool
	// Released is the version in which OpenKruise 1.9.0 stores the kind, empty for the version of Kind.
	Released string
	// AddToScheme registers the types of the stored version.
	AddToScheme func(*runtime.Scheme) error
	// Controller names the controller in logs, as a user agent and as the source of events. A kind without Setup has none.
	Controller string
	// Workers is how many objects of one namespace are reconciled side by side. Its flag is [Kind.WorkersFlag]. A kind without Setup has neither.
	Workers *int
	// Flags adds the flags that no other kind has. Optional.
	Flags func(*pflag.FlagSet)
	// Gates are those of which one has to be on for the controller to run; none for one that always runs. Its webhooks answer in any case.
	Gates []apps.Gate
	// Metrics makes the metrics of the controller. Nil stands for those of a controller that works on Pods with revisions.
	Metrics func(registry prometheus.Registerer, kind string) (*kruise.Metrics, error)
	// Setup adds the controller to a manager. c writes, and reads from the manager's cache. Nil for a kind that is served and converted here, and
	// that somebody else acts on.
	Setup func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error
	// Admission makes what defaults and validates the kind.
	Admission func(admission.Options) admission.Endpoint
	// Sample says how to measure it. The zero value is for kinds that are not measured.
	Sample Sample
}

// IsOn reports whether the controller runs under the gates.
func (k Kind) IsOn(gates map[apps.Gate]bool) bool {
	return len(k.Gates) == 0 || slices.ContainsFunc(k.Gates, func(gate apps.Gate) bool { return gates[gate] })
}

// Name is the kind in lower case, as in paths, flags and metrics.
func (k Kind) Name() string { return strings.ToLower(k.Kind.Kind) }

// WorkersFlag is the flag that sets Workers.
func (k Kind) WorkersFlag() string { return k.Name() + "-workers" }

// IsMeasured reports whether there is a Sample.
func (k Kind) IsMeasured() bool { return k.Sample.Object != nil }

// KeepsPods reports whether objects of the kind keep Pods of their own. Others change those of somebody else, or have none to do with.
func (k Kind) KeepsPods() bool { return k.IsMeasured() && k.Sample.Pod == nil }

// Sample is how a measurement makes objects of a kind and sees that they are settled.
type Sample struct {
	// PerNode says that an object has a Pod on every Node, whatever Shape.Replicas says.
	PerNode bool
	List    func() client.ObjectList
	Object  func(Shape) client.Object
	// Pod returns a Pod as it is injected for the object of a shape. Nil for a kind that keeps Pods itself.
	Pod func(Shape) (*corev1.Pod, error)
	// Settled reports whether all Pods run at the wanted revision, by the object's status.
	Settled func(object client.Object, pods int) bool
}

// Shape is the object that a measurement wants.
type Shape struct {
	Namespace, Name string
	Replicas        int32
	Selector        *metav1.LabelSelector
	Template        corev1.PodTemplateSpec
	MaxUnavailable  intstr.IntOrString
}

// All returns the rows, in the order in which controllers start.
func All() []Kind {
	return []Kind{cloneSet(), statefulSet(), daemonSet(), sidecarSet(), containerRecreateRequest(), resourceDistribution(), broadcastJob(), advancedCronJob(), persistentPodState(), podUnavailableBudget()}
}

// Measured returns the rows of [All] that have a Sample.
func Measured() []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return !k.IsMeasured() })
}

// AddToScheme registers the types of all kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, k := range All() {
		if err := k.AddToScheme(scheme); err != nil {
			return fmt.Errorf("registering %s: %w", k.Kind, err)
		}
	}
	return nil
}

// ConvertedCRDs returns the names of the CRDs that have several versions.
func ConvertedCRDs(kinds []Kind) []string {
	var names []string
	for _, k := range kinds {
		if k.Converted {
			names = append(names, k.Resource+"."+k.Kind.Group)
		}
	}
	return names
}

// StoredIn returns the names of the CRDs with objects to be stored in a version, by who reads them: v1beta1 for this manager, v1alpha1 for
// OpenKruise 1.9.0, which stores some kinds in v1beta1 as well.
func StoredIn(kinds []Kind, version string) []string {
	return ConvertedCRDs(slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return version != k.Kind.Version && version != k.Released }))
}

// Endpoints returns what the webhooks serve for the kinds.
func Endpoints(kinds []Kind, options admission.Options) []admission.Endpoint {
	var out []admission.Endpoint
	for _, k := range kinds {
		out = append(out, k.Admission(options))
	}
	return out
}

// AddFlags adds the flags of the kinds to a command line. Values are read when the command line has been parsed.
func AddFlags(kinds []Kind, fs *pflag.FlagSet) {
	for _, k := range kinds {
		if k.Workers != nil {
			fs.IntVar(k.Workers, k.WorkersFlag(), *k.Workers, k.Kind.Kind+"s of one namespace reconciled side by side; namespaces take turns")
		}
		if k.Flags != nil {
			k.Flags(fs)
		}
	}
}
