package why

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/cause"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// reader reads the objects that cause.Of needs.
type reader struct {
	clients kubernetes.Interface
	objects dynamic.Interface
	mapper  meta.RESTMapper
	// parents are the controllers read before, by UID. A nil entry is a controller that does not exist, or that the
	// user may not read.
	parents map[types.UID]*unstructured.Unstructured
}

// between reports whether objects of a kind, such as ReplicaSets, control Pods and can have a controller themselves.
func between(gk schema.GroupKind) bool {
	switch gk {
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Group: facts.AppsGroup, Kind: "BroadcastJob"},
		schema.GroupKind{Group: facts.AppsGroup, Kind: "CloneSet"}, schema.GroupKind{Group: facts.AppsGroup, Kind: "StatefulSet"}:
		return true
	}
	return false
}

func newReader(f cmdutil.Factory) (*reader, error) {
	clients, err := f.KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	objects, err := f.DynamicClient()
	if err != nil {
		return nil, err
	}
	mapper, err := f.ToRESTMapper()
	return &reader{clients: clients, objects: objects, mapper: mapper, parents: map[types.UID]*unstructured.Unstructured{}}, err
}

// facts reads the objects related to an object. unread names the objects that cannot be read.
func (r *reader) facts(ctx context.Context, u *unstructured.Unstructured, now time.Time) (f cause.Facts, unread []string) {
	f = cause.Facts{Object: u, Now: now}
	note := func(what string, err error) {
		if err != nil && !meta.IsNoMatchError(err) {
			unread = append(unread, fmt.Sprintf("%s: %v", what, err))
		}
	}
	err := r.readPods(ctx, &f)
	note("Pods", err)
	f.IsPodsUnread = err != nil
	events, err := r.clients.CoreV1().Events(u.GetNamespace()).List(ctx, metav1.ListOptions{})
	if note("Events", err); err == nil {
		f.Events = events.Items
	}
	note("Nodes", r.readNodes(ctx, &f))
	if u.GetKind() == "Pod" {
		note("PodDisruptionBudgets", r.readDisruptions(ctx, &f))
		f.Budgets, err = r.list(ctx, schema.GroupKind{Group: facts.PolicyGroup, Kind: "PodUnavailableBudget"}, u.GetNamespace())
		note("PodUnavailableBudgets", err)
		note("SidecarSets", r.readSidecarSets(ctx, &f))
	}
	if !f.IsPodsUnread {
		note("creation of a Pod, tried without effect", r.tryCreation(ctx, &f))
	}
	return f, unread
}

func (r *reader) readDisruptions(ctx context.Context, f *cause.Facts) error {
	budgets, err := r.clients.PolicyV1().PodDisruptionBudgets(f.Object.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err == nil {
		f.Disruptions = budgets.Items
	}
	return err
}

// readNodes reads the Nodes of the Pods.
func (r *reader) readNodes(ctx context.Context, f *cause.Facts) error {
	names := map[string]bool{}
	for i := range f.Pods {
		name := f.Pods[i].Spec.NodeName
		isFine := f.Object.GetKind() != "Pod" && cause.InService(&f.Pods[i])
		if name == "" || names[name] || isFine {
			continue
		}
		names[name] = true
		node, err := r.clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		f.Nodes = append(f.Nodes, *node)
	}
	f.IsNodesRead = true
	return nil
}

// readPods reads the Pod in question with its controller, or the Pods of a workload or job.
func (r *reader) readPods(ctx context.Context, f *cause.Facts) error {
	u := f.Object
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		pod := corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
			return err
		}
		f.Pods = []corev1.Pod{pod}
		owner, err := r.parent(ctx, u.GetNamespace(), metav1.GetControllerOf(u))
		f.Owner = owner
		return err
	case schema.GroupKind{Group: facts.AppsGroup, Kind: "ContainerRecreateRequest"}:
		pod, err := r.clients.CoreV1().Pods(u.GetNamespace()).Get(ctx, fields.String(u.Object, "spec.podName"), metav1.GetOptions{})
		if err == nil {
			f.Pods = []corev1.Pod{*pod}
		}
		return err
	case schema.GroupKind{Group: facts.AppsGroup, Kind: "ImagePullJob"}:
		images, err := r.list(ctx, schema.GroupKind{Group: facts.AppsGroup, Kind: "NodeImage"}, "")
		f.NodeImages = images
		return err
	}
	all, err := r.clients.CoreV1().Pods(u.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		belongs, err := r.belongs(ctx, &all.Items[i], u)
		if err != nil {
			return err
		}
		if belongs {
			f.Pods = append(f.Pods, all.Items[i])
		}
	}
	return nil
}

// deepest is the largest number of controllers followed from a Pod. The longest usual chain has fewer levels: a
// schedule, its job, and a Pod.
const deepest = 4

// belongs reports whether a Pod belongs to an object. A Pod belongs to a workload that controls the Pod directly or
// through other controllers, to a SidecarSet with its sidecars in the Pod, and to an EphemeralJob that selects the
// Pod.
func (r *reader) belongs(ctx context.Context, pod *corev1.Pod, u *unstructured.Unstructured) (bool, error) {
	switch u.GetKind() {
	case "EphemeralJob":
		return cause.Selects(u.Object, pod.Labels), nil
	case "SidecarSet":
		return slices.Contains(splitList(pod.Annotations[apps.AnnotationSidecarSetInjected]), u.GetName()), nil
	}
	ref := metav1.GetControllerOf(pod)
	for range deepest {
		if ref == nil || ref.UID == u.GetUID() {
			return ref != nil, nil
		}
		if !between(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()) {
			return false, nil
		}
		parent, err := r.parent(ctx, pod.Namespace, ref)
		if err != nil || parent == nil {
			return false, err
		}
		ref = metav1.GetControllerOf(parent)
	}
	return false, nil
}

// parent reads the controller that a reference names; nil if the controller does not exist.
func (r *reader) parent(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*unstructured.Unstructured, error) {
	if ref == nil {
		return nil, nil
	}
	if known, read := r.parents[ref.UID]; read {
		return known, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = r.mapper.RESTMapping(gvk.GroupKind())
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	parent, err := r.objects.Resource(mapping.Resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	// A Pod whose controller the user may not read does not count as a Pod of the object in question.
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && parent.GetUID() != ref.UID {
		parent, err = nil, nil
	}
	if err == nil {
		r.parents[ref.UID] = parent
	}
	return parent, err
}

// list returns all objects of a kind in a namespace, or of a cluster-wide kind.
func (r *reader) list(ctx context.Context, gk schema.GroupKind, namespace string) ([]unstructured.Unstructured, error) {
	mapping, err := r.mapper.RESTMapping(gk)
	if err != nil {
		return nil, err
	}
	list, err := r.objects.Resource(mapping.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// readSidecarSets reads the SidecarSets that select the Pod's namespace.
func (r *reader) readSidecarSets(ctx context.Context, f *cause.Facts) error {
	sets, err := r.list(ctx, schema.GroupKind{Group: facts.AppsGroup, Kind: "SidecarSet"}, "")
	if err != nil {
		return err
	}
	namespace, err := r.clients.CoreV1().Namespaces().Get(ctx, f.Object.GetNamespace(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range sets {
		only := fields.String(sets[i].Object, "spec.namespace")
		if (only == "" || only == namespace.Name) && cause.SelectsNamespace(sets[i].Object, namespace.Labels) {
			f.SidecarSets = append(f.SidecarSets, sets[i])
		}
	}
	return nil
}
