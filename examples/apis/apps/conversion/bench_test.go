package conversion_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// benchmarked returns the metadata and the Pod template of the benchmarks' v1alpha1 objects, with a template of usual
// size.
func benchmarked() (metav1.ObjectMeta, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": "web", "team": "shop", "tier": "front"}
	container := corev1.Container{
		Name: "web", Image: "registry.example.com/shop/web:1.25.3", Command: []string{"/bin/web", "--port=8080", "--verbose"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Env:   []corev1.EnvVar{{Name: "REGION", Value: "west"}, {Name: "LEVEL", Value: "info"}, {Name: "CACHE", Value: "redis:6379"}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)},
		}},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}, {Name: "data", MountPath: "/var/lib/web"}},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	template.Spec.Containers = []corev1.Container{container, container}
	return metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: labels, Annotations: map[string]string{"owner": "shop"}}, template
}

func benchmarkedCloneSet() *v1alpha1.CloneSet {
	obj := &v1alpha1.CloneSet{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CloneSet"))
	obj.ObjectMeta, obj.Spec.Template = benchmarked()
	obj.Annotations[apps.AnnotationImagePreDownloadParallelism] = "5"
	obj.Spec.UpdateStrategy = v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible, Partition: ptr(intstr.FromString("20%"))}
	return obj
}

func benchmarkedStatefulSet() *v1beta1.StatefulSet {
	obj := &v1beta1.StatefulSet{}
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("StatefulSet"))
	obj.ObjectMeta, obj.Spec.Template = benchmarked()
	obj.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(1)}
	return obj
}

func BenchmarkJSON(b *testing.B) {
	for name, run := range map[string]struct {
		object  any
		version string
	}{
		"CloneSet": {benchmarkedCloneSet(), "apps.kruise.io/v1beta1"}, "StatefulSet": {benchmarkedStatefulSet(), "apps.kruise.io/v1alpha1"},
	} {
		b.Run(name, func(b *testing.B) {
			object, err := json.Marshal(run.object)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := conversion.JSON(object, run.version); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
