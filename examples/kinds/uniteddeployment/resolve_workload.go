package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// workload is an object of one of the four workload kinds.
type workload interface {
	metav1.Object
	runtime.Object
}

// template is a workload template in the form of a workload without a name.
type template struct {
	name     string // name of the field in the spec
	workload workload
	reserves bool // true if Pods of the kind can be reserved
}

// templatesOf returns the templates that are set; a valid spec sets exactly one.
func templatesOf(t *v1beta1.SubsetTemplate) (found []template) {
	meta := func(from *metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: maps.Clone(from.Labels), Annotations: maps.Clone(from.Annotations)}
	}
	if t := t.StatefulSetTemplate; t != nil {
		found = append(found, template{"statefulSetTemplate", &appsv1.StatefulSet{ObjectMeta: meta(&t.ObjectMeta), Spec: *t.Spec.DeepCopy()}, false})
	}
	if t := t.AdvancedStatefulSetTemplate; t != nil {
		found = append(found, template{"advancedStatefulSetTemplate", &v1beta1.StatefulSet{ObjectMeta: meta(&t.ObjectMeta), Spec: *t.Spec.DeepCopy()}, false})
	}
	if t := t.CloneSetTemplate; t != nil {
		found = append(found, template{"cloneSetTemplate", &v1beta1.CloneSet{ObjectMeta: meta(&t.ObjectMeta), Spec: *t.Spec.DeepCopy()}, true})
	}
	if t := t.DeploymentTemplate; t != nil {
		found = append(found, template{"deploymentTemplate", &appsv1.Deployment{ObjectMeta: meta(&t.ObjectMeta), Spec: *t.Spec.DeepCopy()}, true})
	}
	return found
}

// numbers are the fields of a workload that depend on the division of the replicas. A number that is nil is not
// written.
type numbers struct {
	replicas int32
	// kept is the partition: the number of Pods that stay at an older revision.
	kept *int32
	// unavailable is the maxUnavailable, and is written only while Pods of the subset are reserved.
	unavailable *intstr.IntOrString
}

// parts are the fields of a workload that the controller reads or sets. The pointers point into the workload.
type parts struct {
	numbers

	spec     any
	own      **int32 // the field replicas
	selector **metav1.LabelSelector
	pod      *corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim

	pods, ready int32
	// outdated is the number of Pods that the workload has not updated yet. isStale is true if the workload's status
	// is older than the spec. isPaused is true if updates are paused.
	outdated          int32
	isStale, isPaused bool
	failure           string
}

// partsOf returns the fields of a workload that the controller reads or sets. Only partsOf and setNumbers depend on
// the workload's kind.
func partsOf(w workload) (p parts) {
	switch w := w.(type) {
	case *appsv1.Deployment:
		rolling := ptr.Deref(w.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		p = parts{own: &w.Spec.Replicas, selector: &w.Spec.Selector, pod: &w.Spec.Template, spec: &w.Spec, pods: w.Status.Replicas, ready: w.Status.ReadyReplicas}
		p.unavailable, p.isPaused = rolling.MaxUnavailable, w.Spec.Paused
		p.outdated, p.isStale = w.Status.Replicas-w.Status.UpdatedReplicas, w.Status.ObservedGeneration < w.Generation
		for _, c := range w.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				p.failure = c.Message
			}
		}
	case *appsv1.StatefulSet:
		rolling := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		p = parts{own: &w.Spec.Replicas, selector: &w.Spec.Selector, pod: &w.Spec.Template, spec: &w.Spec, pods: w.Status.Replicas, ready: w.Status.ReadyReplicas}
		p.kept, p.claims = rolling.Partition, w.Spec.VolumeClaimTemplates
		p.outdated, p.isStale = w.Status.Replicas-w.Status.UpdatedReplicas, w.Status.ObservedGeneration < w.Generation
	case *v1beta1.StatefulSet:
		rolling := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{})
		p = parts{own: &w.Spec.Replicas, selector: &w.Spec.Selector, pod: &w.Spec.Template, spec: &w.Spec, pods: w.Status.Replicas, ready: w.Status.ReadyReplicas}
		p.kept, p.claims, p.isPaused = rolling.Partition, w.Spec.VolumeClaimTemplates, rolling.Paused
		p.outdated, p.isStale = w.Status.Replicas-w.Status.UpdatedReplicas, w.Status.ObservedGeneration < w.Generation
		p.failure = failureIn(w.Status.Conditions, apps.ConditionFailedCreatePod, apps.ConditionFailedUpdatePod)
	case *v1beta1.CloneSet:
		rolling := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
		p = parts{own: &w.Spec.Replicas, selector: &w.Spec.Selector, pod: &w.Spec.Template, spec: &w.Spec, pods: w.Status.Replicas, ready: w.Status.ReadyReplicas}
		p.unavailable, p.claims, p.isPaused = rolling.MaxUnavailable, w.Spec.VolumeClaimTemplates, rolling.Paused
		p.outdated, p.isStale = w.Status.Replicas-w.Status.UpdatedReplicas, w.Status.ObservedGeneration < w.Generation
		p.failure = failureIn(w.Status.Conditions, apps.ConditionFailedScale, apps.ConditionFailedUpdate)
		if kept := rolling.Partition; kept != nil && kept.Type == intstr.Int {
			p.kept = &kept.IntVal
		}
	}
	if p.own != nil {
		p.replicas = ptr.Deref(*p.own, 1)
	}
	return p
}

func failureIn(conditions v1beta1.Conditions, names ...string) string {
	for _, name := range names {
		if c := conditions.Find(name); c != nil && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// setNumbers writes numbers into a workload, and returns the numbers that the workload's strategy uses.
func setNumbers(w workload, n numbers) numbers {
	switch w := w.(type) {
	case *appsv1.Deployment:
		w.Spec.Replicas, n.kept = &n.replicas, nil
		if w.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			n.unavailable = nil
		} else if n.unavailable != nil {
			filled(&w.Spec.Strategy.RollingUpdate).MaxUnavailable = n.unavailable
		}
	case *appsv1.StatefulSet:
		w.Spec.Replicas, n.unavailable = &n.replicas, nil
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			n.kept = nil
		} else if n.kept != nil {
			filled(&w.Spec.UpdateStrategy.RollingUpdate).Partition = n.kept
		}
	case *v1beta1.StatefulSet:
		w.Spec.Replicas, n.unavailable = &n.replicas, nil
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			n.kept = nil
		} else if n.kept != nil {
			filled(&w.Spec.UpdateStrategy.RollingUpdate).Partition = n.kept
		}
	case *v1beta1.CloneSet:
		if w.Spec.Replicas = &n.replicas; w.Spec.UpdateStrategy.Type == v1beta1.OnDelete {
			n.kept, n.unavailable = nil, nil
			break
		}
		rolling := filled(&w.Spec.UpdateStrategy.RollingUpdate)
		if n.kept != nil {
			rolling.Partition = new(intstr.FromInt32(*n.kept))
		}
		if n.unavailable != nil {
			rolling.MaxUnavailable = n.unavailable
		}
	}
	return n
}

func filled[T any](field **T) *T {
	if *field == nil {
		*field = new(T)
	}
	return *field
}

// patchOf returns the patch of a subset as a text; empty if there is no patch.
func patchOf(subset *v1beta1.Subset) string {
	if text := string(subset.Patch.Raw); text != "null" {
		return text
	}
	return ""
}

// build returns the wanted workload of a subset, and the numbers that were written into the workload.
func build(ud *v1beta1.UnitedDeployment, from template, subset *v1beta1.Subset, revision string, n numbers) (workload, numbers, error) {
	w, ok := from.workload.DeepCopyObject().(workload)
	if !ok {
		return nil, n, fmt.Errorf("a %T is no object", from.workload)
	}
	p, prefix := partsOf(w), ud.Name+"-"+subset.Name+"-"
	if len(validation.IsDNS1123Subdomain(prefix+"x")) > 0 {
		prefix = ud.Name + "-"
	}
	w.SetNamespace(ud.Namespace)
	w.SetGenerateName(prefix)
	w.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(ud, v1beta1.GroupVersion.WithKind("UnitedDeployment"))})
	w.SetLabels(with(w.GetLabels(), ud.Spec.Selector.MatchLabels, map[string]string{apps.LabelSubsetName: subset.Name, apps.LabelSubsetRevision: revision}))
	w.SetAnnotations(with(w.GetAnnotations(), map[string]string{apps.AnnotationSubsetPatch: patchOf(subset)}))
	selector := ud.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, map[string]string{apps.LabelSubsetName: subset.Name})
	*p.selector = selector
	pod, err := podOf(p.pod, subset, revision)
	if err != nil {
		return nil, n, err
	}
	*p.pod = *pod
	return w, setNumbers(w, n), nil
}

// with merges maps; values of later maps override values of earlier maps.
func with(base map[string]string, more ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range append([]map[string]string{base}, more...) {
		maps.Copy(out, m)
	}
	return out
}

// podOf returns the Pod template of a subset. The labels that the controller writes cannot be patched: a Pod whose
// label names another revision would count as outdated for ever.
func podOf(from *corev1.PodTemplateSpec, subset *v1beta1.Subset, revision string) (*corev1.PodTemplateSpec, error) {
	pod, err := patchedPod(from, subset, revision)
	if err != nil {
		return nil, err
	}
	delete(pod.Labels, apps.LabelReservedPod)
	pod.Labels = with(pod.Labels, labelsOf(subset, revision))
	return pod, nil
}

func labelsOf(subset *v1beta1.Subset, revision string) map[string]string {
	return map[string]string{apps.LabelSubsetName: subset.Name, apps.LabelSubsetRevision: revision}
}

// patchedPod returns the template with the changes for a subset; the subset's patch is applied last, and may override
// everything else.
func patchedPod(from *corev1.PodTemplateSpec, subset *v1beta1.Subset, revision string) (*corev1.PodTemplateSpec, error) {
	pod := from.DeepCopy()
	pod.Labels = with(pod.Labels, labelsOf(subset, revision))
	restrict(&pod.Spec, &subset.NodeSelectorTerm)
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, subset.Tolerations...)
	text := patchOf(subset)
	if text == "" {
		return pod, nil
	}
	plain, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the Pod template: %w", err)
	}
	patched, err := strategicpatch.StrategicMergePatch(plain, []byte(text), corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("is no strategic merge patch of the Pod template: %w", err)
	}
	pod = &corev1.PodTemplateSpec{}
	if err := decode.Object(patched, pod); err != nil {
		return nil, fmt.Errorf("makes no Pod template: %w", err)
	}
	return pod, nil
}

// restrict adds the requirements of a term to each required term of a Pod, because matching a single term is enough for
// a Node.
func restrict(spec *corev1.PodSpec, term *corev1.NodeSelectorTerm) {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return
	}
	required := filled(&filled(&filled(&spec.Affinity).NodeAffinity).RequiredDuringSchedulingIgnoredDuringExecution)
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = make([]corev1.NodeSelectorTerm, 1)
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		t.MatchExpressions = append(t.MatchExpressions, term.MatchExpressions...)
		t.MatchFields = append(t.MatchFields, term.MatchFields...)
	}
}
