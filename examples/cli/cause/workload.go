package cause

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/progress"
	"github.com/workloadkit/workloadkit/reason"
)

// objectCause returns a cause about the object in question (Facts.Object).
func (f *Facts) objectCause(layer Layer, r rank, code reason.Code, path, detail, remedy string) Cause {
	object := reason.ObjectOf(f.Object.GetKind(), f.Object)
	return Cause{Layer: layer, rank: r, Reason: reason.Reason{Code: code, Object: object, Path: path, Detail: detail, Remedy: remedy}}
}

// workloadCauses returns the causes that keep a workload or a job from its wanted state.
func (f *Facts) workloadCauses() (causes []Cause) {
	o := f.Object
	if o.GetDeletionTimestamp() != nil {
		causes = append(causes, f.objectCause(Hook, stopsAll, FinalizerHolds, "metadata.finalizers",
			"the object is being deleted; finalizers: "+strings.Join(o.GetFinalizers(), ", "), "the owners of the finalizers end their work and remove the finalizers"))
	}
	p, err := progress.Of(o, 0, f.Now)
	path := facts.Pausable(o.GroupVersionKind())
	switch {
	case err == nil:
		causes = append(causes, f.fromProgress(p)...)
	case path != "" && fields.Bool(o.Object, path): // a schedule has no rollout
		causes = append(causes, f.objectCause(User, stopsPods, Paused, path, "somebody has paused the object", f.resume()))
	}
	causes = append(causes, f.fromConditions()...)
	causes = append(causes, f.creation()...)
	for _, pod := range f.outOfService() {
		causes = append(causes, f.podCauses(pod)...)
	}
	return causes
}

// resume returns the command that ends a pause.
func (f *Facts) resume() string {
	gk := f.Object.GroupVersionKind().GroupKind()
	kind := strings.ToLower(gk.Kind)
	if gk.Group == facts.AppsGroup && (gk.Kind == "StatefulSet" || gk.Kind == "DaemonSet") { // Kubernetes has kinds of these names
		kind += "s." + gk.Group
	}
	return "kubectl kruise rollout resume " + kind + "/" + f.Object.GetName()
}

// fromProgress turns the reasons of a Progress into causes.
func (f *Facts) fromProgress(p progress.Progress) (causes []Cause) {
	o := f.Object.Object
	for _, why := range p.Why {
		switch why.Code {
		case progress.SpecUnobserved:
			causes = append(causes, f.objectCause(Controller, stopsAll, SpecUnobserved, why.Path, why.Detail, "see whether the manager runs: kubectl kruise doctor"))
		case progress.RolloutPaused:
			causes = append(causes, f.objectCause(User, stopsPods, Paused, why.Path, p.Text, f.resume()))
		case progress.UpdateOnDelete:
			causes = append(causes, f.objectCause(User, asked, OnDelete, why.Path, p.Text, why.Remedy))
		case progress.PodsNotUpdated, progress.PodsNotReady:
			causes = append(causes, f.objectCause(Controller, consequence, why.Code, why.Path, p.Text, "the rollout goes on by itself"))
		case progress.JobFailed:
			causes = append(causes, f.objectCause(Controller, consequence, why.Code, why.Path, why.Detail, "see the Pods of the job"))
		case progress.JobRunning:
			awaited := f.agents()
			if status, _ := fields.At(o, "status"); len(awaited) == 0 && isEmpty(status) {
				awaited = []Cause{f.objectCause(Controller, stopsAll, SpecUnobserved, "status", "no controller has seen the job",
					"see whether the manager runs, and whether the feature gate of the kind is on: kubectl kruise doctor")}
			}
			if len(awaited) > 0 {
				return append(causes, awaited...)
			}
			causes = append(causes, f.objectCause(Controller, consequence, JobNotEnded, why.Path, p.Text, "the end of the Pods"))
		}
	}
	return causes
}

// isEmpty reports whether an object has no content, except numbers that are zero.
func isEmpty(value any) bool {
	content, _ := value.(fields.Object)
	for _, v := range content {
		if v != int64(0) && v != float64(0) {
			return false
		}
	}
	return true
}

// fromConditions turns the object's conditions into causes. The cause of a condition that stops all work comes first.
// The cause of a condition about Pods has the rank consequence, because the causes of the Pods say more.
func (f *Facts) fromConditions() (causes []Cause) {
	for _, c := range fields.Conditions(f.Object.Object) {
		code := reason.Code(or(c.Reason, c.Type))
		path := "status.conditions[" + c.Type + "]"
		switch {
		case c.Type == "InvalidSpec" && c.Status == "True":
			causes = append(causes, f.objectCause(Controller, stopsAll, code, path, c.Message, "correct the spec"))
		case isFailure(c.Type) && c.Status == "True":
			causes = append(causes, f.refused(c.Message, path, code))
		case c.Type == "Waiting" && c.Status == "True" && strings.Contains(c.Message, "PodUnavailableBudget "):
			causes = append(causes, f.objectCause(Budget, held, code, path, c.Message, "more available Pods, or a smaller requirement"))
		case c.Type == "Progressing" && c.Status == "False", c.Type == "Waiting" && c.Status == "True":
			causes = append(causes, f.objectCause(Controller, consequence, code, path, c.Message, "the end of the other causes"))
		}
	}
	return causes
}

func isFailure(conditionType string) bool {
	switch conditionType {
	case "FailedScale", "FailedUpdate", "FailedCreatePod", "FailedUpdatePod", "ReplicaFailure", "InjectionFailed":
		return true
	}
	return false
}

// refused returns the cause for a refused request. The texts of API servers show which part of the system has
// refused.
func (f *Facts) refused(message, path string, otherwise reason.Code) Cause {
	switch {
	case strings.Contains(message, "exceeded quota"), strings.Contains(message, "failed quota"):
		return f.objectCause(Quota, stopsPods, QuotaExceeded, path, message, "raise the quota, or free some of the quota")
	case strings.Contains(message, "failed calling webhook"):
		return f.objectCause(Webhook, stopsPods, WebhookUnreachable, path, message, "repair the webhook's server, or its configuration")
	case strings.Contains(message, "admission webhook"), strings.Contains(message, "violates PodSecurity"), strings.Contains(message, "ValidatingAdmissionPolicy"):
		return f.objectCause(Webhook, stopsPods, WebhookRefused, path, message, "change what the webhook or policy refuses")
	case strings.Contains(message, "is forbidden: User "):
		return f.objectCause(Controller, stopsPods, RightsMissing, path, message, "give the manager the right: kubectl kruise doctor")
	case strings.Contains(message, " is forbidden: "), strings.Contains(message, " is invalid: "):
		return f.objectCause(APIServer, stopsPods, RequestRefused, path, message, "change what the API server refuses")
	}
	return f.objectCause(Controller, stopsPods, otherwise, path, message, "see to what the message names; the controller tries again by itself")
}

// creation returns the causes why Pods are missing: from the dry-run creation of a Pod, or else from the newest event
// about a failed creation.
func (f *Facts) creation() (causes []Cause) {
	for _, refusal := range f.Refusals {
		c := f.refused(refusal.Message, "", RequestRefused)
		c.Detail = refusal.Operation + ": " + c.Detail
		causes = append(causes, c)
	}
	if len(causes) > 0 || f.IsPodsUnread || !f.lacksPods() {
		return causes
	}
	var newest *corev1.Event
	for i := range f.Events {
		e := &f.Events[i]
		if e.InvolvedObject.UID == f.Object.GetUID() && strings.HasPrefix(e.Reason, "FailedCreate") && (newest == nil || eventTime(e).After(eventTime(newest))) {
			newest = e
		}
	}
	if newest != nil {
		return append(causes, f.refused(newest.Message, "", reason.Code(newest.Reason)))
	}
	return append(causes, f.objectCause(Controller, consequence, PodsMissing, "status.replicas",
		fmt.Sprintf("%d of %d Pods exist", len(f.Pods), fields.IntOr(f.Object.Object, 1, "spec.replicas")), "see the events of the workload and the manager's log"))
}

// lacksPods reports whether a workload with replicas has fewer Pods than wanted.
func (f *Facts) lacksPods() bool {
	if len(facts.Templates(f.Object.Object)) == 0 || !hasReplicas(f.Object.GetKind()) {
		return false
	}
	return int64(len(f.Pods)) < fields.IntOr(f.Object.Object, 1, "spec.replicas")
}

func hasReplicas(kind string) bool {
	return kind == "CloneSet" || kind == "StatefulSet" || kind == "Deployment" || kind == "ReplicaSet"
}

// outOfService returns the Pods that are not ready, are being deleted, or are held by a lifecycle hook.
func (f *Facts) outOfService() (pods []*corev1.Pod) {
	for i := range f.Pods {
		if !InService(&f.Pods[i]) {
			pods = append(pods, &f.Pods[i])
		}
	}
	return pods
}

// InService reports whether a Pod is ready, is not being deleted, and does not wait for a lifecycle hook.
func InService(pod *corev1.Pod) bool {
	state := pod.Labels[apps.LabelLifecycleState]
	return pod.DeletionTimestamp == nil && IsReady(pod) && (state == "" || state == apps.LifecycleNormal)
}

// IsReady reports whether the Pod's Ready condition is True.
func IsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
