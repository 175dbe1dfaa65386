package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/cli/foresee"
)

// page is the number of objects that a request reads.
const page = 500

// reader reads the objects for the copy of the cluster.
type reader struct {
	objects dynamic.Interface
	mapper  meta.RESTMapper
	manager string // namespace of the manager
	pods    []*corev1.Pod
	unread  []string
}

func newReader(f cmdutil.Factory, manager string) (*reader, error) {
	objects, err := f.DynamicClient()
	if err != nil {
		return nil, err
	}
	mapper, err := f.ToRESTMapper()
	return &reader{objects: objects, mapper: mapper, manager: manager}, err
}

// wanted is a kind to read. If required is true, a failed read is an error. Otherwise consequence says which part of
// the preview is unknown without the kind.
type wanted struct {
	kind        schema.GroupKind
	namespace   string
	required    bool
	consequence string
	made        func() client.Object
}

// read returns the objects around the changed object.
func (r *reader) read(ctx context.Context, changed *unstructured.Unstructured) (out []client.Object, err error) {
	namespace := changed.GetNamespace()
	kruise := func(kind string) schema.GroupKind { return schema.GroupKind{Group: facts.AppsGroup, Kind: kind} }
	all := []wanted{
		{schema.GroupKind{Kind: "Pod"}, namespace, true, "", func() client.Object { return &corev1.Pod{} }},
		{schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}, namespace, true, "", func() client.Object { return &appsv1.ControllerRevision{} }},
		{schema.GroupKind{Kind: "PersistentVolumeClaim"}, namespace, false, "claims are taken for missing, so all claims seem to be created", func() client.Object { return &corev1.PersistentVolumeClaim{} }},
		{schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, "", false, "claims are taken for claims that cannot grow", func() client.Object { return &storagev1.StorageClass{} }},
		{schema.GroupKind{Kind: "Node"}, "", false, "a new Pod is taken to find a place, and a DaemonSet is taken to have no other Nodes", func() client.Object { return &corev1.Node{} }},
		{schema.GroupKind{Kind: "Namespace"}, "", false, "SidecarSets that select namespaces by labels are taken not to select", func() client.Object { return &corev1.Namespace{} }},
		{schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, namespace, false, "budgets do not know how many Pods of Deployments there should be", func() client.Object { return &appsv1.ReplicaSet{} }},
		{schema.GroupKind{Group: "apps", Kind: "Deployment"}, namespace, false, "budgets do not know how many Pods of Deployments there should be", func() client.Object { return &appsv1.Deployment{} }},
		{kruise("CloneSet"), namespace, false, "other CloneSets are taken for missing", nil},
		{kruise("StatefulSet"), namespace, false, "other StatefulSets are taken for missing", nil},
		{kruise("DaemonSet"), namespace, false, "other DaemonSets are taken for missing", nil},
		{kruise("SidecarSet"), "", false, "new Pods are taken to get no sidecars", nil},
		{schema.GroupKind{Group: facts.PolicyGroup, Kind: "PodUnavailableBudget"}, namespace, false, "no budget is taken to hold Pods", nil},
	}
	if namespace != r.manager && namespace != "" {
		all = append(all, wanted{schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}, r.manager, false, "SidecarSets are taken to have no history", func() client.Object { return &appsv1.ControllerRevision{} }})
	}
	for i := range all {
		found, err := r.list(ctx, &all[i])
		switch {
		case err == nil:
			out = append(out, found...)
		case meta.IsNoMatchError(err):
		case all[i].required || !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("reading %s: %w", all[i].kind, err)
		default:
			r.miss(all[i].kind.Kind, all[i].consequence, err)
		}
	}
	return out, nil
}

// miss records a kind that could not be read, and the consequence for the preview.
func (r *reader) miss(kind, consequence string, err error) {
	plural := kind + "s"
	if strings.HasSuffix(kind, "s") {
		plural = kind + "es"
	}
	r.unread = append(r.unread, fmt.Sprintf("%s: %s (%v)", plural, consequence, err))
}

// webhooks reports whether the API server calls webhooks of apps.kruise.io for new and changed objects.
func (r *reader) webhooks(ctx context.Context) (bool, error) {
	w := wanted{kind: schema.GroupKind{Group: admissionregistrationv1.GroupName, Kind: "MutatingWebhookConfiguration"}}
	w.made = func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} }
	found, err := r.list(ctx, &w)
	if apierrors.IsForbidden(err) {
		r.miss(w.kind.Kind, "the webhooks are taken to be installed", err)
		return true, nil
	}
	for _, object := range found {
		configuration, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration)
		if !ok {
			continue
		}
		for i := range configuration.Webhooks {
			for j := range configuration.Webhooks[i].Rules {
				if slices.Contains(configuration.Webhooks[i].Rules[j].APIGroups, facts.AppsGroup) {
					return true, nil
				}
			}
		}
	}
	return false, err
}

// list reads all objects of a kind, page by page.
func (r *reader) list(ctx context.Context, w *wanted) (out []client.Object, err error) {
	mapping, err := r.mapper.RESTMapping(w.kind)
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := r.objects.Resource(mapping.Resource).Namespace(w.namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			object, err := typed(w, &list.Items[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list.Items[i].GetName(), err)
			}
			if pod, ok := object.(*corev1.Pod); ok {
				r.pods = append(r.pods, pod)
			}
			list.Items[i].Object = nil
			out = append(out, object)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}

// typed decodes an object into its Go type. An object of apps.kruise.io is converted to the stored version.
func typed(w *wanted, u *unstructured.Unstructured) (client.Object, error) {
	u.SetManagedFields(nil)
	raw, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	if w.made != nil {
		object := w.made()
		return object, json.Unmarshal(raw, object)
	}
	for _, row := range foresee.Rows() {
		if row.Kind.GroupKind() == w.kind {
			return foresee.Hub(&row, raw)
		}
	}
	return nil, foresee.ErrUnknownKind
}

// times returns the measured times of a workload's Pods, or of the Pods with the sidecars of a SidecarSet.
func (r *reader) times(stored *unstructured.Unstructured) forecast.Times {
	if stored == nil {
		return forecast.Times{}
	}
	var own []*corev1.Pod
	for _, pod := range r.pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref != nil && ref.UID == stored.GetUID() || stored.GetKind() == "SidecarSet" && pod.Annotations[apps.AnnotationSidecarSetInjected] != "" {
			own = append(own, pod)
		}
	}
	return forecast.Measure(own)
}
