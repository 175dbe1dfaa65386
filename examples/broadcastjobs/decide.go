package broadcastjobs

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// JobOver means that the job has ended, and the Pod has not. The only remaining reason for deleting Pods is a missing
// or unfit Node.
const JobOver reason.Code = "JobOver"

// afterEnd is how long a job stays at least: somebody may read the final numbers.
const afterEnd = time.Second

// Observation is the complete input of a pass.
type Observation struct {
	Job      *v1beta1.BroadcastJob
	Settings *Settings
	// Nodes are all Nodes, and Pods are the Pods controlled by the job, in any order.
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Now   time.Time
}

// Decision is a whole pass as data.
type Decision struct {
	// Step is the state of the job and the allowed work.
	Step completion.Step
	// Create are the Nodes for new Pods, by name.
	Create []string
	// Delete are Pods, by name.
	Delete []completion.Unfinished
	// Duplicates are Nodes with several Pods of the job, by name.
	Duplicates []string
	// Status is the status to report, without the Pods created and deleted in the pass.
	Status v1beta1.BroadcastJobStatus
}

// Ends reports whether the job ends in the pass. The status must record the end before any action.
func (d *Decision) Ends() bool {
	return d.Step.State == completion.Complete || d.Step.State == completion.Failed
}

// Decide decides a whole pass of a job with settings free of problems, from its argument alone.
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
	if unsettled := o.Job.Status.Active > 0; d.Step.Remove && unsettled { // somebody may read the numbers before the job goes
		d.Step.Remove, d.Step.After = false, afterEnd
	}
	return d, nil
}
