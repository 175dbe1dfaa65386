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

// Plan describes the schedules to play.
type Plan struct {
	// Scheme must contain Kinds and the core types.
	Scheme *runtime.Scheme
	// Kinds are the kinds that the server has in addition to Pods, ControllerRevisions and PersistentVolumeClaims. If
	// Nodes are among Kinds, a Pod that names a Node stays pending until the Node exists, and Pods of deleted Nodes
	// are garbage collected after a while.
	Kinds []client.Object
	// Replicas is how many processes of the program run at a time; 0 means 1. The first is the leader: runnables that
	// need leader election, such as controllers, run only in the leader.
	Replicas int
	// Seeds and Steps are used unless environment variables set other numbers; 0 means 300 schedules of 150 steps.
	Seeds, Steps int
	// Quiet is the time without any write after which the final state counts as reached; 0 means a minute. Quiet must
	// be longer than every wait of the controllers, including the longest backoff after an error or a refusal.
	// Otherwise the schedule ends before such a wait is over, and misses the controller's later actions.
	Quiet time.Duration
	// New makes the Subject of a schedule.
	New func(*World) Subject
}

// Subject contains the controllers under test and their rules. Setup and Begin are required. The functions are called
// one at a time, and call World.Failf if a rule is broken.
type Subject struct {
	// Setup adds controllers and further runnables to the manager of a new process. Clients, caches and recorders
	// must come from the manager. Code that calls time.Now directly also gets the time of the schedule. If Setup
	// returns an error, the schedule fails.
	Setup func(ctx context.Context, mgr manager.Manager) error
	// Beside are further programs that run at the same time as the controllers, such as a node agent. Each program
	// has its own processes and caches. Requests to systems other than the API server must wait for the schedule in
	// Process.Pass.
	Beside []func(ctx context.Context, p *Process, mgr manager.Manager) error
	// Begin creates the objects that exist before the first process starts.
	Begin func()
	// Users makes one random change that a user might make, chosen with World.Rand.
	Users func()
	// Outside does the usual work of all other clients, such as the owner of a lifecycle hook. Run calls Outside
	// again until changed is false.
	Outside func() (changed bool)
	// Settle changes objects so that the controllers can fulfil the last requests of users.
	Settle func()
	// Denies is called for each write of the controllers that reaches the server, and may return an error to refuse the
	// write, as a quota, a policy or a webhook does. Call.Body is the written body. The argument before is the object
	// before the write, nil for a creation; the object belongs to the server, so do not modify the object. Denies is
	// also called when faults have stopped: Settle must lift lasting refusals. Writes through World.User are not
	// refused.
	Denies func(call faultapi.Call, before client.Object) error
	// Looks is called before a reconcile begins, with a nil call, and before each of its calls to the API server,
	// because the reconcile may read the cache until its first write. In Looks, record the task's input in Task.View.
	Looks func(*Task, *faultapi.Call)
	// Wrote checks a write of the controllers that has changed an object.
	Wrote func(*Write)
	// Check checks the state after a step.
	Check func()
	// Converged checks the final state, when all work is done.
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
	// Process is the process in which the task runs.
	Process *Process
	// View is for data that the Subject stores about the task.
	View any

	sent map[string]bool // the writes whose responses were received
}

// Write is a call of the controllers that has changed an object.
type Write struct {
	// Task is nil if the reconcile has ended before the call. This is possible if several reconciles share one write.
	Task *Task
	Call faultapi.Call
	// Before is nil for a created object, After for a deleted object. Both belong to the server, so do not modify them.
	Before, After client.Object
}

// Violation is a broken rule.
type Violation struct {
	// Rule is a short name of the rule. Two failures of the same rule count as the same failure.
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
