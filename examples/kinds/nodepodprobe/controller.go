package nodepodprobe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "nodepodprobe-controller"

// Reconciler reconciles the NodePodProbe of each Node, and the marks of the Node's Pods: the labels, annotations and
// conditions for probe results.
type Reconciler struct {
	client  client.Client // writes to the API server
	live    client.Reader
	nodes   *ownercache.Index[*corev1.Node]
	pods    *ownercache.Index[*corev1.Pod]
	lists   *ownercache.Index[*v1alpha1.NodePodProbe]
	markers *ownercache.Index[*v1alpha1.PodProbeMarker]
	// requests are the ContainerRecreateRequests for Pods; nil if node agents run no liveness probes.
	requests *ownercache.Index[*v1beta1.ContainerRecreateRequest]
	backoff  fanout.Backoff
	events   record.EventRecorder
	options  kruise.Options

	mu      sync.Mutex
	shapes  map[types.UID]corev1.PodSpec // containers of Pods whose containers the cache does not keep
	book    *probing.Book
	version string // resource version of the PodProbeMarkers in book
}

// nodeIndex is the name of the index of Pods by Node.
const nodeIndex = "workloadkit/nodepodprobe-node"

// Setup adds the controller to the manager. The controller writes with c. The scheme must contain the types of
// v1alpha1. The cache must keep the fields of Pods that the function podFields copies, and the condition Ready of
// Nodes.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options kruise.Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.add(mgr)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options kruise.Options) (r *Reconciler, err error) {
	r = &Reconciler{
		client: c, live: mgr.GetAPIReader(), events: mgr.GetEventRecorderFor(ControllerName), options: options.Complete(),
		shapes: map[types.UID]corev1.PodSpec{},
	}
	informers := mgr.GetCache()
	if r.nodes, err = ownercache.NewIndex(ctx, informers, &corev1.Node{}); err != nil {
		return nil, err
	}
	if r.lists, err = ownercache.NewIndex(ctx, informers, &v1alpha1.NodePodProbe{}); err != nil {
		return nil, err
	}
	if r.markers, err = ownercache.NewIndex(ctx, informers, &v1alpha1.PodProbeMarker{}); err != nil {
		return nil, err
	}
	if movesLiveness(r.options.Gates) {
		if r.requests, err = ownercache.NewIndex(ctx, informers, &v1beta1.ContainerRecreateRequest{}); err != nil {
			return nil, err
		}
	}
	if r.pods, err = ownercache.NewIndex(ctx, informers, &corev1.Pod{}); err != nil {
		return nil, err
	}
	return r, r.pods.Ensure(nodeIndex, func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return []string{pod.Spec.NodeName}
	})
}

// Reconcile writes the NodePodProbe of a Node, and the marks of the Node's Pods.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	list, listed := r.lists.Get("", req.Name)
	book, err := r.currentBook()
	if err != nil {
		return ctrl.Result{}, err
	}
	pods, unread := r.concerned(ctx, book, req.Name)
	byNode, unusable := book.Assign(pods)
	entries := byNode[req.Name]
	if r.requests != nil {
		liveness, why := livenessOf(pods)
		unusable = append(unusable, why...)
		entries, why = probing.Join(entries, liveness)
		unusable = append(unusable, why...)
	}
	if len(unusable) > 0 {
		logr.FromContextOrDiscard(ctx).Info("Probes cannot be run", "why", unusable.Summary(5))
	}
	if unread != nil { // the spec would lack the entries of Pods that could not be read
		return ctrl.Result{}, unread
	}
	failed := r.writeList(ctx, req.Name, list, entries)
	states := map[types.UID][]probing.ProbeState{}
	if listed {
		var refused reason.List
		states, refused = probing.Accept(req.Name, probes.Entries(&list.Spec), probes.Reports(&list.Status), pods)
		if len(refused) > 0 {
			logr.FromContextOrDiscard(ctx).Info("Reports of the Node's agent are refused", "why", refused.Summary(5))
		}
	}
	errs := []error{failed}
	var again time.Duration
	for _, pod := range pods {
		errs = append(errs, r.mark(ctx, book, pod, states[pod.UID]))
		if r.requests == nil {
			continue
		}
		after, err := r.restart(ctx, pod, states[pod.UID])
		if errs = append(errs, err); after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(errs...)
}

// currentBook returns the probing.Book of all PodProbeMarkers that are not being deleted.
func (r *Reconciler) currentBook() (*probing.Book, error) {
	version := r.markers.LastStoreSyncResourceVersion()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.book != nil && r.version == version && version != "" {
		return r.book, nil
	}
	book, _, err := bookOf(r.markers.All())
	if err != nil {
		return nil, err
	}
	r.book, r.version = book, version
	return book, nil
}

// concerned returns the Pods of a Node that PodProbeMarkers select, or that have marks, with their containers. Marks
// are the labels, annotations and conditions for probe results.
func (r *Reconciler) concerned(ctx context.Context, book *probing.Book, node string) (pods []*corev1.Pod, err error) {
	var errs []error
	for _, pod := range r.pods.By(nodeIndex, node) {
		if !concerns(book, pod) && !r.hasLiveness(pod) {
			continue
		}
		whole, err := r.withContainers(ctx, pod)
		if err != nil {
			errs = append(errs, err)
		}
		if whole != nil {
			pods = append(pods, whole)
		}
	}
	return pods, errors.Join(errs...)
}

// hasLiveness reports whether the node agent, not the kubelet, runs liveness probes of a Pod.
func (r *Reconciler) hasLiveness(pod *corev1.Pod) bool {
	return r.requests != nil && podstate.IsActive(pod) && pod.Annotations[apps.AnnotationContainerProbeContext] != ""
}

// concerns reports whether a PodProbeMarker selects a Pod, or the Pod has labels, annotations or conditions for probe
// results.
func concerns(book *probing.Book, pod *corev1.Pod) bool {
	return podstate.IsActive(pod) && (pod.Annotations[apps.AnnotationProbeMarks] != "" || len(book.Of(pod)) > 0)
}

// withContainers returns a Pod with its containers, or nil if the Pod does not exist. The cache keeps no containers
// of most Pods whose owner is of another API group. The names and ports of a Pod's containers never change, so
// withContainers reads each such Pod from the API server only once.
func (r *Reconciler) withContainers(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	if isWhole(pod) {
		return pod, nil
	}
	r.mu.Lock()
	shape, known := r.shapes[pod.UID]
	r.mu.Unlock()
	if !known {
		found, err := r.read(ctx, pod)
		if err != nil || found == nil {
			return nil, err
		}
		shape = shapeOf(&found.Spec)
		r.mu.Lock()
		r.shapes[pod.UID] = shape
		r.mu.Unlock()
	}
	out := *pod
	out.Spec.Containers, out.Spec.InitContainers = shape.Containers, shape.InitContainers
	return &out, nil
}

// read returns a Pod from the API server; nil if the Pod does not exist.
func (r *Reconciler) read(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	found := &corev1.Pod{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(pod), found)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil || found.UID != pod.UID {
		return nil, nil //nolint:nilerr,nilnil // the Pod was deleted, and an event will follow
	}
	return found, nil
}

// shapeOf returns the fields of containers that probes need: names, ports, environment variables and restart
// policies.
func shapeOf(spec *corev1.PodSpec) (out corev1.PodSpec) {
	slim := func(list []corev1.Container) (out []corev1.Container) {
		for i := range list {
			out = append(out, corev1.Container{Name: list[i].Name, Ports: list[i].Ports, Env: list[i].Env, RestartPolicy: list[i].RestartPolicy})
		}
		return out
	}
	out.Containers, out.InitContainers = slim(spec.Containers), slim(spec.InitContainers)
	return out
}

// mark writes the marks of a Pod: the labels, annotations and conditions for probe results. The cache keeps few
// fields of Pods whose owner is of another API group, and can be outdated. So mark reads the Pod from the API server,
// decides, and writes only if the Pod has not changed since the read. The reason is the annotation that records the
// marks: a write must not replace the annotation by an outdated version.
func (r *Reconciler) mark(ctx context.Context, book *probing.Book, pod *corev1.Pod, states []probing.ProbeState) error {
	now := r.options.Clock.Now()
	if change, _ := book.Mark(pod, states); isMade(pod, now, change) {
		return nil
	}
	found, err := r.read(ctx, pod)
	if err != nil || found == nil || found.Spec.NodeName != pod.Spec.NodeName {
		return err
	}
	change, why := book.Mark(found, states)
	if isMade(found, now, change) {
		return nil
	}
	change.ResourceVersion = found.ResourceVersion
	_, err = podwrite.Send(ctx, r.client, found, now, change)
	switch {
	case errors.Is(err, podwrite.Replaced):
		return nil
	case err != nil && podwrite.IsLasting(err):
		code, message := reason.Explain(err)
		r.events.Event(found, corev1.EventTypeWarning, string(code), message)
		return err
	case err != nil:
		return err
	}
	if len(why) > 0 {
		logr.FromContextOrDiscard(ctx).Info("Probes set different values", "why", why.Summary(5))
	}
	r.options.Metrics.Done("written", 1)
	return nil
}

// forget removes the containers and the backoff of a deleted Pod from the controller's memory.
func (r *Reconciler) forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.shapes, pod)
	r.backoff.Forget(pod)
}

// gather is how long the controller collects events of Pods and PodProbeMarkers before the NodePodProbe of a Node is
// reconciled.
const gather = 100 * time.Millisecond

func bookOf(markers []*v1alpha1.PodProbeMarker) (*probing.Book, reason.List, error) {
	sorted := inOrder(markers)
	list := make([]probing.Marker, 0, len(sorted))
	for _, m := range sorted {
		marker, _ := probes.Resolve(m) // the controller in package podprobemarker reports the problems
		list = append(list, marker)
	}
	book, invalid := probing.NewBook(probes.Annotations(), list)
	if book == nil {
		return nil, invalid, invalid.Err()
	}
	return book, invalid, nil
}
