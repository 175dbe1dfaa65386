package onnode

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/daemon/served"
	"github.com/workloadkit/workloadkit/reason"
)

// Watched provides the NodePodProbe of a Node. A Watched is safe for concurrent use. NewWatched makes a Watched.
type Watched struct {
	node    string
	objects *served.Objects
	wake    func()

	mu      sync.Mutex
	view    *served.View // nil until the NodePodProbe can be read
	current *v1alpha1.NodePodProbe
}

// NewWatched returns a Watched for the NodePodProbe of a Node. wake is called when the object was created, changed or
// deleted. NewWatched sends no request to the API server; Start does.
func NewWatched(config *rest.Config, node string, wake func()) (*Watched, error) {
	kind := served.Kind{
		Group: apps.Group, Resource: "nodepodprobes", Versions: []string{v1alpha1.GroupVersion.Version},
		Select: func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
		},
		Read: read(),
	}
	w := &Watched{node: node, wake: wake}
	var err error
	w.objects, err = served.New(config, kind, w.changed, func(v *served.View) {
		w.mu.Lock()
		w.view = v
		w.mu.Unlock()
	})
	return w, err
}

// read returns the function that decodes a NodePodProbe. No probe is run for an object that cannot be decoded.
func read() cache.TransformFunc { return served.Read[v1alpha1.NodePodProbe](nil) }

// List implements Lists.
func (w *Watched) List() *v1alpha1.NodePodProbe {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// PatchStatus implements Lists.
func (w *Watched) PatchStatus(ctx context.Context, uid types.UID, status v1alpha1.NodePodProbeStatus) error {
	states := status.PodProbeStatuses
	if states == nil {
		states = []v1alpha1.PodProbeStatus{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{"podProbeStatuses": states}})
	if err != nil {
		return fmt.Errorf("results of probes: %w", err)
	}
	w.mu.Lock()
	view := w.view
	w.mu.Unlock()
	written, err := view.PatchStatus(ctx, types.NamespacedName{Name: w.node}, patch)
	if err != nil {
		return fmt.Errorf("results of probes: %w", err)
	}
	if list, err := read()(written); err == nil {
		w.keep(list)
	}
	return nil
}

// Missing returns the reason why the agent does not know which probes to run. The code is empty if the agent knows.
func (w *Watched) Missing() reason.Reason { return w.objects.Missing() }

// Start watches the NodePodProbe until the context ends.
func (w *Watched) Start(ctx context.Context) error { return w.objects.Start(ctx) }

// changed reads the NodePodProbe again from the informer's store, or forgets the NodePodProbe if the store does not
// contain the object any more.
func (w *Watched) changed(any) {
	w.mu.Lock()
	view := w.view
	w.mu.Unlock()
	found, exists, _ := view.Store.GetByKey(w.node) // GetByKey of an informer returns no error
	if exists {
		w.keep(found)
	} else {
		w.mu.Lock()
		w.current = nil
		w.mu.Unlock()
	}
	w.wake()
}

// keep replaces the known NodePodProbe by the given object, unless the known NodePodProbe is newer.
func (w *Watched) keep(object any) {
	list, ok := object.(*v1alpha1.NodePodProbe)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil && w.current.UID == list.UID {
		if order, err := resourceversion.CompareResourceVersion(list.ResourceVersion, w.current.ResourceVersion); err == nil && order < 0 {
			return
		}
	}
	w.current = list
}
