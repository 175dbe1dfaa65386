package imagepulljob

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// These are the names of the indexes: NodeImages by the UIDs of the jobs that want images, and copies of Secrets by
// the jobs that need the copy, and by source.
const (
	claimIndex  = "workloadkit/imagepulljob-claim"
	holderIndex = "workloadkit/imagepulljob-holder"
	sourceIndex = "workloadkit/imagepulljob-source"
)

func byClaim(image *v1beta1.NodeImage) (keys []string) {
	for _, owner := range ownersIn(image.Spec.Images) {
		keys = append(keys, string(owner.UID))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func byHolder(secret client.Object) []string {
	if secret.GetNamespace() != apps.NamespacePullSecrets {
		return nil
	}
	return holdersOf(secret)
}

func holdersOf(secret client.Object) []string {
	return strings.FieldsFunc(secret.GetAnnotations()[apps.AnnotationSecretHolders], func(c rune) bool { return c == ',' })
}

func bySource(secret client.Object) []string {
	source := secret.GetAnnotations()[apps.AnnotationSecretSource]
	if secret.GetNamespace() != apps.NamespacePullSecrets || source == "" {
		return nil
	}
	return []string{source}
}

// keepCopy adds the annotations of Secret copies to the objects in the cache. For all other Secrets the cache keeps
// only the identity.
func keepCopy(kept, found client.Object) {
	if found.GetNamespace() != apps.NamespacePullSecrets {
		return
	}
	annotations := kept.GetAnnotations()
	for _, key := range []string{apps.AnnotationSecretSource, apps.AnnotationSecretHolders} {
		if value, ok := found.GetAnnotations()[key]; ok {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[key] = value
		}
	}
	kept.SetAnnotations(annotations)
}

// ordered returns the names of Nodes in the annotation apps.AnnotationPullOrder.
func ordered(job *v1beta1.ImagePullJob) []string {
	return strings.FieldsFunc(job.Annotations[apps.AnnotationPullOrder], func(c rune) bool { return c == ',' || c == ' ' })
}

func labelsOf(image *v1beta1.NodeImage) labels.Set { return image.Labels }

// gather is how long events of Nodes and NodeImages are collected before a job is reconciled, because a
// reconciliation examines all Nodes of the job.
const gather = 200 * time.Millisecond

// watch adds event sources: reports of agents, Nodes that are created, deleted, or become ready, Pods of jobs with a
// Pod selector, and changes of pull secrets and their copies.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	return b.Watches(&v1beta1.NodeImage{}, r.imageEvents()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(secretMetadata(), on(func(q queue, before, after client.Object) {
			if before == nil || after == nil || before.GetResourceVersion() != after.GetResourceVersion() {
				r.wakeForSecret(q, before, after)
			}
		}))
}

// on returns a handler that calls wake with the object before and after an event. before is nil for a new object, and
// after is nil for a deleted object.
func on(wake func(q queue, before, after client.Object)) handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, nil, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object, nil) },
	}
}

// imageEvents enqueues the owners of tags whose spec or status has changed. A NodeImage that is created or deleted,
// or whose labels change, enqueues all running jobs that select the Node before or after the change.
func (r *Reconciler) imageEvents() handler.Funcs {
	return on(func(q queue, before, after client.Object) {
		was, _ := before.(*v1beta1.NodeImage)
		is, _ := after.(*v1beta1.NodeImage)
		if was == nil || is == nil || !maps.Equal(was.Labels, is.Labels) || was.UID != is.UID {
			if was != nil {
				r.wakeSelecting(q, was)
			}
			if is != nil {
				r.wakeSelecting(q, is)
			}
		}
		for _, owner := range ownersOfChanges(was, is) {
			q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}}, gather)
		}
	})
}

// wakeSelecting enqueues the running jobs that select a Node. node is the Node or the NodeImage, which has the labels
// of the Node.
func (r *Reconciler) wakeSelecting(q queue, node client.Object) {
	for _, job := range r.cache.Owners.All() {
		if hasEnded(job) {
			continue
		}
		s := r.settings.Of(job)
		if s.Problems != nil {
			continue
		}
		if s.pods != nil || s.selects(node.GetName(), node.GetLabels()) {
			q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}, gather)
		}
	}
}

// ownersOfChanges returns the owners of images whose spec or status differs.
func ownersOfChanges(before, after *v1beta1.NodeImage) []corev1.ObjectReference {
	var was, is v1beta1.NodeImage
	if before != nil {
		was = *before
	}
	if after != nil {
		is = *after
	}
	changed := map[string]v1beta1.ImageSpec{}
	note := func(spec, other map[string]v1beta1.ImageSpec) {
		for name, image := range spec {
			if !equality.Semantic.DeepEqual(image, other[name]) || !equality.Semantic.DeepEqual(was.Status.ImageStatuses[name], is.Status.ImageStatuses[name]) {
				in := changed[name]
				in.Tags = slices.Concat(in.Tags, image.Tags)
				changed[name] = in
			}
		}
	}
	note(was.Spec.Images, is.Spec.Images)
	note(is.Spec.Images, was.Spec.Images)
	return ownersIn(changed)
}

// ownersIn returns the ImagePullJobs among the owners of tags, each once.
func ownersIn(images map[string]v1beta1.ImageSpec) (owners []corev1.ObjectReference) {
	seen := map[types.UID]bool{}
	for _, image := range images {
		for i := range image.Tags {
			for _, owner := range image.Tags[i].OwnerReferences {
				if owner.Kind == "ImagePullJob" && !seen[owner.UID] {
					seen[owner.UID] = true
					owners = append(owners, owner)
				}
			}
		}
	}
	return owners
}

// nodeEvents enqueues the running jobs that select a Node when the Node is created, deleted or replaced, becomes ready or
// not ready, or when its labels, spec.unschedulable, its container runtime or a taint for disk or PID pressure change.
func (r *Reconciler) nodeEvents() handler.Funcs {
	return on(func(q queue, before, after client.Object) {
		was, _ := before.(*corev1.Node)
		is, _ := after.(*corev1.Node)
		if was != nil && is != nil && isSameNode(was, is) {
			return
		}
		for _, node := range []*corev1.Node{was, is} {
			if node != nil {
				r.wakeSelecting(q, node)
			}
		}
	})
}

// isSameNode reports whether two versions of a Node are the same for jobs.
func isSameNode(was, is *corev1.Node) bool {
	return was.UID == is.UID && was.Spec.Unschedulable == is.Spec.Unschedulable && isReady(was) == isReady(is) && maps.Equal(was.Labels, is.Labels) &&
		was.Status.NodeInfo == is.Status.NodeInfo && pressure(was) == pressure(is)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (r *Reconciler) podEvents() handler.Funcs {
	return on(func(q queue, before, after client.Object) {
		was, _ := before.(*corev1.Pod)
		is, _ := after.(*corev1.Pod)
		r.wakeForOwn(q, was, is)
		if was != nil && is != nil && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName &&
			podstate.IsActive(was) == podstate.IsActive(is) && maps.Equal(was.Labels, is.Labels) {
			return
		}
		var pods []*corev1.Pod
		for _, pod := range []*corev1.Pod{was, is} {
			if pod != nil {
				pods = append(pods, pod)
			}
		}
		for _, job := range r.cache.Owners.In(pods[0].Namespace) {
			if s := r.settings.Of(job); hasEnded(job) || s.pods == nil || len(nodesOfPods(pods, s.pods)) == 0 {
				continue
			}
			q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}, gather)
		}
	})
}

// wakeForOwn enqueues the job that controls a Pod.
func (r *Reconciler) wakeForOwn(q queue, was, is *corev1.Pod) {
	pod := cmp.Or(is, was)
	if was != nil && is != nil && was.ResourceVersion == is.ResourceVersion || !isOfJob(pod) {
		return
	}
	name := metav1.GetControllerOfNoCopy(pod).Name
	q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: name}}, gather)
}

// wakeForSecret enqueues the jobs that need a copied Secret, or the running jobs that name a Secret of their own
// namespace.
func (r *Reconciler) wakeForSecret(q queue, objects ...client.Object) {
	woken := map[types.NamespacedName]bool{}
	for _, secret := range objects {
		if secret == nil {
			continue
		}
		for _, name := range byHolder(secret) {
			namespace, name, _ := strings.Cut(name, "/")
			woken[types.NamespacedName{Namespace: namespace, Name: name}] = true
		}
		for _, job := range r.cache.Owners.In(secret.GetNamespace()) {
			if !hasEnded(job) && slices.Contains(job.Spec.PullSecrets, secret.GetName()) {
				woken[client.ObjectKeyFromObject(job)] = true
			}
		}
	}
	for name := range woken {
		q.AddAfter(ctrl.Request{NamespacedName: name}, gather)
	}
}
