package watchhealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// WatchDown means that the watch of a kind is broken, so the kind's cache may be outdated.
	WatchDown reason.Code = "WatchDown"
	// NotWatched means that no cache watches the kind, or Options.Kinds lacks the kind.
	NotWatched reason.Code = "NotWatched"
)

// State says whether the API server serves a kind.
type State int

const (
	// Unknown means that the state is not known (yet): the informer sends requests, and Watches report failed
	// requests.
	Unknown State = iota
	// Served means that the API server serves the kind.
	Served
	// Absent means that the API server does not have the kind, so there are no objects.
	Absent
)

// Presence knows which kinds the API server serves. A Presence must be safe for concurrent use.
type Presence interface {
	// Of returns the state of a kind, and a channel closed at the next change of the state.
	Of(kind schema.GroupVersionKind) (State, <-chan struct{})
}

// Options are options of Watches. Scheme and Kinds are required.
type Options struct {
	// Scheme knows the Go types of the objects.
	Scheme *runtime.Scheme
	// Kinds are the kinds whose watches are supervised. Informers of all other kinds are plain informers of client-go.
	Kinds []schema.GroupVersionKind
	// Presence says whether the API server serves a kind. If nil, all kinds count as served.
	Presence Presence
	// Observe is called with false when a watch breaks and for each failed attempt to open the watch, and with true
	// when the watch is open again. Observe must return quickly. Nil for none.
	Observe func(kind schema.GroupVersionKind, current bool, err error)
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// Watches makes informers, and knows which of their watches are broken. They are safe for concurrent use. Make Watches
// with New.
type Watches struct {
	options Options

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind][]*kindWatch
}

// New returns Watches without any informer yet. Set [Watches.NewInformer] in the options of a manager's cache:
//
//	cache.Options{NewInformer: watches.NewInformer}
func New(options Options) (*Watches, error) {
	switch {
	case options.Scheme == nil:
		return nil, errors.New("watchhealth: Options.Scheme is required")
	case len(options.Kinds) == 0:
		return nil, errors.New("watchhealth: Options.Kinds is required")
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	w := &Watches{options: options, kinds: map[schema.GroupVersionKind][]*kindWatch{}}
	for _, kind := range options.Kinds {
		w.kinds[kind] = nil
	}
	return w, nil
}

// NewInformer makes an informer like client-go's; set NewInformer in controller-runtime's cache.Options.
func (w *Watches) NewInformer(from toolscache.ListerWatcher, like runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, err := apiutil.GVKForObject(like, w.options.Scheme)
	if _, ours := w.kinds[kind]; err != nil || !ours {
		return toolscache.NewSharedIndexInformer(from, like, resync, indexers)
	}
	k := &kindWatch{
		from: toolscache.ToListerWatcherWithContext(from), kind: kind, like: like, config: &w.options,
		state: state{since: w.options.Clock.Now()}, changed: make(chan struct{}),
	}
	k.informer = toolscache.NewSharedIndexInformer(k, like, resync, indexers)
	w.kinds[kind] = append(w.kinds[kind], k)
	return k.informer
}

// Await returns nil as soon as the watches of the kinds are open and their caches have all changes, including earlier
// missed changes. If no kinds are given, Await waits for every kind that has an informer. Informers that were stopped
// do not count. Await does not wait for a kind that the API server does not have. If ctx ends first, the error is a
// reason.Reason that names the broken watch: give ctx a deadline.
func (w *Watches) Await(ctx context.Context, kinds ...schema.GroupVersionKind) error {
	all := len(kinds) == 0
	if all {
		kinds = w.options.Kinds
	}
	for _, kind := range kinds {
		watches := w.of(kind)
		if len(watches) == 0 && !all {
			return reason.Reason{Code: NotWatched, Object: reason.Object{Kind: kind.Kind}, Detail: "no cache watches " + kind.String()}
		}
		for _, k := range watches {
			if err := k.await(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// of returns the watches of a kind, and forgets watches of stopped informers.
func (w *Watches) of(kind schema.GroupVersionKind) []*kindWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if running := slices.DeleteFunc(slices.Clone(w.kinds[kind]), func(k *kindWatch) bool { return k.informer.IsStopped() }); len(running) < len(w.kinds[kind]) {
		w.kinds[kind] = running
	}
	return w.kinds[kind]
}

// Down describes a broken watch.
type Down struct {
	Kind schema.GroupVersionKind
	// Since is when the watch was last open. If the watch was never open, Since is when the informer first tried to open
	// the watch.
	Since time.Time
	// Err is the error of the last attempt; nil if the API server closed the watch without an error, or if there was no
	// attempt yet.
	Err error
}

// Reason says which watch is broken, since when and why.
func (d Down) Reason(now time.Time) reason.Reason {
	detail := fmt.Sprintf("the watch of %s is down for %s", d.Kind.GroupKind(), now.Sub(d.Since).Round(time.Millisecond))
	if d.Err != nil {
		detail += ": " + d.Err.Error()
	}
	return reason.Reason{Code: WatchDown, Object: reason.Object{Kind: d.Kind.Kind}, Detail: detail}
}

// Down returns the broken watches, sorted by kind.
func (w *Watches) Down() []Down {
	w.mu.Lock()
	defer w.mu.Unlock()
	var down []Down
	for _, watches := range w.kinds {
		for _, k := range watches {
			if s, _ := k.now(); !s.current && !k.informer.IsStopped() {
				down = append(down, Down{k.kind, s.since, s.err})
			}
		}
	}
	slices.SortFunc(down, func(a, b Down) int {
		return cmp.Or(cmp.Compare(a.Kind.String(), b.Kind.String()), a.Since.Compare(b.Since))
	})
	return down
}

// isUp reports whether the watch of an informer is open.
func (w *Watches) isUp(informer toolscache.SharedIndexInformer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watches := range w.kinds {
		for _, k := range watches {
			if k.informer == informer {
				s, _ := k.now()
				return s.current
			}
		}
	}
	return false
}

// kindWatch lists and watches a kind for an informer, and records the state of the watch.
type kindWatch struct {
	from     toolscache.ListerWatcherWithContext
	kind     schema.GroupVersionKind
	like     runtime.Object
	config   *Options
	informer toolscache.SharedIndexInformer

	listAgain atomic.Bool // the informer has an empty list because the kind was absent, and must list again

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed at each change
}

// state says whether a watch is open, and if not, since when and why.
type state struct {
	// current says that the watch is open, or that there is nothing to watch.
	current bool
	since   time.Time
	// absent says that the API server does not have the kind.
	absent bool
	// version is the resourceVersion that the store must reach.
	version string
	err     error
}

func (k *kindWatch) now() (state, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state, k.changed
}

// up records that the watch is open, and that the cache is up to date as soon as the store has reached a version.
func (k *kindWatch) up(version string) { k.set(state{current: true, version: version}) }

// empty records that the API server does not have the kind, so that there is nothing to watch.
func (k *kindWatch) empty() { k.set(state{current: true, absent: true}) }

// down records that the watch is broken, so that the cache may be outdated.
func (k *kindWatch) down(err error) { k.set(state{err: err}) }

func (k *kindWatch) set(next state) {
	k.mu.Lock()
	was := k.state
	next.since = was.since
	if was.current != next.current {
		next.since = k.config.Clock.Now()
	}
	k.state = next
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	if observe := k.config.Observe; observe != nil && (was.current != next.current || next.err != nil) {
		observe(k.kind, next.current, next.err)
	}
}

// storePoll is the time between two checks of a store that has not applied all events: a check reads only memory, and
// the wait takes milliseconds.
const storePoll = 2 * time.Millisecond

func (k *kindWatch) await(ctx context.Context) error {
	for {
		s, changed := k.now()
		if s.current && k.informer.HasSynced() && k.reached(s.version) && (!s.absent || k.isAbsent()) {
			return nil
		}
		var look <-chan time.Time
		if s.current {
			look = k.config.Clock.After(storePoll)
		}
		select {
		case <-changed:
		case <-look:
		case <-ctx.Done():
			return Down{k.kind, s.since, s.err}.Reason(k.config.Clock.Now())
		}
	}
}

// reached reports whether the store has applied all events up to a version. If the version of the store is unknown, the
// store counts as up to date.
func (k *kindWatch) reached(version string) bool {
	progress := k.informer.GetIndexer().LastStoreSyncResourceVersion()
	if progress == "" || version == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(progress, version)
	return err != nil || order >= 0
}

// absentVersion is the resourceVersion of the empty list of an absent kind: lower than any object's.
const absentVersion = "1"

// ListWithContext lists the objects for the informer.
func (k *kindWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if k.isAbsent() {
		k.listAgain.Store(true)
		return emptyList(), nil
	}
	// A list at resourceVersion 0 comes from the API server's watch cache. The watch cache may be stale, and Await
	// could not notice that the list is stale.
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	list, err := k.from.ListWithContext(ctx, options)
	if err == nil {
		return list, nil
	}
	k.down(err)
	if k.config.Presence == nil || !apierrors.IsNotFound(err) {
		return nil, err
	}
	// The API server returns NotFound, for example because the CustomResourceDefinition does not serve the version. A
	// manager that waits for all caches to sync must not wait for such a kind, so the informer gets an empty list.
	// Await, however, waits for such a kind.
	k.listAgain.Store(true)
	return emptyList(), nil
}

// emptyList is the list returned for a kind that cannot be listed now.
func emptyList() runtime.Object {
	return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: absentVersion}}
}

func (k *kindWatch) presence() (State, <-chan struct{}) {
	if k.config.Presence == nil {
		return Unknown, nil
	}
	return k.config.Presence.Of(k.kind)
}

func (k *kindWatch) isAbsent() bool {
	s, _ := k.presence()
	return s == Absent
}

// WatchWithContext returns a watch that stays open until the informer stops it.
func (k *kindWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &lastingWatch{
		kindWatch: k, options: options, version: options.ResourceVersion, again: k.listAgain.Swap(false), events: make(chan watch.Event), stop: stop,
	}
	go w.follow(ctx)
	return w, nil
}

// List implements toolscache.ListerWatcher.
func (k *kindWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return k.ListWithContext(context.TODO(), options) //nolint:forbidigo // no context is given
}

// Watch implements toolscache.ListerWatcher.
func (k *kindWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return k.WatchWithContext(context.TODO(), options) //nolint:forbidigo // no context is given
}

// IsWatchListSemanticsUnSupported makes the informer list and then watch: in a stream of initial events, lastingWatch
// could not recognise the end of the list.
func (*kindWatch) IsWatchListSemanticsUnSupported() bool { return true }

// blank returns an empty object of the informer's type.
func (k *kindWatch) blank() runtime.Object {
	blank := reflect.New(reflect.TypeOf(k.like).Elem()).Interface().(runtime.Object) //nolint:forcetypeassert // the type of like
	if gvk := k.like.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		blank.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return blank
}
