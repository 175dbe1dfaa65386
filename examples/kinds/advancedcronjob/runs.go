package advancedcronjob

import (
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// State is the state of a run.
type State string

const (
	// Active means that the run has not ended.
	Active State = "Active"
	// Succeeded means that the run has ended successfully.
	Succeeded State = "Succeeded"
	// Failed means that the run has ended without success.
	Failed State = "Failed"
)

// Run is a job that was started for a slot.
type Run struct {
	client.Object

	Kind  schema.GroupVersionKind
	State State
	// Slot is the slot of the run, or zero if unknown.
	Slot time.Time
	// Began is when the job's controller began to work on the job; zero means not yet.
	Began time.Time
}

// Ending reports whether the run is being deleted.
func (r Run) Ending() bool { return r.GetDeletionTimestamp() != nil }

// Read converts a job to a run of the AdvancedCronJob by which the job is controlled. Read returns false for objects of
// other kinds.
func Read(object client.Object) (Run, bool) {
	run := Run{Object: object, State: Active, Slot: slotOf(object)}
	var began *metav1.Time
	switch job := object.(type) {
	case *batchv1.Job:
		run.Kind, began = batchv1.SchemeGroupVersion.WithKind("Job"), job.Status.StartTime
		for i := range job.Status.Conditions {
			run.State = ended(run.State, string(job.Status.Conditions[i].Type), job.Status.Conditions[i].Status)
		}
	case *v1beta1.BroadcastJob:
		run.Kind, began = v1beta1.GroupVersion.WithKind("BroadcastJob"), job.Status.StartTime
		for i := range job.Status.Conditions {
			run.State = ended(run.State, string(job.Status.Conditions[i].Type), job.Status.Conditions[i].Status)
		}
	case *v1beta1.ImageListPullJob:
		run.Kind, began = v1beta1.GroupVersion.WithKind("ImageListPullJob"), job.Status.StartTime
		switch status := &job.Status; {
		case status.CompletionTime == nil:
		case status.Succeeded < status.Desired:
			run.State = Failed
		default:
			run.State = Succeeded
		}
	default:
		return Run{}, false
	}
	if began != nil {
		run.Began = began.Time
	}
	return run, true
}

// ended returns the state of a run by a condition of the job, or state if the condition does not say that the job has
// ended. Jobs and BroadcastJobs use the same condition types.
func ended(state State, condition string, status corev1.ConditionStatus) State {
	switch {
	case state != Active || status != corev1.ConditionTrue:
		return state
	case condition == string(batchv1.JobComplete):
		return Succeeded
	case condition == string(batchv1.JobFailed):
		return Failed
	}
	return state
}

// slotOf reads the slot of a job from the job's name, which cannot change, or from the annotation if the name contains
// no slot.
func slotOf(object client.Object) time.Time {
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		if digits, ok := strings.CutPrefix(object.GetName(), ref.Name+"-"); ok {
			if seconds, err := strconv.ParseInt(digits, 10, 64); err == nil && seconds > 0 && strconv.FormatInt(seconds, 10) == digits {
				return time.Unix(seconds, 0)
			}
		}
	}
	slot, err := time.Parse(time.RFC3339, object.GetAnnotations()[apps.AnnotationScheduledAt])
	if err != nil {
		return time.Time{}
	}
	return slot
}

// keepJob copies the fields of a Job that the controller reads, into the object that the cache keeps.
func keepJob(kept, found client.Object) {
	out, isJob := kept.(*batchv1.Job)
	job, wasJob := found.(*batchv1.Job)
	if !isJob || !wasJob {
		return
	}
	annotations := out.Annotations
	out.ObjectMeta = job.ObjectMeta
	out.ManagedFields, out.Annotations = nil, annotations
	if at, ok := job.Annotations[apps.AnnotationScheduledAt]; ok {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, apps.AnnotationScheduledAt, at)
	}
	out.Status.StartTime, out.Status.Conditions = job.Status.StartTime, job.Status.Conditions
}
