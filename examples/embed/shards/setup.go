package shards

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"reflect"
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

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// Options are the options of the operator.
type Options struct {
	// Namespace is the namespace of the Secret with the certificate, and of the Service shards.
	Namespace string
	// Port is the webhook's port. Host, if set, is the IP address at which the API server calls the webhook. Then the
	// Service is not used.
	Host string
	Port int
}

// Run runs the operator until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	certificates, err := rotator.New(rotator.Options{
		// Host is empty or a single address.
		Config: webhookcert.Config{DNSNames: []string{"shards." + o.Namespace + ".svc"}, IPs: strings.Fields(o.Host)},
		Client: c, Secret: client.ObjectKey{Namespace: o.Namespace, Name: "shards-webhook"},
		Validating: []string{"shards." + group}, Host: o.Host, Port: o.Port, Address: net.JoinHostPort("localhost", strconv.Itoa(o.Port)),
	})
	if err != nil {
		return err
	}
	hooks := certificates.Server(webhook.NewServer(webhook.Options{Port: o.Port, TLSOpts: []func(*tls.Config){certificates.TLS}}))
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, WebhookServer: hooks})
	if err != nil {
		return err
	}
	r, err := setup(ctx, mgr)
	if err != nil {
		return err
	}
	hooks.Register("/validate-pods", &webhook.Admission{Handler: r.budget.Handler(r.protected)})
	_ = mgr.GetWebhookServer() // a manager starts the webhook server only if GetWebhookServer was called
	return mgr.Start(ctx)
}

// setup adds both reconcile loops to the manager. The loop of Shards has claims and the budget's status as further
// sources of events; the loop of their Pods finishes updates that have begun.
func setup(ctx context.Context, mgr ctrl.Manager) (*reconciler, error) {
	r, err := newReconciler(ctx, mgr, mgr.GetEventRecorder("shards"), clock.RealClock{})
	if err != nil {
		return nil, err
	}
	spent := ownercache.WatchStatus(func(before, after *Shards) bool { return !reflect.DeepEqual(before.Status.Budget, after.Status.Budget) })
	owners := ownercache.ControllerOptions{Numbered: true, Watch: spent}
	return r, r.AddTo(mgr, "shards", r, owners, ownercache.ControllerOptions{Workers: 8})
}

// newReconciler makes the parts of the controller and connects them.
func newReconciler(ctx context.Context, mgr ownercache.Manager, recorder events.EventRecorder, now clock.PassiveClock) (*reconciler, error) {
	inPlace, inPlaceErr := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: group + "/update", GraceAnnotation: group + "/grace", Gate: gate, Reserved: []string{revisionLabel},
	}})
	budget, budgetErr := guard.New(mgr.GetClient(), mgr.GetAPIReader(), &Shards{}, guard.Config[*Shards]{
		Ledger: func(s *Shards) disruption.Ledger { return s.Status.Budget },
		Store:  func(s *Shards, l disruption.Ledger) { s.Status.Budget = l },
		Clock:  now,
	})
	if err := errors.Join(inPlaceErr, budgetErr); err != nil {
		return nil, err
	}
	r := &reconciler{budget: budget}
	var err error
	r.Parts, err = executor.NewParts(ctx, mgr, &Shards{}, executor.Config[*Shards]{
		Control:   podcontrol.Config{InPlace: inPlace, RevisionLabel: revisionLabel},
		Revisions: revision.Keys{HashLabel: revisionLabel},
		Cache:     ownercache.Options{Clock: now, Claims: true},
		Options: executor.Options[*Shards]{
			Rules:   func(*Shards) podcontrol.Rules { return podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible} },
			Observe: executor.Record[*Shards](recorder), Permit: r.permit,
		},
	})
	return r, err
}
