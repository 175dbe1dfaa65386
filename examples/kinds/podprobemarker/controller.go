package podprobemarker

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "podprobemarker-controller"

// look is the interval at which the controller checks whether a PodProbeMarker that is being deleted still has probes
// on Nodes or marks on Pods. Marks are the labels, annotations and conditions with the results of probes.
const look = time.Second

// reasonsInEvent is the largest number of reasons in an event.
const reasonsInEvent = 3

// Reconciler reconciles PodProbeMarkers.
type Reconciler struct {
	cache     *ownercache.Cache[*v1alpha1.PodProbeMarker]
	resolved  *ownercache.Memo[*v1alpha1.PodProbeMarker, *resolved]
	pods      *ownercache.Index[*corev1.Pod]
	nodeLists *ownercache.Index[*v1alpha1.NodePodProbe]
	book      *probing.Book // without markers; used only to read from Pods the records of their marks
	fanout    *fanout.Fanout
	told      *kruise.Told
	options   kruise.Options
}

// resolved is the parsed spec of a PodProbeMarker, computed once for each spec.
type resolved struct {
	probing.Marker

	problems reason.List
}

type view = ownercache.View[*v1alpha1.PodProbeMarker]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the types of v1alpha1. The cache must keep the fields of Pods that package nodepodprobe names.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options kruise.Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.cache.AddController(mgr, "podprobemarker", r, r.options.Loop(r.options.Workers, r.watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options kruise.Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{fanout: fanout.New(options.Calls), options: options}
	var err error
	if r.pods, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return nil, err
	}
	if r.nodeLists, err = ownercache.NewIndex(ctx, mgr.GetCache(), &v1alpha1.NodePodProbe{}); err != nil {
		return nil, err
	}
	pods := trackedclient.Pods(r.pods)
	if options.Namespace != "" {
		pods.Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1alpha1.PodProbeMarker{}, options,
		ownercache.Options{Owned: []trackedclient.Source{pods}, Namespace: options.Namespace})
	if err != nil {
		return nil, err
	}
	r.resolved = ownercache.NewMemo(r.cache, func(obj *v1alpha1.PodProbeMarker) *resolved {
		marker, problems := probes.Resolve(obj)
		return &resolved{marker, problems}
	})
	book, problems := probing.NewBook(probes.Annotations(), nil)
	r.book, r.told = book, kruise.NewTold(r.cache, mgr.GetEventRecorderFor(ControllerName))
	r.cache.OnGone(r.fanout.Backoff.Forget)
	return r, problems.Err()
}

// Reconcile takes the next step of a PodProbeMarker.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil {
		return result, err
	}
	pass := r.fanout.Begin(v)
	if v.Owner.DeletionTimestamp != nil {
		if r.isHeld(v.Owner) {
			pass.Wake(look)
			return pass.Result(nil)
		}
		return pass.Result(setFinalizer(ctx, v, pass, false))
	}
	if err := setFinalizer(ctx, v, pass, true); err != nil {
		return pass.Result(err)
	}
	is := r.resolved.Of(v.Owner)
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventInvalidPodProbeMarker, is.problems.Summary(reasonsInEvent))
	_, err = v.WriteStatus(ctx, v1alpha1.PodProbeMarkerStatus{ObservedGeneration: v.Owner.Generation, MatchedPods: matched(is.Selector, r.pods.In(v.Owner.Namespace))})
	return pass.Result(err)
}

// isHeld reports whether a Node still runs a probe of the marker, or a Pod still has a mark. The NodePodProbe of a
// deleted Node is deleted too, so no marker waits for a deleted Node.
func (r *Reconciler) isHeld(marker *v1alpha1.PodProbeMarker) bool {
	if r.book.Holds(marker.Namespace, marker.Name, nil, r.pods.In(marker.Namespace)) {
		return true
	}
	for _, list := range r.nodeLists.All() {
		if r.book.Holds(marker.Namespace, marker.Name, probes.Entries(&list.Spec), nil) {
			return true
		}
	}
	return false
}

func setFinalizer(ctx context.Context, v *view, pass *fanout.Pass, wanted bool) error {
	return pass.Once(ctx, fanout.Task{Name: "set the finalizer"}, func() (bool, error) {
		return v.SetFinalizer(ctx, apps.FinalizerPodProbeMarker, wanted)
	})
}

// matched returns the number of Pods that the selector matches and whose containers can be probed.
func matched(selector labels.Selector, pods []*corev1.Pod) (n int64) {
	for _, pod := range pods {
		if selector.Matches(labels.Set(pod.Labels)) && probing.IsProbed(pod) {
			n++
		}
	}
	return n
}
