package images

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/daemon/served"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/puller"
	"github.com/workloadkit/workloadkit/node/pullsecret/execprovider"
	"github.com/workloadkit/workloadkit/reason"
)

// Options are the options of an Agent. Runtime and Secret are required.
type Options struct {
	// Bounds limit the pulls; the zero value allows no pull.
	Bounds imagepull.Bounds
	// Runtime is the container runtime.
	Runtime Runtime
	// Secret reads a Secret.
	Secret func(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error)
	// Providers are the credential providers of the Node; nil means none.
	Providers *execprovider.Providers
	// Tell sends an event; nil means that there are no events.
	Tell func(context.Context, Event)
	// Pulled is called after each attempt, from any goroutine; nil if not needed.
	Pulled func(took time.Duration, err error)
	// Clock is the clock; nil means the real clock.
	Clock clock.WithTicker
}

// Event is an event about a NodeImage, or about an ImagePullJob that wants an image.
type Event struct {
	About                 corev1.ObjectReference
	Type, Reason, Message string
}

// Agent pulls the images in the NodeImage of a Node. Make an Agent with New.
type Agent struct {
	node    string
	options Options
	objects *served.Objects
	puller  *puller.Puller
	wake    chan struct{}

	view atomic.Pointer[view]
	// image is the NodeImage that the latest call of pass has read; nil if the Node has no NodeImage.
	image atomic.Pointer[v1beta1.NodeImage]
}

// view is the NodeImage in the version that the API server serves.
type view struct {
	*served.View

	store  expectations.Store
	writes *expectations.Tracker // resource versions returned by status writes
}

// These are the waits after errors.
const (
	firstRest   = 200 * time.Millisecond
	longestRest = 30 * time.Second
)

// New returns the Agent of a Node. New sends no request.
func New(config *rest.Config, node string, o Options) (*Agent, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	a := &Agent{node: node, options: o, wake: make(chan struct{}, 1)}
	kind := served.Kind{
		Group: apps.Group, Resource: "nodeimages", Versions: []string{v1beta1.GroupVersion.Version, v1alpha1.GroupVersion.Version},
		Select: func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
		},
		// Nothing is pulled for a NodeImage that cannot be converted.
		Read: served.Read[v1beta1.NodeImage](func(raw []byte) ([]byte, error) { return conversion.JSON(raw, v1beta1.GroupVersion.String()) }),
	}
	var err error
	a.objects, err = served.New(config, kind, func(any) { a.Wake() }, a.begin)
	a.puller = puller.New(runtime{a}, keyring{a}, puller.Options{Bounds: o.Bounds, Record: a.record, Done: a.Wake, Clock: o.Clock})
	return a, err
}

func (a *Agent) begin(v *served.View) {
	progress, ok := v.Store.(expectations.Progress)
	if !ok {
		panic("the store of an informer does not report its version")
	}
	store := expectations.Store{GroupResource: v.Resource.GroupResource()}
	a.view.Store(&view{View: v, store: store, writes: expectations.New(map[expectations.Store]expectations.Progress{store: progress}, expectations.Options{NoBarrier: true})})
}

// Wake makes the Agent check the NodeImage and the container runtime soon, and returns at once.
func (a *Agent) Wake() {
	select {
	case a.wake <- struct{}{}:
	default: // a check is pending already
	}
}

// Missing returns the reason why the Agent does not know the NodeImage; the code is empty if the NodeImage was read,
// or does not exist.
func (a *Agent) Missing() reason.Reason { return a.objects.Missing() }

// Start pulls images until the context ends, and returns after the last pull has ended. Start returns no error.
func (a *Agent) Start(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { _ = a.objects.Start(ctx) }) // Start of the objects and of the puller return no errors
	all.Go(func() { _ = a.puller.Start(ctx) })
	a.loop(ctx)
	all.Wait()
	return nil
}

func (a *Agent) loop(ctx context.Context) {
	rest := firstRest
	for ctx.Err() == nil {
		again, err := a.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			logr.FromContextOrDiscard(ctx).Error(err, "Images are looked at again later")
			again, rest = rest, min(2*rest, longestRest)
		default:
			rest = firstRest
		}
		a.sleep(ctx, again)
	}
}

// sleep waits for a time, or without limit if the time is 0. A call of Wake ends the wait early.
func (a *Agent) sleep(ctx context.Context, d time.Duration) {
	var expired <-chan time.Time
	if d > 0 {
		timer := a.options.Clock.NewTimer(d)
		defer timer.Stop()
		expired = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-a.wake:
	case <-expired:
	}
}

// pass reads the NodeImage, and starts, stops and reports pulls. again is the time until the next call is due; 0 for
// never.
func (a *Agent) pass(ctx context.Context) (again time.Duration, err error) {
	v := a.view.Load()
	if v == nil || a.objects.Missing().Code != "" {
		return firstRest, nil //nolint:nilerr // Missing says why
	}
	var obj *v1beta1.NodeImage
	if found, _, _ := v.Store.GetByKey(a.node); found != nil { // GetByKey of an informer returns no error
		obj, _ = found.(*v1beta1.NodeImage)
	}
	if a.image.Store(obj); obj == nil {
		step, err := a.puller.Sync(ctx, nil, nil) // stops all pulls
		return step.After, err
	}
	if pending, err := v.writes.Check(obj.UID, nil); err == nil && pending != nil && !pending.Late {
		return pending.RequeueAfter, nil // the cache does not show the last report yet
	}
	wants := onnode.Wants(&obj.Spec)
	recorded, _ := imagepull.Merge(wants, nil, onnode.Reports(obj), a.options.Clock.Now())
	step, err := a.puller.Sync(ctx, wants, recorded)
	return step.After, err
}
