package chaos

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// Plan says what is played.
type Plan struct {
	// Scheme must know Kinds, and the core types.
	Scheme *runtime.Scheme
	// Kinds are served besides Pods, ControllerRevisions and PersistentVolumeClaims. With Nodes among them, Pods that name their Node wait
	// for it, and those of Nodes that are gone are collected after a while.
	Kinds []client.Object
	// Replicas is how many processes of the program run at a time; 0 means 1. The first leads: runnables that need leader
	// election, as controllers do, run there alone.
	Replicas int
	// Seeds and Steps are what the environment does not say; 0 means 300 schedules of 150 steps.
	Seeds, Steps int
	// Quiet is for how long nobody may write before everything counts as at rest; 0 means a minute. It must be longer than
	// whatever the controllers wait for, the longest back-off after an error or a refusal included: what they do after it would
	// not be seen, nor what they never do.
	Quiet time.Duration
	// New makes the subject of one schedule.
	New func(*World) Subject
}

// Subject is what is put to the test, and the rules it must keep. Setup and Begin are required. Its functions run one at a
// time and call World.Failf when a rule is broken.
type Subject struct {
	// Setup adds controllers and other runnables to the manager of a process that starts. Clients, caches and recorders come
	// from the manager; a clock that is not given is time.Now, which is the schedule's. Errors fail the schedule.
	Setup func(ctx context.Context, mgr manager.Manager) error
	// Begin creates what is there before the first process starts.
	Begin func()
	// Users does one thing that comes from outside, drawn with World.Rand.
	Users func()
	// Outside does what everybody outside does when left alone, such as the owner of a lifecycle hook. It is called until it
	// reports that nothing was left to do.
	Outside func() (changed bool)
	// Settle makes the last wish one that can be fulfilled.
	Settle func()
	// Denies is asked about each write of the controllers that reaches the server, and refuses it by returning an error: a quota,
	// a policy, a webhook. Call.Body is what is written; before is the object that it is about, nil for what is created; it
	// is the server's: read only. It is asked without faults, too: what would stay refused for good is for Settle to lift. Writes
	// of World.User pass.
	Denies func(call faultapi.Call, before client.Object) error
	// Looks is called before a reconcile begins, with no call, and before each call that it makes to the API server: the last
	// moments at which it may still look at the cache. It is the time to keep, in Task.View, what the task will decide on.
	Looks func(*Task, *faultapi.Call)
	// Wrote judges one write of the controllers that has changed something.
	Wrote func(*Write)
	// Check judges the state after a step.
	Check func()
	// Converged judges the state in which everything has come to rest.
	Converged func()
}

// Task is a reconcile that runs, or another runnable.
type Task struct {
	// Name is unique among the tasks that run in a process.
	Name string
	// Controller is the name that it was built with, empty for runnables that are no controllers.
	Controller string
	// Object is what is reconciled.
	Object types.NamespacedName
	// Began is when it began.
	Began time.Time
	// Process is where it runs.
	Process *Process
	// View is the subject's own.
	View any
}

// Write is a call of the controllers that has changed something.
type Write struct {
	Task *Task
	Call faultapi.Call
	// Before is nil for what was created, After for what is gone. They are the server's: read only.
	Before, After client.Object
}

// Violation is a rule that was broken.
type Violation struct {
	// Rule is a word for it. Failures of one rule count as the same failure.
	Rule    string
	Message string
}

// Error returns rule and message.
func (v *Violation) Error() string { return v.Rule + ": " + v.Message }

func (p *Plan) complete() Plan {
	out := *p
	if out.Replicas == 0 {
		out.Replicas = 1
	}
	if out.Seeds == 0 {
		out.Seeds = 300
	}
	if out.Steps == 0 {
		out.Steps = 150
	}
	if out.Quiet == 0 {
		out.Quiet = time.Minute
	}
	return out
}
