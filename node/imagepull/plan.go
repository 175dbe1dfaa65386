package imagepull

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/reason"
)

// Rules are the settings of a job. The zero value starts no pull.
type Rules struct {
	completion.Rules

	// Window is the time of the day in which the job claims the image on further Nodes. While the window is closed, the
	// deadline of the job still counts.
	Window Window
}

// Progress contains the values that a job stores in its status.
type Progress struct {
	// Started and Ended are the times when the job began and ended; zero if not yet.
	Started, Ended time.Time
	// Known and Held are as in completion.Progress.
	Known int
	Held  bool
}

// Node is a Node on which a job wants an image.
type Node struct {
	// Name is the name of the Node.
	Name string
	// Standing comes from Judge.
	Standing Standing
	// NotReady is the reason why the Node cannot pull now; empty if the Node can pull.
	NotReady string
	// LacksSecret means that the Node's object lacks a pull secret of the job.
	LacksSecret bool
}

// Counts are the numbers of a job's Nodes. Desired is the sum of the other numbers.
type Counts struct{ Desired, Active, Succeeded, Failed, Waiting int }

// JobStep is the next action of the controller of a job.
type JobStep struct {
	// State is the state of the job as in package completion.
	State completion.State
	// Start are the names of the Nodes on which to claim the image now, in order.
	Start []string
	// AddSecrets are the names of further Nodes whose objects must get the job's pull secrets. These Nodes already
	// have a claim of the job, so the parallelism does not limit AddSecrets.
	AddSecrets []string
	// Remove means that the TTL has passed, and that the job must be deleted.
	Remove bool
	// After is the time until Plan must be called again even if no event occurs; 0 for never.
	After time.Duration
	// Counts and FailedNodes are for the job's status. FailedNodes are the sorted names of failed Nodes. Both are
	// empty if the job was over before this call: then keep the recorded values.
	Counts      Counts
	FailedNodes []string
	// Why explains why the job has ended, or why Nodes wait.
	Why reason.List
}

// Plan returns the next step of a job. Pulls begin in the order of nodes, so put the Nodes whose Pods are updated
// first at the beginning. A Node that is not ready waits, and does not count as failed. A job without Nodes is
// complete unless the job is endless. At the deadline, every Node that is not Done counts as failed.
func Plan(nodes []Node, rules Rules, progress Progress, now time.Time) JobStep {
	p := &plan{}
	if progress.Ended.IsZero() {
		for i := range nodes {
			p.add(&nodes[i])
		}
	}
	missing, closed := len(p.missing), rules.Window.Wait(now)
	if closed > 0 {
		missing = 0
	}
	next := completion.Next(rules.Rules, completion.Progress{
		Started: progress.Started, Ended: progress.Ended, Known: progress.Known, Held: progress.Held,
		Wanted: len(nodes), Done: p.Counts.Succeeded + p.Counts.Failed, Active: p.Counts.Active, Missing: missing, Failed: p.Counts.Failed,
	}, now)
	if next.State == completion.Running && len(nodes) == 0 && !rules.Endless {
		next = completion.Step{State: completion.Complete, After: time.Second}
	}
	p.State, p.Remove, p.Why = next.State, next.Remove, append(next.Why, p.Why...)
	if next.State == completion.Running {
		p.After = sooner(next.After, p.After)
		p.start(next.Start, closed)
	} else {
		p.After, p.AddSecrets = next.After, nil
	}
	if errors.Is(next.Why.Err(), completion.DeadlineExceeded) {
		p.failRest()
	}
	slices.Sort(p.FailedNodes)
	return p.JobStep
}

// plan is the state of a single call of Plan.
type plan struct {
	JobStep

	// missing are the ready Nodes without a claim of the job, rest are all Nodes without a result, and idle are the
	// Nodes that are not ready.
	missing, rest, idle []string
}

// add counts a Node.
func (p *plan) add(n *Node) {
	p.Counts.Desired++
	switch n.Standing.State {
	case Done:
		p.Counts.Succeeded++
		return
	case Broken:
		p.fail(n)
		return
	case Silent:
		if n.NotReady == "" {
			p.fail(n)
			return
		}
	}
	p.rest = append(p.rest, n.Name)
	isClaimed := n.Standing.State == Active || n.Standing.State == Silent
	if isClaimed && n.LacksSecret {
		p.AddSecrets = append(p.AddSecrets, n.Name)
	}
	switch {
	case n.NotReady != "":
		p.Counts.Waiting++
		p.idle = append(p.idle, n.Name+" ("+n.NotReady+")")
	case isClaimed:
		p.Counts.Active++
		p.After = sooner(p.After, n.Standing.After)
	default:
		p.Counts.Waiting++
		p.missing = append(p.missing, n.Name)
	}
}

func (p *plan) fail(n *Node) {
	p.Counts.Failed++
	p.FailedNodes = append(p.FailedNodes, n.Name)
	if len(p.Why) < mostReasons && n.Standing.Why.Code != "" {
		why := n.Standing.Why
		why.Object = reason.Object{Kind: "Node", Name: n.Name}
		p.Why = append(p.Why, why)
	}
}

// start chooses the first n missing Nodes, and explains why other Nodes wait.
func (p *plan) start(n int, closed time.Duration) {
	p.Start = slices.Clone(p.missing[:n])
	p.Counts.Active += n
	p.Counts.Waiting -= n
	if closed > 0 && len(p.missing) > 0 {
		p.After = sooner(p.After, closed)
		p.Why = append(p.Why, reason.Reason{Code: WindowClosed, Detail: strconv.Itoa(len(p.missing)) + " Nodes wait for " + closed.Round(time.Second).String()})
	}
	if len(p.idle) > 0 {
		p.Why = append(p.Why, reason.Reason{Code: NodesNotReady, Detail: names(p.idle), Remedy: "make the Nodes ready, or exclude the Nodes"})
	}
}

// failRest counts each Node without a result as failed.
func (p *plan) failRest() {
	p.Counts.Active, p.Counts.Waiting = 0, 0
	p.Counts.Failed += len(p.rest)
	p.FailedNodes = append(p.FailedNodes, p.rest...)
}
