package imagelistpulljob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	List     *v1beta1.ImageListPullJob
	Settings *settings
	// Jobs are the ImagePullJobs that the ImageListPullJob controls.
	Jobs []*v1beta1.ImagePullJob
	Now  time.Time
}

// decision says what a reconciliation must do.
type decision struct {
	Step completion.Step
	// Create are the images that need a job, and Delete the jobs that are not needed.
	Create []string
	Delete []*v1beta1.ImagePullJob
	Status v1beta1.ImageListPullJobStatus
}

// decide plans a whole reconciliation for an ImageListPullJob with valid settings. The decision depends on o alone.
func decide(o *observation) *decision {
	d := &decision{Status: *o.List.Status.DeepCopy()}
	kept := o.sort(d)
	n := countOf(kept)
	spec := &o.List.Spec
	rules := completion.Rules{Parallelism: len(spec.Images), Endless: spec.CompletionPolicy.Type == v1beta1.Never, OnFailure: completion.GoOn}
	if !rules.Endless {
		rules.TTL = completion.Seconds(spec.CompletionPolicy.TTLSecondsAfterFinished)
	}
	d.Step = completion.Next(rules, completion.Progress{
		Started: timeOf(d.Status.StartTime), Ended: timeOf(d.Status.CompletionTime), Wanted: len(spec.Images), Done: n.completed, Missing: len(d.Create),
	}, o.Now)
	if d.Step.State == completion.Over {
		d.Create, d.Delete = nil, nil
		return d
	}
	o.report(d, kept, n)
	return d
}

// sort divides the jobs into jobs to keep, at most one for each image, and jobs to delete.
func (o *observation) sort(d *decision) (kept map[string]*v1beta1.ImagePullJob) {
	kept = map[string]*v1beta1.ImagePullJob{}
	jobs := slices.Clone(o.Jobs)
	slices.SortFunc(jobs, func(a, b *v1beta1.ImagePullJob) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, job := range jobs {
		hash, labelled := job.Labels[apps.LabelRevision]
		isCurrent := hash == o.Settings.hash || hasSpec(job, &o.List.Spec)
		if !labelled && len(job.Spec.Undecodable) > 0 {
			isCurrent = false
		}
		switch {
		case job.DeletionTimestamp != nil:
		case isCurrent && slices.Contains(o.List.Spec.Images, job.Spec.Image) && kept[job.Spec.Image] == nil:
			kept[job.Spec.Image] = job
		default:
			d.Delete = append(d.Delete, job)
		}
	}
	for _, image := range o.List.Spec.Images {
		if kept[image] == nil && !slices.Contains(d.Create, image) {
			d.Create = append(d.Create, image)
		}
	}
	return kept
}

// counts contains the numbers of the list's ImagePullJobs by state.
type counts struct{ active, completed, succeeded int }

func countOf(jobs map[string]*v1beta1.ImagePullJob) (n counts) {
	for _, job := range jobs {
		status := &job.Status
		if status.StartTime == nil {
			continue
		}
		if status.Active > 0 {
			n.active++
		}
		if status.Desired == status.Succeeded+status.Failed {
			n.completed++
		}
		if status.Desired == status.Succeeded {
			n.succeeded++
		}
	}
	return n
}

// report fills in the status.
func (o *observation) report(d *decision, kept map[string]*v1beta1.ImagePullJob, n counts) {
	status, now := &d.Status, metav1.NewTime(o.Now)
	if status.StartTime == nil {
		status.StartTime = &now
	}
	status.Desired, status.Active = int32(len(o.List.Spec.Images)), int32(n.active)
	status.Completed, status.Succeeded = int32(n.completed), int32(n.succeeded)
	status.FailedImageStatuses = nil
	for _, image := range slices.Sorted(slices.Values(o.List.Spec.Images)) {
		if job := kept[image]; job != nil && job.Status.StartTime != nil && job.Status.Failed > 0 {
			status.FailedImageStatuses = append(status.FailedImageStatuses, &v1beta1.FailedImageStatus{ImagePullJob: job.Name, Name: image, Message: messageOf(job)})
		}
	}
	meta.RemoveStatusCondition(&status.Conditions, apps.ConditionInvalidSpec)
	if d.Step.State == completion.Complete {
		status.CompletionTime = &now
		meta.RemoveStatusCondition(&status.Conditions, conditionFailedCreate)
	}
}

// messageOf returns a message with some failed Nodes of a job and the first error.
func messageOf(job *v1beta1.ImagePullJob) string {
	out := fmt.Sprintf("failed on %d of %d Nodes: %s", job.Status.Failed, job.Status.Desired, kruise.Some(job.Status.FailedNodes, ""))
	if len(job.Status.Failures) > 0 {
		first := job.Status.Failures[0]
		out += fmt.Sprintf("; %s: %s: %s", first.Node, first.Reason, first.Message)
	}
	return out
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
