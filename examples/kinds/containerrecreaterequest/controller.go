package containerrecreaterequest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "containerrecreaterequest-controller"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles ContainerRecreateRequests.
type Reconciler struct {
	cache   *ownercache.Cache[*v1beta1.ContainerRecreateRequest]
	pods    *ownercache.Index[*corev1.Pod]
	live    client.Reader
	fanout  *fanout.Fanout
	events  record.EventRecorder
	told    *kruise.Told
	whole   *ownercache.Memory[*corev1.Pod] // Pods read from the API server for requests in progress
	options Options
}

// view is a request as the cache shows it.
type view = ownercache.View[*v1beta1.ContainerRecreateRequest]

// Setup adds the controller to the manager. The controller writes with c, and reads single Pods with the manager's API
// reader. The scheme must contain the types of this group.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	options = options.Complete()
	r := &Reconciler{
		live: mgr.GetAPIReader(), fanout: fanout.New(options.Calls), events: kruise.Manager(mgr).GetEventRecorderFor(ControllerName), options: options,
	}
	var err error
	if r.pods, err = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{}); err != nil {
		return err
	}
	pods := trackedclient.Pods(r.pods)
	if options.Namespace != "" {
		pods.Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
	}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.ContainerRecreateRequest{}, options,
		ownercache.Options{Owned: []trackedclient.Source{pods}, Namespace: options.Namespace})
	if err != nil {
		return err
	}
	if err := r.cache.Owners.Add(podIndex, byPod); err != nil {
		return err
	}
	r.told, r.whole = kruise.NewTold(r.cache, r.events), ownercache.NewMemory[*corev1.Pod](r.cache)
	r.cache.OnGone(r.fanout.Backoff.Forget)
	return r.cache.AddController(mgr, "containerrecreaterequest", r, options.Loop(options.Workers, r.watch))
}

// Reconcile takes the next step of a request, or cleans up after a request that has ended.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil {
		return result, err
	}
	pass := r.fanout.Begin(v)
	o, err := r.observe(ctx, v)
	if err != nil {
		return pass.Result(err)
	}
	p := decide(o)
	pass.Wake(p.after)
	return pass.Result(r.act(ctx, v, pass, o.pod, p))
}

// observe collects the inputs of a reconciliation.
func (r *Reconciler) observe(ctx context.Context, v *view) (o *observed, err error) {
	o = &observed{request: v.Owner, now: v.Now}
	o.settings, o.problems, _ = resolve(&v.Owner.Spec)
	if v.Owner.DeletionTimestamp != nil || api.HasEnded(&v.Owner.Status) || len(o.problems) > 0 {
		r.whole.Change(v.Owner.UID, func(known **corev1.Pod) { *known = nil })
		return o, nil
	}
	o.rivals = r.rivals(v.Owner)
	o.pod, err = r.podOf(ctx, v.Owner)
	return o, err
}

// podOf returns the Pod with the name in a request, even if the UID differs, or nil if no such Pod exists. Only the
// API server can tell that a Pod does not exist: the cache may not show a new Pod yet, or may still show a deleted
// Pod. The cache keeps only some fields of most Pods; these fields are enough until the request is in progress. Once
// the request is in progress, each version of its Pod is read once from the API server.
func (r *Reconciler) podOf(ctx context.Context, request *v1beta1.ContainerRecreateRequest) (*corev1.Pod, error) {
	pod, ok := r.pods.Get(request.Namespace, request.Spec.PodName)
	if ok && string(pod.UID) == request.Labels[apps.LabelRequestPodUID] {
		isWhole := len(pod.Spec.Containers) > 0
		if isWhole || pod.DeletionTimestamp != nil || request.Status.Phase != v1beta1.ContainerRecreateRequestRecreating {
			return pod, nil
		}
		if known := r.whole.Of(request.UID); known != nil && known.UID == pod.UID && known.ResourceVersion == pod.ResourceVersion {
			return known, nil
		}
	}
	live, err := podOf(ctx, r.live, request)
	if err == nil {
		r.whole.Change(request.UID, func(known **corev1.Pod) { *known = live })
	}
	return live, err
}
