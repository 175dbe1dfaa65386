package workloads

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source is a ConfigMap that lists kinds, with the function that parses the list.
type Source struct {
	// Namespace and Name are the namespace and the name of the ConfigMap.
	Namespace, Name string
	// Parse parses the data of the ConfigMap. If Parse returns kinds and an error, the returned kinds are used.
	Parse func(data map[string]string) ([]schema.GroupVersionKind, error)
}

// List is the current list of kinds in a ConfigMap. Make a List with Follow. A List is safe for concurrent use.
type List struct {
	parse  func(data map[string]string) ([]schema.GroupVersionKind, error)
	synced func() bool
	log    logr.Logger

	mu      sync.Mutex
	kinds   []schema.GroupVersionKind
	changed chan struct{} // closed and replaced when kinds changes
}

// Follow adds a watch of a single ConfigMap to a manager. The watch runs on every replica. Other ConfigMaps are not
// read.
func Follow(ctx context.Context, mgr ctrl.Manager, from Source) (*List, error) {
	one := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", from.Name)}
	watched, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{from.Namespace: one}}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of ConfigMap %s/%s: %w", from.Namespace, from.Name, err)
	}
	informer, err := watched.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching ConfigMap %s/%s: %w", from.Namespace, from.Name, err)
	}
	l := &List{parse: from.Parse, log: mgr.GetLogger().WithValues("configMap", from.Namespace+"/"+from.Name), changed: make(chan struct{})}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: l.read, UpdateFunc: func(_, after any) { l.read(after) }, DeleteFunc: func(any) { l.set(nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching ConfigMap %s/%s: %w", from.Namespace, from.Name, err)
	}
	l.synced = registration.HasSynced
	return l, mgr.Add(everywhere{watched.Start})
}

// everywhere is a manager.Runnable that runs on every replica, not only on the leader.
type everywhere struct {
	run func(context.Context) error
}

// Start runs the function until ctx ends.
func (e everywhere) Start(ctx context.Context) error { return e.run(ctx) }

// NeedLeaderElection returns false.
func (everywhere) NeedLeaderElection() bool { return false }

// now returns the listed kinds. known is false until the ConfigMap has been read once.
func (l *List) now() (kinds []schema.GroupVersionKind, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds, l.synced()
}

// Lists reports whether a kind is listed, in any version.
func (l *List) Lists(kind schema.GroupKind) (listed, known bool) {
	kinds, known := l.now()
	return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind }), known
}

// next returns a channel that is closed at the next change of the list.
func (l *List) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// read sets the list from the data of a ConfigMap. If no entry can be parsed, the list stays unchanged, because a user
// may be in the middle of an edit.
func (l *List) read(object any) {
	configuration, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	kinds, err := l.parse(configuration.Data)
	if err != nil {
		l.log.Error(err, "Reading the list of kinds", "kinds", len(kinds))
	}
	if err == nil || len(kinds) > 0 {
		l.set(kinds)
	}
}

func (l *List) set(kinds []schema.GroupVersionKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(l.kinds, kinds) {
		return
	}
	l.log.Info("Kinds are listed", "kinds", kinds)
	l.kinds = kinds
	close(l.changed)
	l.changed = make(chan struct{})
}
