package broadcastjob

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// afterEnd is how long a job stays at least: somebody may read the final numbers.
const afterEnd = time.Second

// observation is the complete input of a pass.
type observation struct {
	Job      *v1beta1.BroadcastJob
	Settings *settings
	// Nodes are all Nodes, and Pods are the Pods controlled by the job, in any order.
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Now   time.Time
}

// decision is a whole pass as data.
type decision struct {
	// Step is the state of the job and the allowed work.
	Step completion.Step
	completion.Work
	// Duplicates are Nodes with several Pods of the job, by name.
	Duplicates []string
	// Status is the status to report, without the Pods created and deleted in the pass.
	Status v1beta1.BroadcastJobStatus
}

// decide decides a whole pass of a job with settings free of problems, from its argument alone.
func decide(o *observation) (*decision, error) {
	claims := make(map[string]completion.Claim, len(o.Nodes))
	for _, node := range o.Nodes {
		claims[node.Name] = o.Settings.Claim(node)
	}
	s := completion.OnNodes(o.Pods, claims, o.Job.Spec.FailurePolicy.RestartLimit)
	d := &decision{Duplicates: s.Duplicates}
	rules := o.Settings.rules
	var err error
	if rules.Parallelism, err = completion.Parallelism(rules.Paths.Parallelism, o.Job.Spec.Parallelism, s.Wanted); err != nil {
		return nil, err
	}
	progress := s.Progress(o.Job.Status.Began(), o.Job.Status.Ended())
	progress.Known, progress.Held = int(o.Job.Status.Failed), isHeld(o.Job)
	d.Step = completion.Next(rules, progress, o.Now)
	d.Status = nextStatus(o, s, d.Step)
	if unsettled := o.Job.Status.Active > 0; d.Step.Remove && unsettled { // somebody may read the numbers before the job goes
		d.Step.Remove, d.Step.After = false, afterEnd
	}
	d.Work = s.Work(d.Step)
	return d, nil
}
