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

// Plan describes the play.
type Plan struct {
	// Scheme must know Kinds, and the core types.
	Scheme *runtime.Scheme
	// Kinds are served besides Pods, ControllerRevisions and PersistentVolumeClaims. With Nodes among Kinds, Pods naming
	// their Node wait for the Node, and Pods of deleted Nodes are collected after a while.
	Kinds []client.Object
	// Replicas is how many processes of the program run at a time; 0 means 1. The first leads: runnables with leader
	// election, such as controllers, run only there.
	Replicas int
	// Seeds and Steps are the defaults for the environment; 0 means 300 schedules of 150 steps.
	Seeds, Steps int
	// Quiet is how long nobody may write before everything counts as at rest; 0 means a minute. Quiet must be longer than
	// every wait of the controllers, including the longest backoff after an error or a refusal. Otherwise work after the
	// wait stays unseen, and so does missing work.
	Quiet time.Duration
	// New makes the subject of a schedule.
	New func(*World) Subject
}

// Subject is the object of the test, with its rules. Setup and Begin are required. The functions run singly and call
// World.Failf for a broken rule.
type Subject struct {
	// Setup adds controllers and further runnables to the manager of a new process. Clients, caches and recorders come
	// from the manager. Without a given clock the code uses time.Now, the clock of the schedule. Errors fail the schedule.
	Setup func(ctx context.Context, mgr manager.Manager) error
	// Beside are further programs, such as a node agent: each has a process with a cache and a life of its own. Calls to
	// somebody besides the API server wait for the schedule in Process.Pass.
	Beside []func(ctx context.Context, p *Process, mgr manager.Manager) error
	// Begin creates the objects from before the first process.
	Begin func()
	// Users does a single action from outside, drawn with World.Rand.
	Users func()
	// Outside does the usual work of everybody outside, such as the owner of a lifecycle hook. Outside is called until the
	// result says: no work left.
	Outside func() (changed bool)
	// Settle makes the last wish fulfillable.
	Settle func()
	// Denies is asked about each write of the controllers that reaches the server, and refuses by returning an error: a
	// quota, a policy, a webhook. Call.Body is the written body. before is the target, nil for a creation, and belongs to
	// the server: read-only. Denies is asked without faults, too: Settle must lift lasting refusals. Writes of World.User
	// pass.
	Denies func(call faultapi.Call, before client.Object) error
	// Looks is called before a reconcile begins, with a nil call, and before each of its calls to the API server: the last
	// moments for reading the cache. Looks is the time to keep the task's input in Task.View.
	Looks func(*Task, *faultapi.Call)
	// Wrote judges a write of the controllers with an effect.
	Wrote func(*Write)
	// Check judges the state after a step.
	Check func()
	// Converged judges the final state at rest.
	Converged func()
}

// Task is a running reconcile, or another runnable.
type Task struct {
	// Name is unique among the running tasks of a process.
	Name string
	// Controller is the name of the controller, or "" for runnables other than controllers.
	Controller string
	// Object is the reconciled object.
	Object types.NamespacedName
	// Began is the start time of the task.
	Began time.Time
	// Process is the process of the task.
	Process *Process
	// View is the subject's own.
	View any

	sent map[string]bool // the answered writes
}

// Write is a call of the controllers with an effect.
type Write struct {
	// Task is nil if the reconcile has ended before the call, as a request may that shares a write with others.
	Task *Task
	Call faultapi.Call
	// Before is nil for a created object, After for a deleted object. Both belong to the server: read-only.
	Before, After client.Object
}

// Violation is a broken rule.
type Violation struct {
	// Rule is a word for the rule. Failures of the same rule count as the same failure.
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
