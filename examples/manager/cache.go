package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/budgets"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarterminator"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/placements"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
)

// cached returns the transforms of the cache by kind: of objects read by several controllers, and of the rows. Users decide about the size of their objects, so the cache keeps
// only necessary fields.
func cached(gates map[apps.Gate]bool, rows []kind.Row) (map[client.Object]cache.ByObject, error) {
	keep, err := strangersToKeep(gates)
	if err != nil {
		return nil, err
	}
	pods := &podCache{keep: keep}
	byObject := map[client.Object]cache.ByObject{
		&corev1.Pod{}:                {Transform: pods.transform},
		&appsv1.ControllerRevision{}: {Transform: keepRevision},
		&appsv1.StatefulSet{}:        {Transform: strippedStatefulSet},
		&corev1.Node{}:               {Transform: strippedNode, Field: fields.Everything()}, // Nodes are in no namespace
		&corev1.Namespace{}:          {Transform: strippedNamespace, Field: fields.Everything()},
		// For the expected number of Pods, and for controllers of controllers.
		&appsv1.Deployment{}: {Transform: strippedWorkload},
		&appsv1.ReplicaSet{}: {Transform: strippedWorkload},
		&appsv1.DaemonSet{}:  {Transform: strippedWorkload},
	}
	for i := range rows {
		for _, c := range rows[i].Cached {
			byObject[c.Object] = cache.ByObject{Transform: c.Transform}
		}
	}
	return byObject, nil
}

// strangersToKeep are the reasons for keeping a foreign Pod whole. Most Pods meet no reason, or soon stop meeting any:
// after the work on a Pod, the next event strips the Pod.
func strangersToKeep(gates map[apps.Gate]bool) ([]func(*corev1.Pod) bool, error) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		return nil, err
	}
	return []func(*corev1.Pod) bool{
		order.Needed, // the containers wait for their start
		func(pod *corev1.Pod) bool { // the readiness gate waits for its opening
			return podstate.HasGate(pod, apps.ConditionKruisePodReady) && podstate.Condition(pod, apps.ConditionKruisePodReady) == nil
		},
		func(pod *corev1.Pod) bool { // the Pod's sidecars may be upgraded
			return pod.Annotations[apps.AnnotationSidecarSetInjected] != ""
		},
		func(pod *corev1.Pod) bool { // the sidecars end with the Pod
			return gates[apps.GateSidecarTerminator] && sidecarterminator.Concerns(pod)
		},
	}, nil
}

// countWatchErrors returns the handler for failed lists and watches of the caches. During failures the controllers do
// not see changes, and nothing else says so.
func countWatchErrors(registry prometheus.Registerer) (toolscache.WatchErrorHandlerWithContext, error) {
	failures := newCacheMetric()
	if err := registry.Register(failures); err != nil {
		return nil, fmt.Errorf("metric of the caches: %w", err)
	}
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, r, err) // the default handler logs
		if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			failures.WithLabelValues(r.TypeDescription()).Inc()
		}
	}, nil
}

func newCacheMetric() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kruise_cache_failures_total",
		Help: "Lists and watches for the controllers' caches that failed, by type. While it grows they do not see what changes.",
	}, []string{"type"})
}

// controllerIs reports whether this project or another controller controls an object. Both are false without a
// controller.
func controllerIs(object metav1.Object) (ours, another bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return false, false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	ours = err == nil && gv.Group == apps.Group
	return ours, !ours
}

// podCache keeps own Pods whole, and foreign Pods with a reason in keep. Of the rest podCache keeps only the relevant
// fields: names, labels and claims.
type podCache struct {
	keep   []func(*corev1.Pod) bool
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
	if budgets.NameIn(pod) != "" {
		return budgetedPod(pod), nil
	}
	return strippedPod(pod), nil
}

// budgetedPod is a foreign Pod with a PodUnavailableBudget: budgetedPod also keeps the fields read by budgets.Serving.
func budgetedPod(pod *corev1.Pod) *corev1.Pod {
	out := strippedPod(pod)
	out.Annotations = map[string]string{}
	for _, key := range append(budgets.Annotations(), policy.AnnotationRelatedBudget, policy.AnnotationRelatedBudgetOld, policy.AnnotationOtherBudgets) {
		if value, ok := pod.Annotations[key]; ok {
			out.Annotations[key] = value
		}
	}
	out.Spec.ReadinessGates = pod.Spec.ReadinessGates
	out.Spec.Containers, out.Spec.InitContainers = strippedContainers(pod.Spec.Containers), strippedContainers(pod.Spec.InitContainers)
	out.Status.Conditions, out.Status.ObservedGeneration = pod.Status.Conditions, pod.Status.ObservedGeneration
	out.Status.ContainerStatuses, out.Status.InitContainerStatuses = pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses
	return out
}

// strippedContainers keeps the container fields for comparing a container with its status.
func strippedContainers(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
	}
	return out
}

// strippedWorkload keeps the number of Pods of a Kubernetes workload.
func strippedWorkload(obj any) (any, error) {
	metaOf := func(from metav1.ObjectMeta) metav1.ObjectMeta {
		from.Annotations, from.ManagedFields = nil, nil
		return from
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &appsv1.Deployment{TypeMeta: o.TypeMeta, ObjectMeta: metaOf(o.ObjectMeta), Spec: appsv1.DeploymentSpec{Replicas: o.Spec.Replicas}}, nil
	case *appsv1.ReplicaSet:
		return &appsv1.ReplicaSet{TypeMeta: o.TypeMeta, ObjectMeta: metaOf(o.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas}}, nil
	case *appsv1.DaemonSet:
		out := &appsv1.DaemonSet{TypeMeta: o.TypeMeta, ObjectMeta: metaOf(o.ObjectMeta)}
		out.Status.DesiredNumberScheduled = o.Status.DesiredNumberScheduled
		return out, nil
	}
	return obj, nil
}

// strippedPod is a foreign Pod. Adoption changes the owner reference, so the cache then reads the whole Pod again.
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
	keepRecordable(out, pod)
	return out
}

// keepRecordable keeps the recordable fields of a numbered Pod, and the condition Ready that tells when to record.
func keepRecordable(out, pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || !placements.CanBeTarget(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()) {
		return
	}
	if _, _, numbered := ordinals.ParseName(pod.Name); !numbered {
		return
	}
	out.Annotations = pod.Annotations
	if ready := podstate.Condition(pod, corev1.PodReady); ready != nil {
		out.Status.Conditions = []corev1.PodCondition{*ready}
	}
}

// strippedStatefulSet keeps the wanted Pods of a Kubernetes StatefulSet. Templates and claims would be most of the
// memory.
func strippedStatefulSet(obj any) (any, error) {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return obj, nil
	}
	out := &appsv1.StatefulSet{TypeMeta: set.TypeMeta, ObjectMeta: set.ObjectMeta}
	out.ManagedFields = nil
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	out.Spec.Replicas, out.Spec.Ordinals = set.Spec.Replicas, set.Spec.Ordinals
	return out, nil
}

// strippedNode keeps the fields of a Node for placing Pods. With thousands of Nodes the rest would be most of the
// memory.
func strippedNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	out := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta}
	out.Annotations, out.ManagedFields = nil, nil
	out.Spec.Taints, out.Spec.Unschedulable = node.Spec.Taints, node.Spec.Unschedulable
	out.Status.Allocatable = node.Status.Allocatable
	return out, nil
}

// strippedNamespace keeps the fields of a Namespace for choosing sidecars.
func strippedNamespace(obj any) (any, error) {
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return obj, nil
	}
	out := &corev1.Namespace{TypeMeta: namespace.TypeMeta, ObjectMeta: namespace.ObjectMeta}
	out.Annotations, out.ManagedFields = nil, nil
	return out, nil
}

// keepRevision drops the content of foreign revisions, mostly of StatefulSets and DaemonSets. Revisions without a
// controller keep their content, because a workload may have left such revisions to its successor.
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
