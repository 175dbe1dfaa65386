package broadcastjob

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// afterEnd is the shortest time from a job's end to its deletion, so that clients can read the final numbers.
const afterEnd = time.Second

// observation contains all inputs of a reconciliation.
type observation struct {
	Job      *v1beta1.BroadcastJob
	Settings *settings
	// Nodes are all Nodes, and Pods are the Pods that the job controls, both in any order.
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Now   time.Time
}

// decision says what a reconciliation must do.
type decision struct {
	// Step is the state of the job, and says which Pods may be created or deleted.
	Step completion.Step
	completion.Work
	// Duplicates are the sorted names of Nodes with several Pods of the job.
	Duplicates []string
	// Status is the status to write; Pods that this reconciliation creates or deletes are not counted yet.
	Status v1beta1.BroadcastJobStatus
}

// decide plans a whole reconciliation for a job with valid settings. The decision depends on o alone.
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
	// Clients get the time to read the final numbers before the job is deleted.
	if unsettled := o.Job.Status.Active > 0; d.Step.Remove && unsettled {
		d.Step.Remove, d.Step.After = false, afterEnd
	}
	d.Work = s.Work(d.Step)
	return d, nil
}
