// Package agent answers "how does my own agent work on every Node?".
//
// An [Agent] is a process on each Node that works on the Pods of its Node, and on their containers in the Node's
// container runtimes:
//
//	a, err := agent.New(config, os.Getenv("NODE_NAME"), work, agent.Options{})
//	...
//	return a.Run(ctx)
//
// The agent calls the function work with a [Pod] after each event of the Pod, after the time that work has returned,
// and after the end of a container stop that work has begun. [Pod.Observe] returns the state from which package
// containerrestart decides, and [Pod.Begin] carries out the decision. The preStop hook and the stop run in a separate
// goroutine, so no worker waits for a container runtime. Each later call of work must say which stops are still
// wanted; all other stops are cancelled: see [Pod.Keep].
//
// # Unavailable servers
//
// If the API server or the container runtime is unavailable, the agent waits and tries again; the agent does not exit.
// [Agent.Waiting] says what is unavailable. Use Waiting for readiness and for metrics, but not for liveness: a restart
// of the agent would not help.
//
// # Many Nodes in a process
//
// A [Worker] is the part of an agent without the watch and the queue: the caller provides both. So a test with
// thousands of Nodes needs only one watch for all Nodes.
//
// RBAC: list and watch on Pods. The agent reads only the Pods of its Node, but RBAC rules cannot express this
// restriction.
package agent
