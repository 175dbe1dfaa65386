package manager

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kruiseadmission "github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/budgets"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/sidecars"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// podWebhook holds the handlers of the webhooks for Pods. The handlers exist once the manager's caches do.
type podWebhook struct {
	handler atomic.Pointer[podwebhook.Handler]
	guard   atomic.Pointer[admission.Handler]
}

// endpoint serves the handlers.
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
	})
}

// protect has the webhook ask budgets before Pods are taken out of service; nil for none.
func (p *podWebhook) protect(mgr ctrl.Manager, asked *budgets.Budgets, options kruiseadmission.Options) {
	var guard admission.Handler = admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
	if asked != nil {
		var events kruise.Manager = mgr // for the recorder shared with the controllers
		guard = kruiseadmission.PodBudgets(asked, events.GetEventRecorderFor("podunavailablebudget-webhook"), options)
	}
	p.guard.Store(&guard)
}

// serve starts the webhook for Pods if its gate is on.
func (p *podWebhook) serve(ctx context.Context, mgr ctrl.Manager, options *Options, reviews kruiseadmission.Options, served *served, asked *budgets.Budgets) error {
	if !options.Gates[apps.GatePodWebhook] {
		return nil
	}
	p.protect(mgr, asked, reviews)
	return p.start(ctx, mgr, options, served, asked)
}

// start makes the steps in the order in which the steps see a Pod: steps reading the containers come after steps adding
// containers. The revisions of SidecarSets are in the cache's namespace, and the configuration is in the manager's
// namespace.
func (p *podWebhook) start(ctx context.Context, mgr ctrl.Manager, options *Options, served *served, asked *budgets.Budgets) error {
	gates, revisions := options.Gates, cmp.Or(options.Namespace, options.ownNamespace())
	states, err := podStates(ctx, mgr, options.ownNamespace(), served)
	if err != nil {
		return err
	}
	injection, err := sidecars.NewInjection(ctx, mgr, revisions, gates)
	if err != nil {
		return fmt.Errorf("injection of sidecars: %w", err)
	}
	injection = onceCurrent(injection, served.await(v1beta1.GroupVersion.WithKind("SidecarSet")))
	order, err := launchOrder()
	if err != nil {
		return err
	}
	steps := []podwebhook.Step{kruiseadmission.ReadinessGate(gates), states, injection, order}
	if asked != nil {
		steps = append(steps, kruiseadmission.RelatedBudget(asked))
	}
	handler, err := podwebhook.New(steps...)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Pods are asked about", "steps", handler.Steps())
	p.handler.Store(handler)
	return nil
}

// onceCurrent makes Pods wait, for a while, until the input of a step is current.
func onceCurrent(step podwebhook.Step, current func(context.Context) error) podwebhook.Step {
	mutate := step.Mutate
	step.Mutate = func(ctx context.Context, pod *corev1.Pod, request *admission.Request) error {
		if err := current(ctx); err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		return mutate(ctx, pod, request)
	}
	return step
}

// launchOrder makes containers wait for each other. The ConfigMap of the wait is named after the Pod, so a nameless Pod
// gets a name.
func launchOrder() (podwebhook.Step, error) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		return podwebhook.Step{}, err
	}
	const suffix, longest = 5, 63 // as the API server expands generateName
	return podwebhook.Step{Name: "launch order", Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error {
		prefix := pod.GenerateName
		_, err := order.Inject(pod, prefix[:min(len(prefix), longest-suffix)]+utilrand.String(suffix))
		return err
	}}, nil
}
