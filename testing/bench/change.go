package bench

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/podstate"
)

// change is a way to change a Pod template. The template after change n differs from the template after change n-1.
type change struct {
	name, about string
	apply       func(template *corev1.PodTemplateSpec, n int)
}

// changes lists the possible changes. The bench does not assume that a change is made in place, but measures whether
// the Pods are kept.
func changes() []change {
	return []change{
		{"image", "the image of one container", func(t *corev1.PodTemplateSpec, n int) { setImages(t.Spec.Containers[:1], n) }},
		{"images", "the images of both containers", func(t *corev1.PodTemplateSpec, n int) { setImages(t.Spec.Containers, n) }},
		{"annotation", "an annotation of the Pods", func(t *corev1.PodTemplateSpec, n int) { t.Annotations["bench.example.com/change"] = strconv.Itoa(n) }},
		{"resources", "the CPU request of one container; kruise-manager keeps Pods only with its gate InPlaceWorkloadVerticalScaling", func(t *corev1.PodTemplateSpec, n int) {
			t.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(10+n), resource.DecimalSI)
		}},
		{"env", "an environment variable, which Pods are recreated for", setEnv},
	}
}

// change returns the change that Options.Change names.
func (o Options) change() change {
	all := changes()
	return all[slices.IndexFunc(all, func(c change) bool { return c.name == o.Change })]
}

// recreating returns a change for which every controller must recreate the Pods.
func recreating() change { return changes()[len(changes())-1] }

func setImages(containers []corev1.Container, n int) {
	for i := range containers {
		containers[i].Image = fmt.Sprintf("example.test/%s:v%d", containers[i].Name, n+1)
	}
}

func setEnv(t *corev1.PodTemplateSpec, n int) {
	t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGE", Value: strconv.Itoa(n)}}
}

// carries reports whether a Pod equals the template in all fields that the changes can change. Labels, hashes of
// revisions and other environment variables are ignored, because the measured manager sets these values itself.
func carries(pod *corev1.Pod, template *corev1.PodTemplateSpec) bool {
	for key, value := range template.Annotations {
		if pod.Annotations[key] != value {
			return false
		}
	}
	for i := range template.Spec.Containers {
		want := &template.Spec.Containers[i]
		have := podstate.Container(pod, want.Name)
		if have == nil || have.Image != want.Image || !hasAll(have.Env, want.Env) ||
			!equality.Semantic.DeepEqual(have.Resources.Requests, want.Resources.Requests) {
			return false
		}
	}
	return true
}

func hasAll(have, want []corev1.EnvVar) bool {
	return !slices.ContainsFunc(want, func(w corev1.EnvVar) bool {
		return !slices.ContainsFunc(have, func(h corev1.EnvVar) bool { return equality.Semantic.DeepEqual(h, w) })
	})
}

// runs reports whether the Pod's containers run the images of its spec.
func runs(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		status := podstate.ContainerStatus(pod, c.Name)
		if status == nil || status.Image != c.Image || status.State.Running == nil {
			return false
		}
	}
	return true
}
