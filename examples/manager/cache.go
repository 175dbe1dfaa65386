package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarterminator"
	"github.com/workloadkit/workloadkit/examples/cronjobs"
	"github.com/workloadkit/workloadkit/examples/distribution"
	"github.com/workloadkit/workloadkit/examples/placements"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
)

// cached says what of each kind of object is kept in memory: whoever may create objects decides how large they are.
func cached(gates map[apps.Gate]bool) (map[client.Object]cache.ByObject, error) {
	keep, err := strangersToKeep(gates)
	if err != nil {
		return nil, err
	}
	pods := &podCache{keep: keep}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                {Transform: pods.transform},
		&appsv1.ControllerRevision{}: {Transform: keepRevision},
		&appsv1.StatefulSet{}:        {Transform: strippedStatefulSet},
		&corev1.Node{}:               {Transform: strippedNode, Field: fields.Everything()}, // they are in no namespace
		&corev1.Namespace{}:          {Transform: strippedNamespace, Field: fields.Everything()},
		// How many Pods there should be, and who controls whom.
		&appsv1.Deployment{}: {Transform: strippedWorkload},
		&appsv1.ReplicaSet{}: {Transform: strippedWorkload},
		&appsv1.DaemonSet{}:  {Transform: strippedWorkload},
		// Of these, metadata alone is watched: no controller keeps anybody's Secrets in memory.
		&corev1.ConfigMap{}: {Transform: distribution.KeepMetadata},
		&corev1.Secret{}:    {Transform: distribution.KeepMetadata},
		&batchv1.Job{}:      {Transform: cronjobs.KeepJob},
	}, nil
}

// strangersToKeep are the reasons for which a Pod that is not controlled from here is kept whole. Most Pods meet none, or soon do no more:
// a Pod whose work is done is stripped with its next event.
func strangersToKeep(gates map[apps.Gate]bool) ([]func(*corev1.Pod) bool, error) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		return nil, err
	}
	return []func(*corev1.Pod) bool{
		order.Needed, // its containers wait to be started
		func(pod *corev1.Pod) bool { // its readiness gate is to be opened
			return podstate.HasGate(pod, apps.ConditionKruisePodReady) && podstate.Condition(pod, apps.ConditionKruisePodReady) == nil
		},
		func(pod *corev1.Pod) bool { // it has sidecars, which may be upgraded
			return pod.Annotations[apps.AnnotationSidecarSetInjected] != ""
		},
		func(pod *corev1.Pod) bool { // its sidecars end with it
			return gates[apps.GateSidecarTerminator] && sidecarterminator.Concerns(pod)
		},
	}, nil
}

// countWatchErrors returns what is told of each list and watch of the caches that fails. While it goes on, the controllers do not see what
// changes: nothing else says so.
func countWatchErrors(registry prometheus.Registerer) (toolscache.WatchErrorHandlerWithContext, error) {
	failures := newCacheMetric()
	if err := registry.Register(failures); err != nil {
		return nil, fmt.Errorf("metric of the caches: %w", err)
	}
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, r, err) // it logs
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

// controllerIs says who controls an object: one of ours, another, or nobody.
func controllerIs(object metav1.Object) (ours, another bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return false, false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	ours = err == nil && gv.Group == apps.Group
	return ours, !ours
}

// podCache keeps the Pods that are controlled from here whole, and others that there is a reason for. Of the rest it keeps what can matter to
// ours: names, labels and claims.
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

// budgetedPod is a Pod that is not controlled from here and has a PodUnavailableBudget: what says whether it serves is kept besides.
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

// strippedContainers is what of containers says whether their Node runs what is asked for.
func strippedContainers(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
	}
	return out
}

// strippedWorkload is what of a workload of Kubernetes says how many Pods it should have.
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

// strippedPod is a Pod that is not controlled from here. A Pod that comes to be is read again, because its owner reference changes it.
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

// keepRecordable keeps of a Pod that has a number what is recorded of it, and whether it is time to do that.
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

// strippedStatefulSet is what of a StatefulSet of Kubernetes says which Pods it wants. Templates and claims would be most of the memory.
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

// strippedNode is what of a Node says which Pods may be on it: of a cluster with thousands the rest would be most of the memory.
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

// strippedNamespace is what of a Namespace says which sidecars its Pods get.
func strippedNamespace(obj any) (any, error) {
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return obj, nil
	}
	out := &corev1.Namespace{TypeMeta: namespace.TypeMeta, ObjectMeta: namespace.ObjectMeta}
	out.Annotations, out.ManagedFields = nil, nil
	return out, nil
}

// keepRevision drops the content of revisions that other controllers have: of StatefulSets and DaemonSets above all. Those of nobody stay,
// because a workload may have left them to its successor.
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
