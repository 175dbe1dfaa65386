package containerrecreaterequest

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// podIndex is the name of the index of the requests that have not ended, by Pod.
const podIndex = "workloadkit/containerrecreaterequest-pod"

func byPod(request *v1beta1.ContainerRecreateRequest) []string {
	if request.DeletionTimestamp != nil || api.HasEnded(&request.Status) {
		return nil
	}
	return []string{request.Namespace + "/" + request.Spec.PodName}
}

// rivals returns the requests for the same Pod as a request; the Pod is identified by its UID.
func (r *Reconciler) rivals(request *v1beta1.ContainerRecreateRequest) []*v1beta1.ContainerRecreateRequest {
	uid := request.Labels[apps.LabelRequestPodUID]
	return slices.DeleteFunc(r.cache.Owners.By(podIndex, request.Namespace+"/"+request.Spec.PodName),
		func(rival *v1beta1.ContainerRecreateRequest) bool {
			return rival.Labels[apps.LabelRequestPodUID] != uid
		})
}

// watch adds event sources: requests are enqueued on events of their Pods, on reports of agents, and on changes of
// other requests for the same Pod.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	pods := handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.podSeen(q, e.Object, true) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.podSeen(q, e.Object, true) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			ends := e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectNew.GetDeletionTimestamp() != nil
			r.podSeen(q, e.ObjectNew, ends)
		},
	}
	requests := handler.Funcs{
		UpdateFunc: r.requestChanged,
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.wakeLine(q, e.Object) },
	}
	return b.Watches(&corev1.Pod{}, pods).Watches(&v1beta1.ContainerRecreateRequest{}, requests)
}

// podSeen enqueues the request in progress for a Pod; if the Pod ends, all its requests are enqueued, always in the
// same order.
func (r *Reconciler) podSeen(q queue, pod client.Object, ends bool) {
	requests := r.cache.Owners.By(podIndex, pod.GetNamespace()+"/"+pod.GetName())
	slices.SortFunc(requests, func(a, b *v1beta1.ContainerRecreateRequest) int { return strings.Compare(a.Name, b.Name) })
	for _, request := range requests {
		if ends || request.Status.Phase == v1beta1.ContainerRecreateRequestRecreating {
			add(q, request)
		}
	}
}

// requestChanged enqueues a request if its status or its finalizers have changed. Changes of the states of containers
// do not enqueue the request.
func (r *Reconciler) requestChanged(_ context.Context, e event.UpdateEvent, q queue) {
	before, ok := e.ObjectOld.(*v1beta1.ContainerRecreateRequest)
	after, same := e.ObjectNew.(*v1beta1.ContainerRecreateRequest)
	if !ok || !same {
		return
	}
	was, is := before.Status, after.Status
	was.ContainerRecreateStates, is.ContainerRecreateStates = nil, nil
	var awake []*v1beta1.ContainerRecreateRequest
	if !equality.Semantic.DeepEqual(was, is) || !slices.Equal(before.Finalizers, after.Finalizers) {
		awake = append(awake, after)
	}
	if was.Phase != is.Phase || len(byPod(before)) != len(byPod(after)) || before.UID != after.UID {
		awake = append(awake, r.line(after)...)
	}
	add(q, awake...)
}

// wakeLine enqueues the requests for a Pod whose conditions may have to change after a request for this Pod has
// changed.
func (r *Reconciler) wakeLine(q queue, object client.Object) {
	if request, ok := object.(*v1beta1.ContainerRecreateRequest); ok {
		add(q, r.line(request)...)
	}
}

// line returns the first requests for the Pod of a request, in the order in which agents handle the requests: the
// request in progress, and the waiting requests whose conditions name the request in progress.
func (r *Reconciler) line(request *v1beta1.ContainerRecreateRequest) []*v1beta1.ContainerRecreateRequest {
	order, _ := turns(r.rivals(request))
	return order[:min(len(order), inLine+2)]
}

// add adds each request to the queue only once, because a worker could take a request from the queue between two
// additions, and would then reconcile the request twice.
func add(q queue, requests ...*v1beta1.ContainerRecreateRequest) {
	added := map[string]bool{}
	for _, request := range requests {
		if !added[request.Name] {
			q.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		}
		added[request.Name] = true
	}
}
