package ephemeraljob

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the codes of the reasons in the conditions of a job.
const (
	// Initialized means that the job has started.
	Initialized reason.Code = "Initialized"
	// JobSucceeded means that the containers have ended successfully in all wanted Pods.
	JobSucceeded reason.Code = "JobSucceeded"
	// CreateFailed means that containers of a job have failed in Pods. The name is the name that OpenKruise uses.
	CreateFailed reason.Code = "CreateFailed"
	// SomePodsFailed means that a job has ended, and that the containers have succeeded in some Pods and failed in
	// others.
	SomePodsFailed reason.Code = "SomePodsFailed"
	// MatchedEmpty means that the selector of a job matches no Pod that can get the containers.
	MatchedEmpty reason.Code = "MatchedEmpty"
	// TooFewPods means that a job wants more Pods than its selector matches.
	TooFewPods reason.Code = "TooFewPods"
	// NoPodsWanted means that a job wants zero Pods.
	NoPodsWanted reason.Code = "NoPodsWanted"
	// NameTaken means that another client has added an ephemeral container with a name from the template to a Pod.
	NameTaken reason.Code = "NameTaken"
	// ContainersWait means that containers of a job cannot start at present.
	ContainersWait reason.Code = "ContainersWait"
	// NotReported means that Nodes have not reported the status of containers of a job yet.
	NotReported reason.Code = "NotReported"
)

// status returns the status to write; containers that this reconciliation adds are not counted yet. The status of a job
// that has ended does not change.
func (s *seen) status(o *observation, step completion.Step) v1alpha1.EphemeralJobStatus {
	status, now := *o.Job.Status.DeepCopy(), metav1.NewTime(o.Now)
	if step.State == completion.Over {
		return status
	}
	if status.StartTime == nil && step.State != completion.Paused {
		status.StartTime = &now
		status.Conditions.Set(v1alpha1.EJobInitialized, reason.Reason{Code: Initialized, Detail: "the job has begun"}, now)
	}
	count := func(is podstate.Outcome) int32 { return int32(len(s.pods[is])) }
	status.Matches, status.Running, status.Waiting = int32(s.matches), count(podstate.Running), count(podstate.Waiting)
	status.Succeeded, status.Failed = count(podstate.Succeeded), count(podstate.Failed)
	status.Phase = s.phase(step)
	status.Conditions.Set(v1alpha1.EJobError, nil, now)
	status.Conditions.Set(v1alpha1.EJobFailed, s.failure(step), now)
	status.Conditions.Set(v1alpha1.EJobMatchedEmpty, s.empty(), now)
	status.Conditions.Set(v1alpha1.EJobWaiting, s.waits(step, status.Phase).Err(), now)
	if status.Finished() {
		status.CompletionTime = &now
		status.Conditions.Set(v1alpha1.EJobInjectionFailed, nil, now)
	}
	if status.Phase == v1alpha1.EphemeralJobSucceeded {
		status.Conditions.Set(v1alpha1.EJobSucceeded, reason.Reason{Code: JobSucceeded, Detail: s.ends()}, now)
	}
	return status
}

func (s *seen) phase(step completion.Step) v1alpha1.EphemeralJobPhase {
	switch {
	case step.State == completion.Paused:
		return v1alpha1.EphemeralJobPaused
	case step.State == completion.Complete && len(s.pods[podstate.Failed]) == 0:
		return v1alpha1.EphemeralJobSucceeded
	case step.State == completion.Complete, step.State == completion.Failed:
		return v1alpha1.EphemeralJobFailed
	case len(s.pods[podstate.Running]) > 0:
		return v1alpha1.EphemeralJobRunning
	case len(s.pods[podstate.Waiting]) > 0, len(s.pods[podstate.Unreported]) == 0 && step.Start == 0:
		return v1alpha1.EphemeralJobWaiting
	}
	return v1alpha1.EphemeralJobUnknown
}

// ends returns a text with the number of Pods in which the containers have succeeded, and the number of Pods in which
// containers have failed.
func (s *seen) ends() string {
	text := fmt.Sprintf("of %d Pods %d have succeeded and %d have failed", s.wanted, len(s.pods[podstate.Succeeded]), len(s.pods[podstate.Failed]))
	if names := slices.Sorted(slices.Values(s.pods[podstate.Failed])); len(names) > 0 {
		text += ": " + kruise.Some(names, "")
	}
	return text
}

// failure returns why the job has failed, or, while the job is running, in which Pods containers have failed so far.
func (s *seen) failure(step completion.Step) error {
	switch why := (reason.Reason{Code: CreateFailed, Detail: s.ends()}); {
	case step.State == completion.Failed:
		why.Code, why.Path, why.New = step.Why[0].Code, step.Why[0].Path, step.Why[0].New
		return why
	case len(s.pods[podstate.Failed]) == 0:
		return nil
	case step.State == completion.Complete && len(s.pods[podstate.Succeeded]) > 0:
		why.Code = SomePodsFailed
		return why
	default:
		return why
	}
}

func (s *seen) empty() error {
	if s.matches > 0 {
		return nil
	}
	why := reason.Reason{Code: MatchedEmpty, Path: "spec.selector", Detail: "no Pod of the namespace matches"}
	if len(s.taken) > 0 {
		return reason.List{why, s.clash()}
	}
	return why
}

func (s *seen) clash() reason.Reason {
	return reason.Reason{
		Code: NameTaken, Path: "spec.template.ephemeralContainers", Detail: "somebody else has added a container of the name to " + kruise.Some(s.taken, ""),
		Remedy: "use another name",
	}
}

// waits returns the reasons why a running job waits.
func (s *seen) waits(step completion.Step, phase v1alpha1.EphemeralJobPhase) (why reason.List) {
	if step.State != completion.Running {
		return nil
	}
	number := strconv.Itoa(s.wanted)
	if s.wanted == 0 && s.matches > 0 {
		why = append(why, reason.Reason{Code: NoPodsWanted, Path: "spec.replicas", New: number, Remedy: "raise it"})
	}
	if s.wanted > s.matches && s.matches > 0 {
		why = append(why, reason.Reason{Code: TooFewPods, Path: "spec.replicas", New: number, Detail: strconv.Itoa(s.matches) + " match", Remedy: "lower it, or wait for Pods"})
	}
	if len(s.taken) > 0 && s.matches > 0 {
		why = append(why, s.clash())
	}
	if len(s.stuck) > 0 {
		why = append(why, reason.Reason{Code: ContainersWait, Detail: kruise.Some(s.stuck, ""), Remedy: "nobody can remove the containers: see to the obstacle, or delete the Pods"})
	}
	if names := s.pods[podstate.Unreported]; phase == v1alpha1.EphemeralJobUnknown && len(names) > 0 {
		why = append(why, reason.Reason{Code: NotReported, Detail: "in " + kruise.Some(names, ""), Remedy: "see to the Nodes if it lasts"})
	}
	if step.Start == 0 && (s.busy == 0 || len(s.stuck) > 0) {
		why = append(why, step.Why...)
	}
	return why
}

// refused returns the status of a job with an invalid spec.
func refused(job *v1alpha1.EphemeralJob, problems reason.List, now metav1.Time) v1alpha1.EphemeralJobStatus {
	status := *job.Status.DeepCopy()
	status.Phase = v1alpha1.EphemeralJobError
	status.Conditions.Set(v1alpha1.EJobError, problems, now)
	return status
}

// transition returns the event to send after a change of the phase was written. If there is no event, name is empty.
func transition(before, after *v1alpha1.EphemeralJobStatus) (kind, name, message string) {
	if before.Phase == after.Phase {
		return "", "", ""
	}
	var told v1alpha1.EphemeralJobConditionType
	switch after.Phase {
	case v1alpha1.EphemeralJobSucceeded:
		kind, name, told = corev1.EventTypeNormal, apps.EventEphemeralJobSucceeded, v1alpha1.EJobSucceeded
	case v1alpha1.EphemeralJobFailed:
		kind, name, told = corev1.EventTypeWarning, apps.EventEphemeralJobFailed, v1alpha1.EJobFailed
	case v1alpha1.EphemeralJobError:
		kind, name, told = corev1.EventTypeWarning, apps.EventInvalidEphemeralJob, v1alpha1.EJobError
	}
	if c := after.Conditions.Get(told); c != nil {
		message = c.Message
	}
	return kind, name, message
}
