package manager

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	kruiseadmission "github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// podWebhook contains the handlers of the webhooks for Pods. Until the manager's caches have been set up, there are
// no handlers, and requests are refused.
type podWebhook struct {
	handler atomic.Pointer[podwebhook.Handler]
	guard   atomic.Pointer[admission.Handler]
	comes   atomic.Pointer[admission.Handler]
}

// endpoint returns the admission endpoint of the webhooks for Pods. Each request is passed to the handlers that are set
// at the time.
func (p *podWebhook) endpoint() kruiseadmission.Endpoint {
	return kruiseadmission.Pods(func() admission.Handler {
		if handler := p.handler.Load(); handler != nil {
			return handler
		}
		return nil
	}, func() admission.Handler {
		if guard := p.guard.Load(); guard != nil {
			return *guard
		}
		return nil
	}, func() admission.Handler {
		if comes := p.comes.Load(); comes != nil {
			return *comes
		}
		return nil
	})
}

// receive sets the handlers that validate a new Pod after all mutating webhooks.
func (p *podWebhook) receive(asked []admission.Handler) {
	all := inTurn(asked)
	p.comes.Store(&all)
}

// inTurn returns a handler that calls the given handlers one after the other, up to the first refusal.
func inTurn(handlers []admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		for _, handler := range handlers {
			if response := handler.Handle(ctx, request); !response.Allowed {
				return response
			}
		}
		return admission.Allowed("")
	})
}

// protect sets the guards, whose handlers decide about each request that takes a Pod out of service. If no guard
// refuses the request, the handlers in the parameter told are called as well, and their responses are ignored.
func (p *podWebhook) protect(guards []kind.Guard, told []admission.Handler, options kruiseadmission.Options) {
	var handlers []admission.Handler
	for _, g := range guards {
		handlers = append(handlers, g.Handler(options))
	}
	judges := inTurn(handlers)
	var all admission.Handler = admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		if response := judges.Handle(ctx, request); !response.Allowed {
			return response
		}
		for _, handler := range told {
			handler.Handle(ctx, request)
		}
		return admission.Allowed("")
	})
	p.guard.Store(&all)
}

// serve sets up the webhooks for Pods if their feature gate is on.
func (p *podWebhook) serve(ctx context.Context, mgr ctrl.Manager, options *Options, reviews kruiseadmission.Options, served *served, guards []kind.Guard) error {
	if !options.Gates[apps.GatePodWebhook] {
		return nil
	}
	told, err := handlersOf(ctx, mgr, options, served, func(row *kind.Row) podHandler { return row.PodLeaves })
	if err != nil {
		return err
	}
	asked, err := handlersOf(ctx, mgr, options, served, func(row *kind.Row) podHandler { return row.PodComes })
	if err != nil {
		return err
	}
	p.protect(guards, told, reviews)
	p.receive(asked)
	return p.start(ctx, mgr, options, served, guards)
}

// podHandler makes the handler of a kind for a webhook for Pods.
type podHandler func(context.Context, ctrl.Manager, kind.PodInputs) (admission.Handler, error)

// handlersOf makes the handlers of the kinds whose feature gates are on, in the order of the rows.
func handlersOf(ctx context.Context, mgr ctrl.Manager, options *Options, served *served, of func(*kind.Row) podHandler) (handlers []admission.Handler, err error) {
	for i := range options.Kinds {
		row := &options.Kinds[i]
		newHandler := of(row)
		if newHandler == nil || !row.IsOn(options.Gates) {
			continue
		}
		handler, err := newHandler(ctx, mgr, podInputs(options, row, served))
		if err != nil {
			return nil, fmt.Errorf("%s in the webhook for Pods: %w", row.Kind.Kind, err)
		}
		handlers = append(handlers, handler)
	}
	return handlers, nil
}

// start sets the steps of the webhook that changes new Pods. The order of the steps matters: a step that reads the
// containers comes after the steps that add containers.
func (p *podWebhook) start(ctx context.Context, mgr ctrl.Manager, options *Options, served *served, guards []kind.Guard) error {
	steps := []podwebhook.Mutator{kruiseadmission.ReadinessGate(options.Gates)}
	for i := range options.Kinds {
		row := &options.Kinds[i]
		if row.PodMutator == nil {
			continue
		}
		step, err := row.PodMutator(ctx, mgr, podInputs(options, row, served))
		if err != nil {
			return fmt.Errorf("%s in the webhook for Pods: %w", row.Kind.Kind, err)
		}
		steps = append(steps, step)
	}
	order, err := launchOrder()
	if err != nil {
		return err
	}
	steps = append(steps, order)
	for _, g := range guards {
		steps = append(steps, g.Mutator())
	}
	handler, err := podwebhook.New(steps...)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Pods are asked about", "steps", handler.Steps())
	p.handler.Store(handler)
	return nil
}

// podInputs returns the inputs for the code of a kind that runs in the webhooks for Pods. If the cache is restricted
// to a namespace, the ControllerRevisions of cluster-scoped kinds are in this namespace, and otherwise in the
// manager's namespace. The configuration is always in the manager's namespace.
func podInputs(options *Options, row *kind.Row, served *served) kind.PodInputs {
	return kind.PodInputs{
		Gates: options.Gates, Namespace: options.ownNamespace(), Revisions: cmp.Or(options.Namespace, options.ownNamespace()),
		Current: served.await(row.Kind),
	}
}

// guardsOf returns the guards of the kinds whose feature gates are on.
func guardsOf(ctx context.Context, mgr ctrl.Manager, options *Options, served *served) (guards []kind.Guard, err error) {
	for i := range options.Kinds {
		row := &options.Kinds[i]
		if row.Guard == nil || !row.IsOn(options.Gates) {
			continue
		}
		guard, err := row.Guard(ctx, mgr, podInputs(options, row, served))
		if err != nil {
			return nil, fmt.Errorf("%s as a guard of Pods: %w", row.Kind.Kind, err)
		}
		guards = append(guards, guard)
	}
	return guards, nil
}

// permitOf returns a function with which a controller asks all guards, or nil if there are no guards.
func permitOf(guards []kind.Guard) func(context.Context, *corev1.Pod, disruption.Operation) error {
	if len(guards) == 0 {
		return nil
	}
	return func(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error {
		for _, g := range guards {
			if err := g.Permit(ctx, pod, operation); err != nil {
				return err
			}
		}
		return nil
	}
}

// launchOrder returns the step that makes containers wait for each other. The containers wait for a ConfigMap named
// after the Pod, so the step gives a name to a Pod that has only a generateName.
func launchOrder() (podwebhook.Mutator, error) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		return podwebhook.Mutator{}, err
	}
	const suffix, longest = 5, 63 // lengths with which the API server makes a name from generateName
	return podwebhook.Mutator{Name: "launch order", Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error {
		prefix := pod.GenerateName
		_, err := order.Inject(pod, prefix[:min(len(prefix), longest-suffix)]+utilrand.String(suffix))
		return err
	}}, nil
}
