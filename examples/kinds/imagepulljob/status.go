package imagepulljob

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// mostFailures is the largest number of failed Nodes with a reason in the status.
const mostFailures = 16

// These are the messages of OpenKruise 1.9.
const (
	messageDone     = "job has completed"
	messageDeadline = "job exceeds activeDeadlineSeconds"
	messageNone     = "job is running, no progress"
	messageProgress = "job is running, progress %.1f%%"
)

// status returns the status to write. The status of a job that has ended does not change.
func (o *observation) status(step *imagepull.JobStep, nodes []imagepull.Node) v1beta1.ImagePullJobStatus {
	status, now := *o.Job.Status.DeepCopy(), metav1.NewTime(o.Now)
	if step.State == completion.Over {
		return status
	}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	n := step.Counts
	status.Desired, status.Active, status.Succeeded, status.Failed = int32(n.Desired), int32(n.Active), int32(n.Succeeded), int32(n.Failed)
	status.FailedNodes, status.Failures = step.FailedNodes, failures(step, nodes)
	switch {
	case step.State == completion.Complete:
		status.CompletionTime, status.Message = &now, messageDone
	case step.State == completion.Failed:
		status.CompletionTime, status.Message = &now, messageDeadline
	case n.Desired == 0:
		status.Message = messageNone
	default:
		status.Message = fmt.Sprintf(messageProgress, 100*float64(n.Succeeded+n.Failed)/float64(n.Desired))
	}
	set(&status.Conditions, apps.ConditionInvalidSpec, o.Job.Generation, nil, now)
	set(&status.Conditions, apps.ConditionNodesMissing, o.Job.Generation, missing(o.Missing), now)
	set(&status.Conditions, apps.ConditionPulledByAgents, o.Job.Generation, fallback(o.Targets), now)
	set(&status.Conditions, apps.ConditionWaiting, o.Job.Generation, waits(o, step), now)
	return status
}

// set sets a condition to True for a reason, and removes the condition if why is nil.
func set(conditions *[]metav1.Condition, kind string, generation int64, why error, now metav1.Time) {
	if why == nil {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	condition := reason.Condition(kind, generation, why)
	condition.LastTransitionTime = now
	meta.SetStatusCondition(conditions, condition)
}

// waits returns the reasons why pulls on Nodes wait. A wait because of the parallelism is normal, and is reported
// only if the parallelism allows no Node to begin.
func waits(o *observation, step *imagepull.JobStep) error {
	if step.State != completion.Running {
		return nil
	}
	var why reason.List
	for _, r := range step.Why {
		switch {
		case r.Code == imagepull.NodesNotReady, r.Code == imagepull.WindowClosed,
			r.Code == completion.ParallelismReached && o.Settings.rules.Parallelism == 0:
			why = append(why, r)
		}
	}
	return why.Err()
}

// missing returns an error with the names of Nodes that do not exist; nil if names is empty.
func missing(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return reason.Reason{Code: imagepull.NodesNotFound, Path: "spec.selector.names", Detail: kruise.Some(names, ""), Remedy: "correct the names, or add the Nodes"}
}

// fallback returns the reason why agents pull although the job asks for kubelets; nil if no agent pulls.
func fallback(targets []target) error {
	var names []string
	var first reason.Reason
	for i := range targets {
		if t := &targets[i]; t.Unable.Code != "" && t.Image != nil {
			if len(names) == 0 {
				first = t.Unable
			}
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	first.Detail = "agents pull on " + kruise.Some(names, "") + ": " + first.Detail
	return first
}

// failures returns the failed Nodes with their reasons.
func failures(step *imagepull.JobStep, nodes []imagepull.Node) (out []v1beta1.ImagePullJobFailure) {
	standing := make(map[string]*imagepull.Node, len(nodes))
	for i := range nodes {
		standing[nodes[i].Name] = &nodes[i]
	}
	for _, name := range step.FailedNodes {
		if len(out) == mostFailures {
			break
		}
		node, failure := standing[name], v1beta1.ImagePullJobFailure{Node: name, Reason: string(completion.DeadlineExceeded)}
		switch {
		case node.Standing.Why.Code != "":
			failure.Reason, failure.Message = string(node.Standing.Why.Code), node.Standing.Why.Detail
		case node.NotReady != "":
			failure.Message = "the Node could not pull: " + node.NotReady
		case node.Standing.State == imagepull.Unclaimed:
			failure.Message = "the pull had not begun"
		default:
			failure.Message = "the pull had not ended"
		}
		out = append(out, failure)
	}
	return out
}

// refused returns the status of a job with an invalid spec.
func refused(job *v1beta1.ImagePullJob, problems reason.List, now time.Time) v1beta1.ImagePullJobStatus {
	status := *job.Status.DeepCopy()
	set(&status.Conditions, apps.ConditionInvalidSpec, job.Generation, problems, metav1.NewTime(now))
	return status
}

// failed names the failed Nodes of a status, for an event; empty if there is none.
func failed(status *v1beta1.ImagePullJobStatus) string {
	if len(status.Failures) == 0 {
		return ""
	}
	first := status.Failures[0]
	return fmt.Sprintf("%d of %d Nodes have failed; %s: %s: %s", status.Failed, status.Desired, first.Node, first.Reason, first.Message)
}

// hasEnded reports whether a job has ended.
func hasEnded(job *v1beta1.ImagePullJob) bool { return job.Status.CompletionTime != nil }

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
