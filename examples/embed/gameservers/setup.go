package gameservers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/decode/specwebhook"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// Options are the options of the operator.
type Options struct {
	// Namespace is the namespace of the Secret with the certificate, and of the Service gameservers.
	Namespace string
	// Port is the webhook's port. Host, if set, is the IP address at which the API server calls the webhook. Then the
	// Service is not used.
	Host string
	Port int
	// Probes is the address at which /readyz is served.
	Probes string
}

// Run runs the operator until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return err
	}
	certificates, err := newRotator(config, scheme, o)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: o.Probes,
		WebhookServer: certificates.Server(webhook.NewServer(webhook.Options{Port: o.Port, TLSOpts: []func(*tls.Config){certificates.TLS}})),
	})
	if err != nil {
		return err
	}
	r, err := setup(ctx, mgr)
	if err != nil {
		return err
	}
	validator := specwebhook.New[*GameServers, admission.Warnings](func(g *GameServers) error {
		_, problems := wanted(g, r.InPlace)
		return problems.Err()
	})
	if err := errors.Join(
		mgr.AddReadyzCheck("webhook", certificates.Check), ctrl.NewWebhookManagedBy(mgr, &GameServers{}).WithValidator(validator).Complete(),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newRotator returns the rotator of the webhook's certificate. The certificate is stored in a Secret, and the CA bundle
// is written into the webhook's configuration.
func newRotator(config *rest.Config, scheme *runtime.Scheme, o Options) (*rotator.Rotator, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return rotator.New(rotator.Options{
		Config: webhookcert.Config{
			// Host is empty or a single address.
			DNSNames: []string{"gameservers." + o.Namespace + ".svc"}, IPs: strings.Fields(o.Host),
		},
		Client: c, Secret: client.ObjectKey{Namespace: o.Namespace, Name: "gameservers-webhook"},
		Validating: []string{"gameservers." + group}, Host: o.Host, Port: o.Port, Address: net.JoinHostPort("localhost", strconv.Itoa(o.Port)),
	})
}

// setup adds both reconcile loops to the manager: the loop of GameServers, and the loop of their Pods, which finishes
// updates that have begun.
func setup(ctx context.Context, mgr ctrl.Manager) (*reconciler, error) {
	r, err := newReconciler(ctx, mgr, mgr.GetEventRecorder("gameservers"), clock.RealClock{})
	if err != nil {
		return nil, err
	}
	return r, r.AddTo(mgr, "gameservers", r, ownercache.ControllerOptions{}, ownercache.ControllerOptions{Workers: 8})
}

// newReconciler makes the parts of the controller and connects them.
func newReconciler(ctx context.Context, mgr ownercache.Manager, recorder events.EventRecorder, now clock.PassiveClock) (*reconciler, error) {
	inPlace, updaterErr := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: group + "/update", GraceAnnotation: group + "/grace", Gate: gate,
		Reserved: []string{revisionLabel, stateLabel, sinceKey, holdLabel, deleteLabel},
	}})
	machine, machineErr := lifecycle.New(lifecycle.Keys{State: stateLabel, Timestamp: sinceKey})
	if err := errors.Join(updaterErr, machineErr); err != nil {
		return nil, err
	}
	parts, err := executor.NewParts(ctx, mgr, &GameServers{}, executor.Config[*GameServers]{
		// Names of revisions must fit into a label value of at most 63 characters, so Pods are labelled with the hash
		// alone.
		Control:   podcontrol.Config{InPlace: inPlace, RevisionLabel: revisionLabel, DeleteLabel: deleteLabel, Lifecycle: machine},
		Revisions: revision.Keys{HashLabel: revisionLabel},
		Cache:     ownercache.Options{Clock: now},
		Options:   executor.Options[*GameServers]{Rules: rules, Observe: executor.Record[*GameServers](recorder)},
	})
	return &reconciler{parts}, err
}

// rules returns the rules for updating and deleting a GameServers' Pods.
func rules(g *GameServers) podcontrol.Rules {
	rules := podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible}
	if g.Spec.AskMatchMaker {
		hold := map[string]string{holdLabel: "match"}
		rules.Hooks = lifecycle.Hooks{
			PreDelete: &lifecycle.Hook{Labels: hold}, InPlaceUpdate: &lifecycle.Hook{Labels: hold, BeforeOnly: true},
		}
	}
	return rules
}
