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
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/revision"
)

const defaultWorkers = 3

// Options are the options of a controller that creates Pods. The zero value is valid.
type Options struct {
	// Gates are the feature gates; nil means the defaults.
	Gates map[apps.Gate]bool
	// ResizeInSpec is true for API servers that do not have the subresource pods/resize.
	ResizeInSpec bool
	// Namespace is the namespace to which the manager's cache is restricted; empty means all namespaces.
	Namespace string
	// ManagerNamespace is the manager's own namespace, for objects that belong to no other namespace; empty means
	// kruise-system.
	ManagerNamespace string
	// RateLimiter makes the rate limiters of the two work queues, for owners and for Pods. If RateLimiter is nil, the
	// limiter of a queue limits each namespace separately.
	RateLimiter func() workqueue.TypedRateLimiter[ctrl.Request]
	// ExpectationTimeout is the time after which a write of this controller that does not appear in the cache raises an
	// alarm; 0 means a minute.
	ExpectationTimeout time.Duration
	// Workers is how many owners of the same namespace are reconciled at the same time; 0 means 3. Additional workers
	// are reserved for other namespaces.
	Workers int
	// PodWorkers is how many Pods of the same namespace the loop that finishes updates reconciles at the same time; 0
	// means 16.
	PodWorkers int
	// Calls is how many requests for the owners of the same namespace are in progress at the same time; 0 means 5. A
	// further request may be in progress for other namespaces. On a busy API server, a larger number does not start
	// more Pods per second, and keeps each Pod out of service for longer: with 8 instead of 5, for 1.5 times as long.
	Calls int
	// Clock tells the time; nil means the real clock.
	Clock clock.PassiveClock
	// Metrics counts the controller's work; nil means that nothing is counted.
	Metrics *metrics.Controller
	// Presence says whether the API server serves a kind. The answer may change at any time. Nil means that every kind
	// is always served.
	Presence func(kind schema.GroupVersionKind) watchhealth.State
	// OpensGate reports whether the controller of a kind opens the readiness gates of its Pods. If OpensGate is nil,
	// no controller does.
	OpensGate func(schema.GroupKind) bool
	// Permit is called before a Pod is taken out of service, as described at executor.Options. Permit is optional.
	Permit func(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error
}

// Loop returns the options of a reconcile loop with the given number of workers; 0 means the number in Workers. watch
// adds event sources to the loop, and may be nil.
func (o Options) Loop(workers int, watch func(*builder.Builder) *builder.Builder) ownercache.ControllerOptions {
	out := ownercache.ControllerOptions{Workers: cmp.Or(workers, o.Workers, defaultWorkers), Watch: watch}
	if o.RateLimiter != nil {
		out.RateLimiter = o.RateLimiter()
	}
	return out
}

// Serves reports whether the API server serves a kind now. If the answer is unknown, Serves returns true.
func (o Options) Serves(kind schema.GroupVersionKind) bool {
	return o.Presence(kind) != watchhealth.Absent
}

// Complete returns the options with the defaults filled in.
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

// Config describes the controller of a kind to [NewParts].
type Config[O client.Object] struct {
	// Name is the name of the controller, in lower case. The reconcile loop for Pods has the same name with the suffix
	// "-pods".
	Name string
	// Controller is the name that events show as their source.
	Controller string
	// Claims is true if owners have PersistentVolumeClaims, Nodes is true if each Pod is created for a certain Node,
	// and Numbered is true if Pods have ordinals.
	Claims, Nodes, Numbered bool
	// Labels are the labels that the controller writes onto Pods.
	Labels []string
	// HashLabel is the label of a revision that contains the hash; empty means [apps.LabelRevisionHash].
	HashLabel string
	// Counting says which revisions count towards the history limit, as described at executor.Config.
	Counting revision.Counting
	// Control contains what differs between kinds, as described at [PodControl].
	Control podcontrol.Config
	// PreDownload is the feature gate with which images are pulled before a rollout; empty means that images never are.
	PreDownload apps.Gate
	// Watch adds event sources that enqueue owners, and may be nil. If Pods have ordinals and PersistentVolumeClaims,
	// events of claims enqueue owners even if Watch is nil.
	Watch func(*builder.Builder) *builder.Builder
	// Status returns the status of an owner, and pointers to the owner's observed generation and conditions.
	Status func(O) (status any, observed *int64, conditions *v1beta1.Conditions)
	// Rules returns the rules by which an owner's Pods are updated.
	Rules func(O) podcontrol.Rules
	// AfterDelete is called as described at executor.Options, and may be nil.
	AfterDelete func(context.Context, *executor.Turn[O], *corev1.Pod) error
}

// Parts are the components of this library from which a controller of Pods is built, configured with the names of
// OpenKruise.
type Parts[O client.Object] struct {
	*executor.Parts[O]

	Options Options
	Events  record.EventRecorder
	Told    *Told // sends events about owners

	config   Config[O]
	requests *requests // restarts of containers; nil if there are no node agents
	pulls    *pulls    // jobs that pull images before a rollout; nil if the gate is off
}

// Manager lists the methods of a manager that Parts use.
type Manager interface {
	ownercache.Manager
	GetEventRecorderFor(name string) record.EventRecorder
}

// NewParts makes the parts for a kind of owners. The parts write with c, which must read from the manager's cache.
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
		own.Beside = append(own.Beside, p.requests.source())
	}
	if p.pulls, err = newPulls(ctx, mgr, options, config.PreDownload); err != nil {
		return nil, err
	}
	if p.pulls != nil {
		own.Beside = append(own.Beside, p.pulls.source())
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

// Register adds the reconcile loops for owners and for Pods to the manager.
func (p *Parts[O]) Register(mgr manager.Manager, r reconcile.Reconciler) error {
	owners := p.Options.Loop(p.Options.Workers, p.watchRequests)
	owners.Numbered = p.config.Numbered
	return p.AddTo(mgr, p.config.Name, r, owners, p.Options.Loop(p.Options.PodWorkers, nil))
}
