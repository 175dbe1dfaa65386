package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// Workload is a kind of object that creates Pods, or that changes Pods of other owners. All other code of the package
// handles only Pods.
type Workload struct {
	// Name is shown in figures. Name, Object and List are required.
	Name string
	// AddToScheme registers the Go types of Object and List. AddToScheme is nil if Object and List return unstructured
	// objects.
	AddToScheme func(*runtime.Scheme) error
	// Install creates the CRDs, and waits until the API server serves the CRDs; see package install. Install is nil if
	// every API server has the kind. If [Options.CRDs] is set, the bench installs those CRDs and does not call Install.
	Install func(ctx context.Context, c client.Client) error
	// PerNode is true if an object has a Pod on every Node that fits its template. Then the number of Nodes is the
	// number of Pods of an object. For fewer Pods, the template of the shape has a nodeSelector.
	PerNode bool
	// Pod returns a Pod for an object with the shape, as the API server stores the Pod after admission. The Pod must
	// have the labels of the shape's template. Pod is set for a kind that changes Pods of other owners. Then the
	// bench itself names, creates and deletes the Pods, and leaves out the rollouts that recreate Pods. Pod is nil
	// for a kind that creates Pods itself.
	Pod func(Shape) (*corev1.Pod, error)
	// Object returns the whole object for a shape, in the namespace [Namespace]. In each phase, the bench sends the
	// difference between two such objects.
	Object func(Shape) client.Object
	// List returns an empty list of the kind.
	List func() client.ObjectList
	// Settled reports whether the status of an object shows all Pods of the object with the latest template. Settled is
	// nil for a kind without a status. The bench calls Settled only when the Pods themselves have the latest template.
	Settled func(object client.Object, pods int) bool
}

func (w Workload) validate() error {
	if w.Name == "" || w.Object == nil || w.List == nil {
		return fmt.Errorf("Workload %q: want its Name, Object and List", w.Name)
	}
	return nil
}

// objectLabel is a label on all Pods of a workload object. Its value is the name of the object.
const objectLabel = "bench"

// Namespace is the namespace of all objects and Pods of a run.
const Namespace = metav1.NamespaceDefault

// Shape has the settings that the bench varies in a workload object.
type Shape struct {
	Name string
	Pods int
	// Template is the template of the Pods. The Pods must have the template's labels, because the bench finds the Pods
	// by these labels.
	Template corev1.PodTemplateSpec
	// MaxUnavailable is the limit of unavailable Pods. A kind without such a limit ignores the field.
	MaxUnavailable intstr.IntOrString
}

// of returns the shape of object i out of n objects. The receiver has the numbers of all objects together.
func (s Shape) of(i, n int) Shape {
	s.Name = fmt.Sprintf("%s-%04d", s.Name, i)
	s.Pods = share(s.Pods, i, n)
	s.Template = *s.Template.DeepCopy()
	s.Template.Labels[objectLabel] = s.Name
	return s
}

// object returns object i of n for a shape.
func (o Options) object(s Shape, i, n int) client.Object {
	s = s.of(i, n)
	if o.Workload.PerNode && s.Pods < o.nodes() {
		node := "none"
		if s.Pods == 1 {
			node = controlplane.FirstNode
		}
		s.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return o.Workload.Object(s)
}

// share returns the number of object i if a total is divided evenly among n objects.
func share(total, i, n int) int {
	if i < total%n {
		return total/n + 1
	}
	return total / n
}

// Selector selects the Pods of the object.
func (s Shape) Selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{objectLabel: s.Name}}
}

// newTemplate returns the first Pod template, the same for every kind: two containers, with resource requests that a
// change can raise.
func newTemplate(o Options) corev1.PodTemplateSpec {
	requests := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "example.test/" + name + ":v1",
			Resources: corev1.ResourceRequirements{Requests: requests.DeepCopy()},
		}
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:                    []corev1.Container{container("app"), container("log")},
		},
	}
	if o.StartDelay > 0 {
		template.Annotations[controlplane.StartDelay] = o.StartDelay.String()
	}
	return template
}
