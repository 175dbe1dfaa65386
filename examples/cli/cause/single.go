package cause

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/reason"
)

// updated returns the causes why the Pod in question is at an old revision.
func (f *Facts) updated(pod *corev1.Pod) []Cause {
	if f.Owner == nil || f.Owner.GroupVersionKind().Group != facts.AppsGroup {
		return nil
	}
	want, have := fields.String(f.Owner.Object, "status.updateRevision"), pod.Labels[apps.LabelRevision]
	if want == "" || have == "" || have == want || f.Owner.GetName()+"-"+have == want {
		return nil
	}
	owner := fmt.Sprintf("%s %s", f.Owner.GetKind(), f.Owner.GetName())
	detail := fmt.Sprintf("the Pod is at revision %s, %s is at %s", have, owner, want)
	if c, isAsked := f.keptByUser(pod, detail); isAsked {
		return []Cause{c}
	}
	for _, c := range fields.Conditions(f.Owner.Object) {
		if c.Status == "True" && (c.Type == "Waiting" || c.Type == "InvalidSpec" || isFailure(c.Type)) {
			return []Cause{podCause(pod, Controller, stopsPods, reason.Code(or(c.Reason, c.Type)), detail+": "+c.Message, "see kubectl kruise why "+strings.ToLower(f.Owner.GetKind())+"/"+f.Owner.GetName())}
		}
	}
	return []Cause{podCause(pod, Controller, asked, NotUpdated, detail, "the rollout reaches the Pod; see kubectl kruise rollout status")}
}

// keptByUser returns a cause if a setting keeps a Pod at an old revision; isAsked is false if no setting does.
func (f *Facts) keptByUser(pod *corev1.Pod, detail string) (c Cause, isAsked bool) {
	path := facts.Pausable(f.Owner.GroupVersionKind())
	kept := fields.IntOrString(f.Owner.Object, "spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition")
	switch {
	case path != "" && fields.Bool(f.Owner.Object, path):
		return podCause(pod, User, stopsPods, Paused, detail+": the rollout is paused", "kubectl kruise rollout resume"), true
	case fields.String(f.Owner.Object, "spec.updateStrategy.type") == "OnDelete":
		return podCause(pod, User, asked, OnDelete, detail+": Pods are updated when somebody deletes Pods", "delete the Pod"), true
	case kept != nil && kept.String() != "0" && kept.String() != "0%":
		return podCause(pod, User, asked, PartitionReached, detail+": the partition is "+kept.String(), "lower the partition of "+f.Owner.GetKind()+" "+f.Owner.GetName()), true
	}
	return Cause{}, false
}

// injected returns a cause for each SidecarSet that selects the Pod in question and whose sidecars are not in the
// Pod.
func (f *Facts) injected(pod *corev1.Pod) (causes []Cause) {
	present := strings.Split(pod.Annotations[apps.AnnotationSidecarSetInjected], ",")
	for i := range f.SidecarSets {
		set := &f.SidecarSets[i]
		if slices.Contains(present, set.GetName()) || !selects(set.Object, "spec.selector", pod.Labels) {
			continue
		}
		detail, remedy := "the SidecarSet "+set.GetName()+" selects the Pod, and the Pod was created without the sidecars", "recreate the Pod once the webhooks are served: kubectl kruise doctor"
		created := set.GetCreationTimestamp()
		switch {
		case fields.Bool(set.Object, "spec.injectionStrategy.paused"):
			detail, remedy = "the injection of SidecarSet "+set.GetName()+" is paused", "resume the injection, then recreate the Pod"
		case pod.CreationTimestamp.Before(&created):
			detail, remedy = "the SidecarSet "+set.GetName()+" is younger than the Pod", "recreate the Pod"
		}
		causes = append(causes, podCause(pod, Webhook, asked, NotInjected, detail, remedy))
	}
	return causes
}

// selects reports whether a label selector in an object selects labels; a missing or invalid selector selects nothing.
func selects(o fields.Object, path string, set map[string]string) bool {
	parsed, err := fields.Selector(o, path)
	return err == nil && !parsed.Empty() && parsed.Matches(labels.Set(set))
}

// evictable returns a cause for each budget that refuses an eviction of a Pod at present.
func (f *Facts) evictable(pod *corev1.Pod) (causes []Cause) {
	for i := range f.Disruptions {
		b := &f.Disruptions[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		detail := fmt.Sprintf("PodDisruptionBudget %s allows no eviction: %d Pods are healthy, %d are required", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
		causes = append(causes, podCause(pod, Budget, consequence, EvictionRefused, detail, "more healthy Pods, or a smaller requirement"))
	}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		if fields.Int(b.Object, "status.unavailableAllowed") > 0 || !f.covers(b.Object, pod) {
			continue
		}
		detail := fmt.Sprintf("PodUnavailableBudget %s allows no unavailable Pod: %d are available, %d are required",
			b.GetName(), fields.Int(b.Object, "status.currentAvailable"), fields.Int(b.Object, "status.desiredAvailable"))
		causes = append(causes, podCause(pod, Budget, consequence, EvictionRefused, detail, "more available Pods, or a smaller requirement"))
	}
	return causes
}

// covers reports whether a PodUnavailableBudget is for a Pod: by its selector, or by the Pod's workload.
func (f *Facts) covers(budget fields.Object, pod *corev1.Pod) bool {
	if selects(budget, "spec.selector", pod.Labels) {
		return true
	}
	return f.Owner != nil && fields.String(budget, "spec.targetRef.kind") == f.Owner.GetKind() && fields.String(budget, "spec.targetRef.name") == f.Owner.GetName()
}

// Selects reports whether the selector of an object selects labels; a missing or invalid selector selects nothing.
func Selects(o fields.Object, podLabels map[string]string) bool {
	return selects(o, "spec.selector", podLabels)
}

// SelectsNamespace reports whether a SidecarSet selects a namespace by the namespace's labels. A SidecarSet without a
// namespaceSelector selects all namespaces.
func SelectsNamespace(sidecarSet fields.Object, namespaceLabels map[string]string) bool {
	if _, restricted := fields.At(sidecarSet, "spec.namespaceSelector"); !restricted {
		return true
	}
	return selects(sidecarSet, "spec.namespaceSelector", namespaceLabels)
}
