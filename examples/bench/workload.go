package main

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

// workload is a kind of object that keeps Pods. Each is described in a file of its own and listed in workloads; the rest of this
// command knows Pods alone.
type workload struct {
	name  string // of --workload
	about string
	// install creates the CRDs, unless others are given by --crds.
	install func(ctx context.Context, c client.Client) error
	// object returns the whole object for a shape. Phases send the difference between two of them.
	object func(s shape) client.Object
	list   func() client.ObjectList
	// settled says whether the status of an object as read tells that all of its Pods run the latest template. Nil is for a
	// kind without status. It is asked only once the Pods themselves say so.
	settled func(object client.Object, pods int) bool
}

// workloads lists the kinds that can be measured.
func workloads() []workload { return []workload{cloneSet(), fleet()} }

// objectLabel is the label by which Pods of a workload object are known; its value is the name of the object.
const objectLabel = "bench"

const namespace = metav1.NamespaceDefault

// shape is what a workload object shall be.
type shape struct {
	name           string
	pods           int
	template       corev1.PodTemplateSpec
	maxUnavailable intstr.IntOrString
}

// of returns the part of the object i of n of a shape that stands for all of them.
func (s shape) of(i, n int) shape {
	s.name = fmt.Sprintf("%s-%04d", s.name, i)
	s.pods = share(s.pods, i, n)
	s.template = *s.template.DeepCopy()
	s.template.Labels[objectLabel] = s.name
	return s
}

// share spreads a total over n evenly.
func share(total, i, n int) int {
	if i < total%n {
		return total/n + 1
	}
	return total / n
}

// selector selects the Pods of the object.
func (s shape) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{objectLabel: s.name}}
}

// newTemplate returns the template that every kind starts with: two containers, with requests that a change can raise.
func newTemplate(o options) corev1.PodTemplateSpec {
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
	if o.startDelay > 0 {
		template.Annotations[controlplane.StartDelay] = o.startDelay.String()
	}
	return template
}

// asMap is a template for kinds without a Go type here.
func asMap(template *corev1.PodTemplateSpec) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		panic(err) // the type of the argument is known
	}
	return out
}
