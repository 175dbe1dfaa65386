package seams

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// Templates returns the Pod templates of a typed object of OpenKruise; known is false for other objects. For a
// UnitedDeployment and an AdvancedCronJob, this is the template of the workload that the object creates.
func Templates(object runtime.Object) (templates []*corev1.PodTemplateSpec, known bool) {
	switch o := object.(type) {
	case *v1beta1.CloneSet:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1alpha1.CloneSet:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1beta1.StatefulSet:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1alpha1.StatefulSet:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1beta1.DaemonSet:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1alpha1.DaemonSet:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1beta1.BroadcastJob:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	case *v1alpha1.BroadcastJob:
		return []*corev1.PodTemplateSpec{&o.Spec.Template}, true
	}
	return innerTemplates(object)
}

// innerTemplates returns the Pod templates of kinds that create workloads.
func innerTemplates(object runtime.Object) (list []*corev1.PodTemplateSpec, known bool) {
	switch o := object.(type) {
	case *v1beta1.UnitedDeployment:
		t := &o.Spec.Template
		if t.CloneSetTemplate != nil {
			list = append(list, &t.CloneSetTemplate.Spec.Template)
		}
		return append(list, otherSubsetTemplates(t.AdvancedStatefulSetTemplate, t.StatefulSetTemplate, t.DeploymentTemplate)...), true
	case *v1alpha1.UnitedDeployment:
		t := &o.Spec.Template
		if t.CloneSetTemplate != nil {
			list = append(list, &t.CloneSetTemplate.Spec.Template)
		}
		return append(list, otherSubsetTemplates(t.AdvancedStatefulSetTemplate, t.StatefulSetTemplate, t.DeploymentTemplate)...), true
	case *v1beta1.AdvancedCronJob:
		if t := &o.Spec.Template; t.JobTemplate != nil {
			list = append(list, &t.JobTemplate.Spec.Template)
		}
		return append(list, broadcastTemplate(o.Spec.Template.BroadcastJobTemplate)...), true
	case *v1alpha1.AdvancedCronJob:
		if t := &o.Spec.Template; t.JobTemplate != nil {
			list = append(list, &t.JobTemplate.Spec.Template)
		}
		return append(list, broadcastTemplate(o.Spec.Template.BroadcastJobTemplate)...), true
	}
	return nil, false
}

func otherSubsetTemplates(
	advanced *v1beta1.AdvancedStatefulSetTemplateSpec, native *v1beta1.StatefulSetTemplateSpec, deployment *v1beta1.DeploymentTemplateSpec,
) (list []*corev1.PodTemplateSpec) {
	if advanced != nil {
		list = append(list, &advanced.Spec.Template)
	}
	if native != nil {
		list = append(list, &native.Spec.Template)
	}
	if deployment != nil {
		list = append(list, &deployment.Spec.Template)
	}
	return list
}

func broadcastTemplate(t *v1beta1.BroadcastJobTemplateSpec) []*corev1.PodTemplateSpec {
	if t == nil {
		return nil
	}
	return []*corev1.PodTemplateSpec{&t.Spec.Template}
}

// UpdatePodSpec calls change with the Pod specs in a typed object of OpenKruise; known is false for other objects.
// For a SidecarSet, change gets a Pod spec with the sidecar containers.
func UpdatePodSpec(object runtime.Object, change func(*corev1.PodSpec) error) (known bool, err error) {
	switch o := object.(type) {
	case *v1beta1.SidecarSet:
		return true, updateSidecars(o.Spec.InitContainers, o.Spec.Containers, change)
	case *v1alpha1.SidecarSet:
		return true, updateSidecars(o.Spec.InitContainers, o.Spec.Containers, change)
	}
	templates, known := Templates(object)
	for _, template := range templates {
		if err := change(&template.Spec); err != nil {
			return true, err
		}
	}
	return known, nil
}

// updateSidecars calls change with a Pod spec that contains the sidecars. Sidecars are never added or removed.
func updateSidecars(initContainers, containers []pub.SidecarContainer, change func(*corev1.PodSpec) error) error {
	spec := &corev1.PodSpec{}
	for i := range initContainers {
		spec.InitContainers = append(spec.InitContainers, initContainers[i].Container)
	}
	for i := range containers {
		spec.Containers = append(spec.Containers, containers[i].Container)
	}
	if err := change(spec); err != nil {
		return err
	}
	if len(spec.InitContainers) != len(initContainers) || len(spec.Containers) != len(containers) {
		return fmt.Errorf("the command adds or removes containers of a SidecarSet")
	}
	for i := range initContainers {
		initContainers[i].Container = spec.InitContainers[i]
	}
	for i := range containers {
		containers[i].Container = spec.Containers[i]
	}
	return nil
}

// standIn returns a Deployment with the same selector and template for a workload of OpenKruise, because kubectl's
// functions read the selector, the ports and the protocols only from kinds of Kubernetes. Other objects are returned
// as given.
func standIn(object runtime.Object) runtime.Object {
	var selector *metav1.LabelSelector
	var meta metav1.ObjectMeta
	switch o := object.(type) {
	case *v1beta1.CloneSet:
		selector, meta = o.Spec.Selector, o.ObjectMeta
	case *v1alpha1.CloneSet:
		selector, meta = o.Spec.Selector, o.ObjectMeta
	case *v1beta1.StatefulSet:
		selector, meta = o.Spec.Selector, o.ObjectMeta
	case *v1alpha1.StatefulSet:
		selector, meta = o.Spec.Selector, o.ObjectMeta
	case *v1beta1.DaemonSet:
		selector, meta = o.Spec.Selector, o.ObjectMeta
	case *v1alpha1.DaemonSet:
		selector, meta = o.Spec.Selector, o.ObjectMeta
	default:
		return object
	}
	templates, _ := Templates(object)
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: *templates[0]}}
}
