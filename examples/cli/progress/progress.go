// Package progress answers "has this rollout ended, does the rollout continue, or does the rollout need help?"
//
// [Of] determines the progress of a workload or a job, in any served version, from the object alone. There are four
// states, each with its own exit code:
//
//	Done     0  everything that the spec allows to change has changed and is ready
//	Stuck    2  the controller's status says why the rollout will not continue without help
//	Running  3  the controller is at work; the command ends with this code when its wait is over
//	Paused   4  somebody has paused the rollout, or updates Pods only when Pods are deleted
//
// Exit code 1 means an error: a missing object, an object deleted meanwhile, or a wrong flag.
//
// All functions are pure and safe for concurrent use.
package progress

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/reason"
)

// State is the state of a rollout.
type State string

// These are the states.
const (
	Done    State = "Done"
	Running State = "Running"
	Stuck   State = "Stuck"
	Paused  State = "Paused"
)

// ExitCode returns the exit code of "rollout status" for the state: see the package comment.
func (s State) ExitCode() int {
	switch s {
	case Done:
		return 0
	case Stuck:
		return 2
	case Paused:
		return 4
	default:
		return 3
	}
}

// These are reasons for the state of a rollout. A stuck rollout has the code of the controller's condition.
const (
	// SpecUnobserved means that the controller has not seen the present spec yet.
	SpecUnobserved reason.Code = "SpecUnobserved"
	// PodsNotUpdated means that fewer Pods are updated than the spec allows.
	PodsNotUpdated reason.Code = "PodsNotUpdated"
	// PodsNotReady means that updated Pods are not ready or not available yet.
	PodsNotReady reason.Code = "PodsNotReady"
	// RolloutPaused means that a user has paused the rollout.
	RolloutPaused reason.Code = "RolloutPaused"
	// UpdateOnDelete means that the update strategy updates a Pod only after a user has deleted the Pod.
	UpdateOnDelete reason.Code = "UpdateOnDelete"
	// JobRunning means that a job has not ended yet.
	JobRunning reason.Code = "JobRunning"
	// JobFailed means that a job has ended without success.
	JobFailed reason.Code = "JobFailed"
)

// Progress is the result of [Of].
type Progress struct {
	State State
	// Text is a line for users, without a line break at the end.
	Text string
	// Why explains every state except Done.
	Why reason.List
}

// Patience is the default time for which a failure that the controller retries may last before the rollout counts as
// stuck.
const Patience = time.Minute

// Of returns the progress of an object. A failure that the controller retries, such as Pods refused by a quota, makes
// a rollout Stuck when the failure has lasted for longer than patience; zero means [Patience]. Of returns an error
// for a kind without rollouts.
func Of(u *unstructured.Unstructured, patience time.Duration, now time.Time) (Progress, error) {
	if patience <= 0 {
		patience = Patience
	}
	j := &judge{o: u.Object, name: u.GetName(), kind: u.GetKind(), generation: u.GetGeneration(), patience: patience, now: now}
	j.pausePath = facts.Pausable(u.GroupVersionKind())
	read := numbersOf(u.GroupVersionKind().GroupKind())
	switch {
	case read != nil:
		n, err := read(u.Object)
		if err != nil {
			return Progress{}, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		return j.rollout(n), nil
	case isJob(u.GroupVersionKind().GroupKind()):
		return j.job(), nil
	}
	return Progress{}, fmt.Errorf("%s of %s has no rollout", u.GetKind(), u.GetAPIVersion())
}

// isJob reports whether a kind is a kind of jobs, which end by themselves.
func isJob(gk schema.GroupKind) bool {
	switch gk.Kind {
	case "BroadcastJob", "EphemeralJob", "ContainerRecreateRequest", "ImagePullJob", "ImageListPullJob":
		return gk.Group == facts.AppsGroup
	}
	return false
}

// judge holds the arguments of a single call of Of.
type judge struct {
	o          fields.Object
	name, kind string
	generation int64
	pausePath  string
	patience   time.Duration
	now        time.Time
}

func (j *judge) because(code reason.Code, path, detail, remedy string) reason.List {
	return reason.List{{Code: code, Path: path, Detail: detail, Remedy: remedy}}
}

// rollout returns the Progress of a workload that keeps Pods running.
func (j *judge) rollout(n numbers) Progress {
	if fields.Int(j.o, "status.observedGeneration") < j.generation {
		return Progress{
			State: Running, Text: fmt.Sprintf("Waiting for %s spec update to be observed...", j.kind),
			Why: j.because(SpecUnobserved, "status.observedGeneration", "the controller has not seen the present spec", "see whether the manager runs"),
		}
	}
	if why := j.failure(); len(why) > 0 {
		return Progress{State: Stuck, Text: fmt.Sprintf("%s %q is stuck: %s", j.kind, j.name, why[0]), Why: why}
	}
	target := max(n.desired-n.kept, 0)
	isUpdated := n.updated >= target
	switch {
	case !isUpdated && fields.Bool(j.o, j.pausePath):
		return Progress{
			State: Paused, Text: fmt.Sprintf("%s %q is paused: %d out of %d new pods have been updated", j.kind, j.name, n.updated, target),
			Why: j.because(RolloutPaused, j.pausePath, "", "kubectl kruise rollout resume"),
		}
	case !isUpdated && n.onDelete:
		return Progress{
			State: Paused, Text: fmt.Sprintf("%s %q updates pods that are deleted: %d out of %d new pods have been updated", j.kind, j.name, n.updated, target),
			Why: j.because(UpdateOnDelete, "spec.updateStrategy.type", "OnDelete", "delete the old Pods"),
		}
	case !isUpdated:
		return j.waiting(PodsNotUpdated, fmt.Sprintf("%d out of %d new pods have been updated...", n.updated, target))
	case n.updatedReady < target:
		return j.waiting(PodsNotReady, fmt.Sprintf("%d of %d updated pods are ready...", n.updatedReady, target))
	case n.ready < n.desired:
		return j.waiting(PodsNotReady, fmt.Sprintf("%d pods are not ready...", n.desired-n.ready))
	}
	return Progress{State: Done, Text: j.doneText(n)}
}

func (j *judge) doneText(n numbers) string {
	text := fmt.Sprintf("%s %q successfully rolled out: %d new pods have been updated", j.kind, j.name, n.updated)
	if n.kept > 0 {
		text = fmt.Sprintf("%s %q partitioned roll out complete: %d new pods have been updated", j.kind, j.name, n.updated)
	}
	if n.revision != "" {
		text += ", revision " + n.revision
	}
	return text
}

// waiting returns the state Running with a text about the numbers, and with the conditions that say why the
// controller waits.
func (j *judge) waiting(code reason.Code, text string) Progress {
	p := Progress{State: Running, Text: fmt.Sprintf("Waiting for %s %q rollout to finish: %s", j.kind, j.name, text)}
	p.Why = j.because(code, "", text, "")
	for _, c := range fields.Conditions(j.o) {
		if (c.Type == "Waiting" || isRetried(c.Type)) && c.Status == "True" {
			p.Why = append(p.Why, conditionReason(c))
			p.Text += " (" + c.Message + ")"
		}
	}
	return p
}

// conditionReason converts a controller's condition to a reason.Reason. The code is the condition's reason, or its
// type if the reason is empty.
func conditionReason(c fields.Condition) reason.Reason {
	r := reason.Reason{Code: reason.Code(c.Reason), Path: "status.conditions[" + c.Type + "]", Detail: c.Message}
	if r.Code == "" {
		r.Code = reason.Code(c.Type)
	}
	return r
}

// isRetried reports whether a condition type means an error after which the controller tries again.
func isRetried(conditionType string) bool {
	switch conditionType {
	case "FailedScale", "FailedUpdate", "FailedCreatePod", "FailedUpdatePod", "ReplicaFailure":
		return true
	}
	return false
}

// failure returns the conditions because of which the rollout is stuck.
func (j *judge) failure() (why reason.List) {
	for _, c := range fields.Conditions(j.o) {
		final := c.Type == "InvalidSpec" && c.Status == "True" ||
			c.Type == "Progressing" && c.Status == "False" && c.Reason == "ProgressDeadlineExceeded"
		retried := isRetried(c.Type) && c.Status == "True" && j.isOld(c.Since)
		if final || retried {
			why = append(why, conditionReason(c))
		}
	}
	return why
}

// isOld reports whether a condition has lasted for longer than the patience. A condition without a time is not old.
func (j *judge) isOld(since string) bool {
	t, err := time.Parse(time.RFC3339, since)
	return err == nil && j.now.Sub(t) > j.patience
}
