package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/ownercache"
)

// cached returns the settings of the cache by kind: for the objects that several controllers read, and for the
// objects that the rows list. Users may write objects of any size, so a transform removes the fields that no
// controller reads before the cache stores an object.
func cached(gates map[apps.Gate]bool, rows []kind.Row, loops []kinds.Loop) map[client.Object]cache.ByObject {
	pods := &podCache{}
	for i := range loops {
		if l := &loops[i]; l.WholePod != nil && (l.Gate == "" || gates[l.Gate]) {
			pods.keep = append(pods.keep, l.WholePod)
		}
	}
	for i := range rows {
		if rows[i].WholePod != nil {
			pods.keep = append(pods.keep, rows[i].WholePod)
		}
		if rows[i].PodFields != nil {
			pods.fields = append(pods.fields, rows[i].PodFields)
		}
	}
	byObject := map[client.Object]cache.ByObject{
		&corev1.Pod{}:                {Transform: pods.transform},
		&appsv1.ControllerRevision{}: {Transform: keepRevision},
		&corev1.Node{}:               {Transform: strippedNode, Field: fields.Everything()}, // Nodes are in no namespace
		&corev1.Namespace{}:          {Transform: strippedNamespace, Field: fields.Everything()},
	}
	read := map[reflect.Type]*keeper{}
	for _, all := range append([][]kind.Cached{counted()}, cachedOf(rows)...) {
		for _, c := range all {
			of := reflect.TypeOf(c.Object)
			if read[of] == nil {
				read[of] = &keeper{}
				byObject[c.Object] = cache.ByObject{Transform: read[of].transform}
			}
			read[of].fields = append(read[of].fields, c.Keep)
		}
	}
	return byObject
}

func cachedOf(rows []kind.Row) (out [][]kind.Cached) {
	for i := range rows {
		out = append(out, rows[i].Cached)
	}
	return out
}

// counted returns the workload kinds of Kubernetes of which the manager reads the wanted number of Pods and the
// controller.
func counted() []kind.Cached {
	return []kind.Cached{
		{Object: &appsv1.Deployment{}, Keep: keepWorkload},
		{Object: &appsv1.ReplicaSet{}, Keep: keepWorkload},
		{Object: &appsv1.DaemonSet{}, Keep: keepWorkload},
		{Object: &appsv1.StatefulSet{}, Keep: keepWorkload},
	}
}

// keeper is a cache transform that keeps the identity (such as name, UID and owner references) of an object, and the
// fields that any kind's controller reads.
type keeper struct {
	fields []func(kept, found client.Object)
}

func (k *keeper) transform(obj any) (any, error) {
	found, ok := obj.(client.Object)
	if !ok {
		return obj, nil
	}
	kept, ok := reflect.TypeAssert[client.Object](reflect.New(reflect.TypeOf(found).Elem()))
	if !ok {
		return nil, fmt.Errorf("no new %T can be made", found)
	}
	kept.GetObjectKind().SetGroupVersionKind(found.GetObjectKind().GroupVersionKind())
	kept.SetNamespace(found.GetNamespace())
	kept.SetName(found.GetName())
	kept.SetUID(found.GetUID())
	kept.SetResourceVersion(found.GetResourceVersion())
	for _, keep := range k.fields {
		keep(kept, found)
	}
	return kept, nil
}

// countWatchErrors returns a handler that counts failed lists and watches of the caches. While a list or watch fails,
// the controllers see no changes, and no other metric shows the failure. seen records each failure.
func countWatchErrors(registry prometheus.Registerer, seen *lists) (toolscache.WatchErrorHandlerWithContext, error) {
	failures := newCacheMetric()
	if err := registry.Register(failures); err != nil {
		return nil, fmt.Errorf("metric of the caches: %w", err)
	}
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, r, err) // the default handler logs the error
		if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			failures.WithLabelValues(r.TypeDescription()).Inc()
			seen.note(r.TypeDescription(), err)
		}
	}, nil
}

func newCacheMetric() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kruise_cache_failures_total",
		Help: "Lists and watches for the controllers' caches that failed, by type. While it grows they do not see what changes.",
	}, []string{"type"})
}

// controllerIs reports whether the controller in an object's owner references is of a kind of this project (ours), or
// of any other kind (another). If the object has no controller, both results are false.
func controllerIs(object metav1.Object) (ours, another bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return false, false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	ours = err == nil && gv.Group == apps.Group
	return ours, !ours
}

// podCache is a cache transform. The cache keeps all fields of a Pod if the Pod's controller is of a kind of this
// project, or if a function in keep returns true for the Pod. The functions in keep return true only as long as there
// is work to do on the Pod. Of all other Pods, the cache keeps only names, labels and PersistentVolumeClaims, and the
// fields that a kind's controller reads.
type podCache struct {
	keep   []func(*corev1.Pod) bool
	fields []func(kept, pod *corev1.Pod)
	sharer ownercache.Sharer
}

func (c *podCache) transform(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if ours, _ := controllerIs(pod); ours {
		return c.sharer.Transform(pod)
	}
	if slices.ContainsFunc(c.keep, func(keep func(*corev1.Pod) bool) bool { return keep(pod) }) {
		pod.ManagedFields = nil
		return pod, nil
	}
	out := strippedPod(pod)
	for _, keep := range c.fields {
		keep(out, pod)
	}
	return out, nil
}

// keepWorkload keeps the wanted number of Pods of a Kubernetes workload, but not the Pod template and the claim
// templates, which would need most of the memory.
func keepWorkload(kept, found client.Object) {
	metaOf := func(from metav1.ObjectMeta) metav1.ObjectMeta {
		from.Annotations, from.ManagedFields = nil, nil
		return from
	}
	switch found := found.(type) {
	case *appsv1.Deployment:
		if kept, ok := kept.(*appsv1.Deployment); ok {
			kept.ObjectMeta, kept.Spec.Replicas = metaOf(found.ObjectMeta), found.Spec.Replicas
		}
	case *appsv1.ReplicaSet:
		if kept, ok := kept.(*appsv1.ReplicaSet); ok {
			kept.ObjectMeta, kept.Spec.Replicas = metaOf(found.ObjectMeta), found.Spec.Replicas
		}
	case *appsv1.DaemonSet:
		if kept, ok := kept.(*appsv1.DaemonSet); ok {
			kept.ObjectMeta, kept.Status.DesiredNumberScheduled = metaOf(found.ObjectMeta), found.Status.DesiredNumberScheduled
		}
	case *appsv1.StatefulSet: // the controllers of some kinds read annotations
		if kept, ok := kept.(*appsv1.StatefulSet); ok {
			kept.ObjectMeta = found.ObjectMeta
			kept.ManagedFields = nil
			delete(kept.Annotations, corev1.LastAppliedConfigAnnotation)
			kept.Spec.Replicas, kept.Spec.Ordinals = found.Spec.Replicas, found.Spec.Ordinals
		}
	}
}

// strippedPod returns a copy of a Pod with only the fields that every kind needs, for Pods whose controller is not of
// a kind of this project. If a controller of this project adopts the Pod later, the change of the owner reference is
// an event with the whole Pod.
func strippedPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
	out.Annotations, out.ManagedFields = nil, nil
	out.Spec.NodeName, out.Status.Phase = pod.Spec.NodeName, pod.Status.Phase
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			out.Spec.Volumes = append(out.Spec.Volumes, corev1.Volume{
				Name: pod.Spec.Volumes[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source},
			})
		}
	}
	return out
}

// strippedNode keeps the fields of a Node that determine which Pods can run there, the time since which the Node is
// ready, and the versions that tell whether the kubelet supports image volumes. With thousands of Nodes the remaining
// fields would need most of the memory.
func strippedNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	out := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta}
	out.Annotations, out.ManagedFields = nil, nil
	out.Spec.Taints, out.Spec.Unschedulable = node.Spec.Taints, node.Spec.Unschedulable
	out.Status.Allocatable = node.Status.Allocatable
	out.Status.NodeInfo.KubeletVersion, out.Status.NodeInfo.ContainerRuntimeVersion = node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.ContainerRuntimeVersion
	out.Status.NodeInfo.OperatingSystem = node.Status.NodeInfo.OperatingSystem
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return out, nil
}

// strippedNamespace keeps the fields of a Namespace that the selectors of SidecarSets use.
func strippedNamespace(obj any) (any, error) {
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return obj, nil
	}
	out := &corev1.Namespace{TypeMeta: namespace.TypeMeta, ObjectMeta: namespace.ObjectMeta}
	out.Annotations, out.ManagedFields = nil, nil
	return out, nil
}

// keepRevision removes the data from ControllerRevisions of other controllers, mostly from the revisions of
// Kubernetes' StatefulSets and DaemonSets. A revision without a controller keeps its content, because a workload of
// this project may adopt the revisions of a deleted workload.
func keepRevision(obj any) (any, error) {
	revision, ok := obj.(*appsv1.ControllerRevision)
	if !ok {
		return obj, nil
	}
	revision.ManagedFields = nil
	if _, another := controllerIs(revision); another {
		revision.Data, revision.Annotations = runtime.RawExtension{}, nil
	}
	return revision, nil
}
