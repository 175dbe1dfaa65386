package kruise

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/revision"
)

const defaultWorkers = 3

// Options are options of a controller of Pods. The zero value is usable.
type Options struct {
	// Gates are the feature gates; nil means the defaults.
	Gates map[apps.Gate]bool
	// ResizeInSpec is for API servers without the subresource pods/resize.
	ResizeInSpec bool
	// Namespace is the namespace to which the manager's cache is restricted; empty means all.
	Namespace string
	// ManagerNamespace is the manager's own namespace, for objects that belong to no other namespace; empty means
	// kruise-system.
	ManagerNamespace string
	// RateLimiter makes a rate limiter for each of the two queues; nil means one limiter per namespace.
	RateLimiter func() workqueue.TypedRateLimiter[ctrl.Request]
	// ExpectationTimeout is how long the cache may lack this controller's own writes before an alarm; 0 means a minute.
	ExpectationTimeout time.Duration
	// Workers is how many owners of a namespace are reconciled at the same time; 0 means 3. Further workers serve other
	// namespaces.
	Workers int
	// PodWorkers is the same number for Pods whose updates are being finished; 0 means 16.
	PodWorkers int
	// Calls is how many requests for the owners of a namespace are in progress at the same time; 0 means 5. An
	// additional request serves other namespaces. If the API server is busy, a larger number would not start more Pods
	// per second, but would keep each Pod out of service for longer: with 8, by half.
	Calls int
	// Clock is the real clock by default.
	Clock clock.PassiveClock
	// Metrics may be nil.
	Metrics *metrics.Controller
	// Presence says whether the API server has a kind. The answer may change at any time. Nil stands for kinds always
	// served.
	Presence func(kind schema.GroupVersionKind) watchhealth.State
	// OpensGate reports whether the controller of a kind opens the readiness gates of its Pods itself. Nil for none.
	OpensGate func(schema.GroupKind) bool
	// Permit is called before a Pod is taken out of service: see executor.Options. Optional.
	Permit func(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error
}

// Loop returns the options of a loop with the given number of workers; 0 means Workers. watch adds event sources, and
// may be nil.
func (o Options) Loop(workers int, watch func(*builder.Builder) *builder.Builder) ownercache.ControllerOptions {
	out := ownercache.ControllerOptions{Workers: cmp.Or(workers, o.Workers, defaultWorkers), Watch: watch}
	if o.RateLimiter != nil {
		out.RateLimiter = o.RateLimiter()
	}
	return out
}

// Serves reports whether the API server has a kind now, and true if nobody can tell.
func (o Options) Serves(kind schema.GroupVersionKind) bool {
	return o.Presence(kind) != watchhealth.Absent
}

// Complete fills in the defaults.
func (o Options) Complete() Options {
	if o.Gates == nil {
		o.Gates = apps.DefaultGates()
	}
	if o.Presence == nil {
		o.Presence = func(schema.GroupVersionKind) watchhealth.State { return watchhealth.Served }
	}
	if o.ManagerNamespace == "" {
		o.ManagerNamespace = "kruise-system"
	}
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.PodWorkers == 0 {
		o.PodWorkers = 16
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Config describes a kind to the Parts of its controller.
type Config[O client.Object] struct {
	// Name is the name of the controller, in lower case. The name of the loop for Pods ends in "-pods".
	Name string
	// Controller is the name that events show as their source.
	Controller string
	// Claims is true if owners have persistent volume claims, Nodes if Pods are created for Nodes, and Numbered if Pods
	// have ordinals.
	Claims, Nodes, Numbered bool
	// Labels are the labels that the controller writes onto Pods.
	Labels []string
	// HashLabel is the label with the hash on revisions; empty means [apps.LabelRevisionHash].
	HashLabel string
	// Counting says which revisions count towards the history limit, as in executor.Config.
	Counting revision.Counting
	// Control contains what differs between kinds, as for PodControl.
	Control podcontrol.Config
	// Watch adds event sources for owners, and may be nil. If Pods have ordinals and claims, events of claims enqueue
	// their owner without Watch.
	Watch func(*builder.Builder) *builder.Builder
	// Status returns the status of an owner, and pointers to the observed generation and the conditions in the owner.
	Status func(O) (status any, observed *int64, conditions *v1beta1.Conditions)
	// Rules returns an owner's rules for its Pods.
	Rules func(O) podcontrol.Rules
	// AfterDelete may be nil: see executor.Options.
	AfterDelete func(context.Context, *executor.Turn[O], *corev1.Pod) error
}

// Parts are the kit's parts that make up a controller of Pods, with the names of OpenKruise.
type Parts[O client.Object] struct {
	*executor.Parts[O]

	Options Options
	Events  record.EventRecorder
	Told    *Told // about owners

	config   Config[O]
	requests *requests // for restarts of containers; nil without node agents
}

// Manager contains the methods of a manager that Parts use.
type Manager interface {
	ownercache.Manager
	GetEventRecorderFor(name string) record.EventRecorder
}

// NewParts makes the parts for a kind of owners. The parts write with c, and c must read from the manager's cache.
func NewParts[O client.Object](ctx context.Context, mgr Manager, c client.Client, owner O, options Options, config Config[O]) (*Parts[O], error) {
	options = options.Complete()
	p := &Parts[O]{Options: options, config: config, Events: mgr.GetEventRecorderFor(config.Controller)}
	updater, err := InPlace(options.Gates, config.Labels)
	if err != nil {
		return nil, err
	}
	control, err := PodControl(updater, config.Control)
	if err != nil {
		return nil, err
	}
	keys := RevisionKeys(cmp.Or(config.HashLabel, apps.LabelRevisionHash))
	if !config.Claims {
		keys.ClaimTemplatesAnnotation = ""
	}
	own := ownercache.Options{Claims: config.Claims, Nodes: config.Nodes, Namespace: options.Namespace}
	if p.requests, err = newRequests(ctx, mgr, options); err != nil {
		return nil, err
	}
	if p.requests != nil {
		own.Beside = []trackedclient.Source{p.requests.source()}
	}
	p.Parts, err = executor.NewParts(ctx, mgr, owner, executor.Config[O]{
		Control: control, Revisions: keys, Counting: config.Counting, Calls: options.Calls,
		Options: executor.Options[O]{
			Rules: config.Rules, Observe: p.observe, AfterDelete: config.AfterDelete, Merger: podpatch.Merger{ResizeInSpec: options.ResizeInSpec},
			Permit: func(ctx context.Context, _ O, pod *corev1.Pod, operation disruption.Operation) error {
				if options.Permit == nil {
					return nil
				}
				return options.Permit(ctx, pod, operation)
			},
		},
		Cache: CacheOptions(c, options, own, func() *ownercache.Cache[O] { return p.Cache }),
	})
	if err != nil {
		return nil, err
	}
	p.Told = NewTold(p.Cache, p.Events)
	return p, nil
}

// Register adds the loops for owners and for Pods to the manager.
func (p *Parts[O]) Register(mgr manager.Manager, r reconcile.Reconciler) error {
	owners := p.Options.Loop(p.Options.Workers, p.watchRequests)
	owners.Numbered = p.config.Numbered
	return p.AddTo(mgr, p.config.Name, r, owners, p.Options.Loop(p.Options.PodWorkers, nil))
}
