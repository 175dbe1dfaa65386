package seams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/describe"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// ErrNoRevision means that the history does not contain a revision.
var ErrNoRevision = errors.New("unable to find the specified revision")

// historyViewer returns the viewer of a kind: kubectl's for kinds of Kubernetes, [Viewer] for kinds of OpenKruise.
func historyViewer(getter genericclioptions.RESTClientGetter, mapping *meta.RESTMapping) (polymorphichelpers.HistoryViewer, error) {
	config, err := getter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if mapping.GroupVersionKind.Group != facts.AppsGroup {
		return polymorphichelpers.HistoryViewerFor(mapping.GroupVersionKind.GroupKind(), clients)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Viewer{Clients: clients, Objects: objects.Resource(mapping.Resource)}, nil
}

// Viewer reads the history of objects of a kind of OpenKruise from the ControllerRevisions that the object controls.
type Viewer struct {
	Clients kubernetes.Interface
	// Objects reads the objects of the kind.
	Objects dynamic.NamespaceableResourceInterface
}

// Revisions returns the ControllerRevisions controlled by an owner, oldest first. An empty namespace means all
// namespaces: the revisions of cluster-scoped kinds, such as SidecarSet, are in the manager's namespace.
func Revisions(ctx context.Context, clients kubernetes.Interface, namespace string, owner types.UID) ([]appsv1.ControllerRevision, error) {
	all, err := clients.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	revisions := slices.DeleteFunc(all.Items, func(r appsv1.ControllerRevision) bool {
		controller := metav1.GetControllerOfNoCopy(&r)
		return controller == nil || controller.UID != owner
	})
	slices.SortFunc(revisions, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return revisions, nil
}

func (v *Viewer) read(namespace, name string) (*unstructured.Unstructured, []appsv1.ControllerRevision, error) {
	ctx := context.Background() //nolint:forbidigo // the interface of kubectl passes no context
	object, err := v.Objects.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	revisions, err := Revisions(ctx, v.Clients, namespace, object.GetUID())
	return object, revisions, err
}

// ViewHistory returns a table of revisions with their causes, or the Pod template of a revision above 0.
func (v *Viewer) ViewHistory(namespace, name string, revision int64) (string, error) {
	object, revisions, err := v.read(namespace, name)
	switch {
	case err != nil:
		return "", err
	case len(revisions) == 0:
		return "No rollout history found.", nil
	case revision > 0:
		for i := range revisions {
			if revisions[i].Revision == revision {
				return TemplateAt(object, &revisions[i])
			}
		}
		return "", ErrNoRevision
	}
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "REVISION\tCHANGE-CAUSE")
	for i := range revisions {
		cause := revisions[i].Annotations[polymorphichelpers.ChangeCauseAnnotation]
		if cause == "" {
			cause = "<none>"
		}
		fmt.Fprintf(table, "%s\t%s\n", strconv.FormatInt(revisions[i].Revision, 10), cause)
	}
	err = table.Flush()
	return out.String(), err
}

// GetHistory returns the state of the object at each revision.
func (v *Viewer) GetHistory(namespace, name string) (map[int64]runtime.Object, error) {
	object, revisions, err := v.read(namespace, name)
	if err != nil {
		return nil, err
	}
	history := map[int64]runtime.Object{}
	for i := range revisions {
		then := object.DeepCopy()
		if err := Restore(then, &revisions[i]); err != nil {
			return nil, err
		}
		history[revisions[i].Revision] = then
	}
	return history, nil
}

// Restore sets an object back to a revision. Each part of the spec in the revision replaces the object's part
// completely, so labels and annotations added later to the template are removed. Other parts of the spec stay.
func Restore(object *unstructured.Unstructured, revision *appsv1.ControllerRevision) error {
	data := fields.Object{}
	if err := utiljson.Unmarshal(revision.Data.Raw, &data); err != nil { // unlike encoding/json, utiljson keeps integers
		return fmt.Errorf("revision %s: %w", revision.Name, err)
	}
	parts, _ := data["spec"].(fields.Object)
	if len(parts) == 0 {
		return fmt.Errorf("revision %s: the data has no spec", revision.Name)
	}
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return fmt.Errorf("%s: %w", object.GetName(), err)
	}
	if spec == nil {
		spec = fields.Object{}
	}
	for name, value := range parts {
		if name == "$patch" {
			continue
		}
		if part, ok := value.(fields.Object); ok {
			delete(part, "$patch")
		}
		spec[name] = value
	}
	object.Object["spec"] = spec
	return nil
}

// TemplateAt returns the Pod templates of an object at a revision, in the format of "kubectl describe".
func TemplateAt(object *unstructured.Unstructured, revision *appsv1.ControllerRevision) (string, error) {
	then := object.DeepCopy()
	if err := Restore(then, revision); err != nil {
		return "", err
	}
	var out bytes.Buffer
	for _, template := range templatesOf(then.Object) {
		describe.DescribePodTemplate(template, describe.NewPrefixWriter(&out))
	}
	return out.String(), nil
}

// templatesOf decodes the Pod templates of an object. The containers of a SidecarSet are returned as a Pod template.
func templatesOf(o fields.Object) (list []*corev1.PodTemplateSpec) {
	sources := []fields.Object{}
	for _, path := range facts.Templates(o) {
		value, _ := fields.At(o, path)
		if template, ok := value.(fields.Object); ok {
			sources = append(sources, template)
		}
	}
	if containers, isSidecarSet := fields.At(o, "spec.containers"); isSidecarSet {
		sources = append(sources, fields.Object{"spec": fields.Object{"containers": containers}})
	}
	for _, source := range sources {
		raw, err := json.Marshal(source)
		template := &corev1.PodTemplateSpec{}
		if err == nil && json.Unmarshal(raw, template) == nil {
			list = append(list, template)
		}
	}
	return list
}
