package disruption

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/reason"
)

// Operation is an operation that takes a Pod out of service.
type Operation string

// These operations are named as in OpenKruise's budgets.
const (
	Delete Operation = "DELETE"
	Evict  Operation = "EVICT"
	// Update changes the Pod's spec.
	Update Operation = "UPDATE"
	// Resize changes cpu and memory of running containers without a restart.
	Resize Operation = "RESIZE"
)

// UnknownOperation means that an Operation is none of the constants.
const UnknownOperation reason.Code = "UnknownOperation"

func (o Operation) isKnown() bool { return o.leaves() || o == Update || o == Resize }

// leaves reports whether the operation removes the Pod.
func (o Operation) leaves() bool { return o == Delete || o == Evict }

// OperationOf returns the operation of an update of a Pod: Update or Resize, or none if the spec is unchanged. A resize
// that restarts a container, by its resizePolicy, is an Update. See KEP-1287.
func OperationOf(before, after *corev1.Pod) (Operation, bool) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return "", false
	}
	was, is := before.Spec.DeepCopy(), after.Spec.DeepCopy()
	if restarts(was, is) {
		return Update, true
	}
	for _, spec := range []*corev1.PodSpec{was, is} {
		spec.Resources = nil
		for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				list[i].Resources = withoutResizable(list[i].Resources)
			}
		}
	}
	if equality.Semantic.DeepEqual(was, is) {
		return Resize, true
	}
	return Update, true
}

// restarts reports whether a change of cpu or memory makes the kubelet restart a container.
func restarts(was, is *corev1.PodSpec) bool {
	for _, lists := range [][2][]corev1.Container{{was.InitContainers, is.InitContainers}, {was.Containers, is.Containers}} {
		for i := range lists[1] {
			b := slices.IndexFunc(lists[0], func(c corev1.Container) bool { return c.Name == lists[1][i].Name })
			if b < 0 {
				continue
			}
			for _, policy := range lists[1][i].ResizePolicy {
				if policy.RestartPolicy == corev1.RestartContainer && differs(was, is, &lists[0][b].Resources, &lists[1][i].Resources, policy.ResourceName) {
					return true
				}
			}
		}
	}
	return false
}

// differs reports whether the value of a container's resource, as applied by the kubelet, differs between two versions
// of a Pod.
func differs(was, is *corev1.PodSpec, before, after *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	return !before.Requests.Name(name, "").Equal(*after.Requests.Name(name, "")) || !limit(was, before, name).Equal(limit(is, after, name))
}

// limit returns a container's limit, or the Pod's limit if the container has none (pkg/kubelet/util/util.go,
// GetLimits).
func limit(pod *corev1.PodSpec, container *corev1.ResourceRequirements, name corev1.ResourceName) resource.Quantity {
	own, ok := container.Limits[name]
	if !ok && pod.Resources != nil {
		return pod.Resources.Limits[name]
	}
	return own
}

// withoutResizable returns a container's resources without cpu and memory.
func withoutResizable(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		delete(list, corev1.ResourceCPU)
		delete(list, corev1.ResourceMemory)
	}
	return r
}
