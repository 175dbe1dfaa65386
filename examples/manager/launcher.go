package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// launcher sets up the controllers after a check has proven that the webhooks serve.
type launcher struct {
	mgr     ctrl.Manager
	config  *rest.Config
	options Options
	version string
	serving func(context.Context) error
	served  *served
	permit  func(context.Context, *corev1.Pod, disruption.Operation) error // asks the guards; nil without guards

	adding chan struct{} // contains a value while a controller is being set up
	ending func() error  // returns an error if the manager is about to stop
}

// errEnded means that the manager is about to stop.
var errEnded = errors.New("the manager ends")

// mostAdding is how long a stopping manager waits for the setup of a controller to end. The wait needs a limit, because
// the API server may not answer.
const mostAdding = 5 * time.Second

// untilLaunched returns a context for the manager. The context ends after ctx: if a controller is being set up, the
// context ends when the setup has ended, or after mostAdding. If controller-runtime's manager were stopped during a
// setup, the manager could block until its shutdown timeout.
func (l *launcher) untilLaunched(ctx context.Context) (context.Context, context.CancelFunc) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.adding, l.ending = make(chan struct{}, 1), ctx.Err
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		select {
		case l.adding <- struct{}{}:
		case <-clock.RealClock{}.After(mostAdding):
		}
	})
	return running, func() {
		stop()
		cancel()
	}
}

// add calls setup, unless the manager is about to stop.
func (l *launcher) add(setup func() error) error {
	if l.ending() != nil {
		return errEnded
	}
	select {
	case l.adding <- struct{}{}:
		defer func() { <-l.adding }()
		return setup()
	default: // the manager is about to stop, and has filled the channel
		return errEnded
	}
}

// NeedLeaderElection returns false, so that a replica that is not the leader fills its caches and can quickly replace
// the leader.
func (*launcher) NeedLeaderElection() bool { return false }

// Start returns once all controllers are set up, or the manager stops. If the CRD of a kind is missing, Start waits for
// the CRD.
func (l *launcher) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, l.mgr.GetLogger())
	if err := l.awaitWebhooks(ctx); err != nil {
		return nil //nolint:nilerr // The manager is ending.
	}
	late, err := l.launchKinds(ctx, l.kindsThatAreOn())
	if err == nil {
		err = l.launchLoops(ctx)
	}
	for _, k := range late {
		l.mgr.GetLogger().Info("controller waits for its CRD", "controller", k.Controller, "kind", k.Kind.String())
	}
	for err == nil && len(late) > 0 && l.awaitChange(ctx, late) {
		late, err = l.launchKinds(ctx, late)
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// kindsThatAreOn returns the kinds that have a controller and whose feature gates are on.
func (l *launcher) kindsThatAreOn() (on []kind.Row) {
	for _, k := range l.options.Kinds {
		switch {
		case k.Setup == nil:
		case k.IsOn(l.options.Gates):
			on = append(on, k)
		default:
			l.mgr.GetLogger().Info("controller stays idle: its feature gates are off", "controller", k.Controller, "gates", k.Gates)
		}
	}
	return on
}

// launchKinds sets up the controllers of those wanted kinds that are installed, and returns the other wanted kinds in
// late.
func (l *launcher) launchKinds(ctx context.Context, wanted []kind.Row) (late []kind.Row, err error) {
	for _, k := range wanted {
		if installed, _, _ := l.served.has(k.Kind); !installed {
			late = append(late, k)
			continue
		}
		if err := l.launchKind(ctx, k); err != nil {
			return nil, err
		}
	}
	return late, nil
}

func (l *launcher) launchKind(ctx context.Context, k kind.Row) error {
	named, err := namedClient(l.config, l.mgr, l.options.Version, k.Controller)
	if err != nil {
		return err
	}
	shared, err := l.options.controller(k, l.version)
	if err != nil {
		return err
	}
	shared.Presence = l.served.presence
	shared.Permit = l.permit
	return l.add(func() error { return k.Setup(ctx, l.mgr, named, shared) })
}

// lookAgain is the interval at which the launcher asks the API server whether a kind is served, if the manager cannot
// read CRDs.
const lookAgain = 10 * time.Second

// awaitChange waits until one of the missing kinds may have been installed. The result is false if ctx has ended.
func (l *launcher) awaitChange(ctx context.Context, late []kind.Row) bool {
	var look <-chan time.Time
	_, _, changed := l.served.has(late[0].Kind) // the channel reports each later change
	for _, k := range late {
		has, sure, _ := l.served.has(k.Kind)
		if has {
			return true
		}
		if !sure {
			look = clock.RealClock{}.After(lookAgain)
		}
	}
	select {
	case <-changed:
	case <-look:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func (l *launcher) launchLoops(ctx context.Context) error {
	for _, loop := range l.options.Loops {
		if loop.Gate != "" && !l.options.Gates[loop.Gate] {
			l.mgr.GetLogger().Info("controller stays idle: its feature gate is off", "controller", loop.Controller, "gate", loop.Gate)
			continue
		}
		named, err := namedClient(l.config, l.mgr, l.options.Version, loop.Controller)
		if err != nil {
			return err
		}
		setup := func() error { return loop.Setup(ctx, l.mgr, named, l.options.shared(*loop.Workers, l.version)) }
		if err := l.add(setup); err != nil {
			return fmt.Errorf("setting up %s: %w", loop.Name, err)
		}
	}
	return nil
}

// awaitWebhooks returns nil once the webhooks are proven to serve, or the error of ctx.
func (l *launcher) awaitWebhooks(ctx context.Context) error {
	if l.options.Webhooks == nil {
		return nil
	}
	timeout := orDefault(l.options.Webhooks.InitializeTimeout, time.Minute)
	late := clock.RealClock{}.Now().Add(timeout)
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := l.serving(ctx)
		if err != nil && !late.IsZero() && (clock.RealClock{}).Now().After(late) {
			l.mgr.GetLogger().Error(err, "webhooks do not serve yet; controllers wait for them", "since", timeout)
			late = time.Time{}
		}
		return err == nil, nil
	})
}

// controller returns the options for a kind's controller.
func (o *Options) controller(k kind.Row, serverVersion string) (kruise.Options, error) {
	out := o.shared(*k.Workers, serverVersion)
	var err error
	if out.Metrics, err = k.RegisterMetrics(o.Registry); err != nil {
		return kruise.Options{}, fmt.Errorf("metrics of %s: %w", k.Controller, err)
	}
	return out, nil
}

// shared returns the options that the controllers of kinds and [Options.Loops] have in common.
func (o *Options) shared(workers int, serverVersion string) kruise.Options {
	return kruise.Options{
		Gates: o.Gates, Namespace: o.Namespace, ManagerNamespace: o.ownNamespace(), RateLimiter: o.RateLimit.limiter, Workers: workers,
		ExpectationTimeout: orDefault(o.ExpectationTimeout, 5*time.Minute),
		ResizeInSpec:       !hasResizeSubresource(serverVersion),
		OpensGate: func(of schema.GroupKind) bool {
			return slices.ContainsFunc(o.Kinds, func(r kind.Row) bool { return r.OpensGate && r.Kind.GroupKind() == of })
		},
	}
}

// ownNamespace returns the manager's namespace, or "" if the namespace is unknown.
func (o *Options) ownNamespace() string {
	switch {
	case o.Webhooks != nil:
		return o.Webhooks.Namespace
	case o.LeaderElection != nil:
		return o.LeaderElection.Namespace
	}
	return ""
}

// isInstalled reports whether the API server serves a kind. The first call of the mapper reads the API server's list
// of all groups. While an API server starts, the list may lack some groups. So isInstalled calls the mapper a second
// time if the kind is missing, and the mapper then asks the API server about the group of this kind alone.
func isInstalled(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		_, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s is installed: %w", kind, err)
	}
	return true, nil
}
