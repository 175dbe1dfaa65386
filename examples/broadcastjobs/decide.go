package broadcastjobs

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// JobOver means that the job has ended, and the Pod has not. Pods are deleted for nothing else but that their Node is gone or does not fit.
const JobOver reason.Code = "JobOver"

// afterEnd is how long a job stays at least: somebody may look at its numbers, once they are settled.
const afterEnd = time.Second

// Observation is everything that a pass is decided on.
type Observation struct {
	Job      *v1beta1.BroadcastJob
	Settings *Settings
	// Nodes are all there are, and Pods those that the job controls, in any order.
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Now   time.Time
}

// Decision is a whole pass as data.
type Decision struct {
	// Step is what the job is and may do.
	Step completion.Step
	// Create are the Nodes that get a Pod now, by name.
	Create []string
	// Delete are Pods, by name.
	Delete []completion.Unfinished
	// Duplicates are Nodes with more than one Pod of the job, by name.
	Duplicates []string
	// Status is what to report, but for the Pods that are created and deleted now.
	Status v1beta1.BroadcastJobStatus
}

// Ends says that the job ends in this pass. That is to be written down before anything is done.
func (d *Decision) Ends() bool {
	return d.Step.State == completion.Complete || d.Step.State == completion.Failed
}

// Decide decides a whole pass of a job whose settings have no problems. It depends on its argument alone.
func Decide(o *Observation) (*Decision, error) {
	claims := make(map[string]completion.Claim, len(o.Nodes))
	for _, node := range o.Nodes {
		claims[node.Name] = o.Settings.Claim(node)
	}
	s := completion.OnNodes(o.Pods, claims, o.Job.Spec.FailurePolicy.RestartLimit)
	d := &Decision{Duplicates: s.Duplicates}
	rules := o.Settings.rules
	var err error
	if rules.Parallelism, err = completion.Parallelism(rules.Paths.Parallelism, o.Job.Spec.Parallelism, s.Wanted); err != nil {
		return nil, err
	}
	d.Step = completion.Next(rules, completion.Progress{
		Started: o.Job.Status.Began(), Ended: o.Job.Status.Ended(),
		Wanted: s.Wanted, Done: s.Done, Active: s.Active, Missing: len(s.Missing),
		Failed: s.Failed, Known: int(o.Job.Status.Failed), Held: isHeld(o.Job),
	}, o.Now)
	switch d.Step.State {
	case completion.Running:
		d.Create, d.Delete = s.Missing[:d.Step.Start], s.Misplaced
	case completion.Complete, completion.Failed, completion.Over:
		d.Delete = s.Running
		for i := range d.Delete {
			d.Delete[i].Why = JobOver
		}
	}
	d.Status = nextStatus(o, s, d.Step)
	if unsettled := o.Job.Status.Active > 0; d.Step.Remove && unsettled { // somebody may look at the numbers before it goes
		d.Step.Remove, d.Step.After = false, afterEnd
	}
	return d, nil
}
