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
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/sidecars"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// podWebhook is what the webhooks for Pods do. It is there once the manager's caches are.
type podWebhook struct {
	handler atomic.Pointer[podwebhook.Handler]
	guard   atomic.Pointer[admission.Handler]
}

// endpoint serves it.
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
		var events kruise.Manager = mgr // whose recorder is that of the controllers
		guard = kruiseadmission.PodBudgets(asked, events.GetEventRecorderFor("podunavailablebudget-webhook"), options)
	}
	p.guard.Store(&guard)
}

// serve has the webhook look at Pods, where its gate is on.
func (p *podWebhook) serve(ctx context.Context, mgr ctrl.Manager, options *Options, reviews kruiseadmission.Options, served *served, asked *budgets.Budgets) error {
	if !options.Gates[apps.GatePodWebhook] {
		return nil
	}
	p.protect(mgr, asked, reviews)
	return p.start(ctx, mgr, options, served, asked)
}

// start makes the steps in the order in which they see a Pod: whoever looks at its containers comes after whoever adds some. The revisions of SidecarSets
// are in the namespace that the cache is restricted to, and the configuration is in the manager's.
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

// onceCurrent has Pods wait, for a while, until what a step decides on is current.
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

// launchOrder has containers wait for each other. What they wait for is named after the Pod, so a Pod that has no name gets one.
func launchOrder() (podwebhook.Step, error) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		return podwebhook.Step{}, err
	}
	const suffix, longest = 5, 63 // what the API server makes of generateName
	return podwebhook.Step{Name: "launch order", Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error {
		prefix := pod.GenerateName
		_, err := order.Inject(pod, prefix[:min(len(prefix), longest-suffix)]+utilrand.String(suffix))
		return err
	}}, nil
}
