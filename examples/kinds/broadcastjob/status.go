package broadcastjob

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// isHeld reports whether failed Pods have paused the job, and the spec has not changed since.
func isHeld(job *v1beta1.BroadcastJob) bool {
	if c := job.Status.Condition(v1beta1.JobPaused); c != nil {
		return c.Status == corev1.ConditionTrue && c.Reason == string(completion.HeldByFailures) && c.ObservedGeneration == job.Generation
	}
	return job.Status.Phase == v1beta1.PhasePaused && !job.Spec.Paused // OpenKruise has written the status
}

// nextStatus returns the status after a reconciliation; Pods that this reconciliation creates or deletes are not
// counted yet.
func nextStatus(o *observation, s *completion.Survey, step completion.Step) v1beta1.BroadcastJobStatus {
	status, now := *o.Job.Status.DeepCopy(), metav1.NewTime(o.Now)
	if step.State == completion.Over {
		settle(&status, s)
		return status
	}
	if status.StartTime == nil && step.State != completion.Paused {
		status.StartTime = &now
	}
	status.Desired, status.Active, status.Succeeded, status.Failed = int32(s.Wanted), int32(s.Active), int32(s.Succeeded), int32(s.Failed)
	status.DropCondition(v1beta1.JobInvalidSpec)
	setPaused(&status, o.Job, step, now)
	switch step.State {
	case completion.Running:
		status.Phase = v1beta1.PhaseRunning
	case completion.Paused, completion.Held:
		status.Phase = v1beta1.PhasePaused
	case completion.Complete:
		end(&status, v1beta1.PhaseCompleted, v1beta1.JobCondition{
			Type: v1beta1.JobComplete, Reason: string(v1beta1.JobComplete),
			Message: fmt.Sprintf("%d Pods have succeeded and %d have failed", s.Succeeded, s.Failed),
		}, now)
	case completion.Failed:
		why := string(v1beta1.JobFailed)
		if step.Why[0].Code == completion.DeadlineExceeded {
			why = apps.EventDeadlineExceeded
		}
		end(&status, v1beta1.PhaseFailed, v1beta1.JobCondition{Type: v1beta1.JobFailed, Reason: why, Message: step.Why.String()}, now)
	}
	return status
}

// end records how and when the job has ended.
func end(status *v1beta1.BroadcastJobStatus, phase v1beta1.BroadcastJobPhase, c v1beta1.JobCondition, now metav1.Time) {
	status.Phase, status.CompletionTime = phase, &now
	c.Status, c.LastProbeTime = corev1.ConditionTrue, now
	status.DropCondition(v1beta1.JobFailedCreatePod)
	status.SetCondition(c, now)
}

// settle corrects the status of an ended job: Pods that were active when the job ended, and that are not active any
// more, count as succeeded if they have succeeded, and otherwise as failed. All other numbers stay the same, because
// any client may delete Pods after the end of the job.
func settle(status *v1beta1.BroadcastJobStatus, s *completion.Survey) {
	gone := status.Active - int32(s.Active)
	if gone <= 0 {
		return
	}
	well := min(max(int32(s.Succeeded)-status.Succeeded, 0), gone)
	status.Succeeded, status.Failed, status.Active = status.Succeeded+well, status.Failed+gone-well, int32(s.Active)
}

// setPaused records why the job is paused. With the policy Pause, setPaused also records a pause by the spec, because a
// paused job without a condition counts as paused by failures.
func setPaused(status *v1beta1.BroadcastJobStatus, job *v1beta1.BroadcastJob, step completion.Step, now metav1.Time) {
	if step.State != completion.Held && (step.State != completion.Paused || job.Spec.FailurePolicy.Type != v1beta1.FailurePolicyTypePause) {
		status.DropCondition(v1beta1.JobPaused)
		return
	}
	status.SetCondition(v1beta1.JobCondition{
		Type: v1beta1.JobPaused, Status: corev1.ConditionTrue, Reason: string(step.Why[0].Code), Message: step.Why.String(), ObservedGeneration: job.Generation,
	}, now)
}

// event is an event about a job.
type event struct{ Type, Reason, Message string }

// transitions returns the events for the difference between two statuses of a job. The events are sent only after the
// status was written.
func transitions(before, after *v1beta1.BroadcastJobStatus) (events []event) {
	if before.Phase == after.Phase {
		return nil
	}
	message := func(t v1beta1.JobConditionType, otherwise string) string {
		if c := after.Condition(t); c != nil {
			return c.Message
		}
		return otherwise
	}
	if before.Phase == v1beta1.PhasePaused {
		events = append(events, event{corev1.EventTypeNormal, apps.EventContinue, "the job goes on"})
	}
	switch after.Phase {
	case v1beta1.PhasePaused:
		kind := corev1.EventTypeNormal
		if c := after.Condition(v1beta1.JobPaused); c != nil && c.Reason == string(completion.HeldByFailures) {
			kind = corev1.EventTypeWarning
		}
		events = append(events, event{kind, apps.EventPaused, message(v1beta1.JobPaused, "the spec pauses the job")})
	case v1beta1.PhaseCompleted:
		events = append(events, event{corev1.EventTypeNormal, apps.EventJobComplete, message(v1beta1.JobComplete, "")})
	case v1beta1.PhaseFailed:
		name := apps.EventJobFailed
		if c := after.Condition(v1beta1.JobFailed); c != nil && c.Reason == apps.EventDeadlineExceeded {
			name = apps.EventDeadlineExceeded
		}
		events = append(events, event{corev1.EventTypeWarning, name, message(v1beta1.JobFailed, "")})
	}
	return events
}
