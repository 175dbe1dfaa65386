// Package agent answers "how does my own agent work on every Node?".
//
// An [Agent] is a process on each Node that works on the Node's Pods beside the containers of the Node's runtimes:
//
//	a, err := agent.New(config, os.Getenv("NODE_NAME"), work, agent.Options{})
//	...
//	return a.Run(ctx)
//
// The agent calls work with a [Pod] after each event of the Pod, after a time that work asked for, and after the end of
// a stop that work began. [Pod.Observe] is what package containerrestart decides on, and [Pod.Begin] carries its
// decision out: the hook and the stop run apart from the workers, so no worker waits for a runtime. A stop goes on for
// as long as each pass wants the stop: see [Pod.Keep].
//
// # What may be missing
//
// An agent whose API server or whose runtime is away waits and looks again; it does not end. [Agent.Waiting] says what
// is missing. Use it for readiness and for metrics, and not for liveness: a restart repairs nothing.
//
// # Many Nodes in a process
//
// A [Worker] is the part of an agent for a single Node, with Pods and a queue of the caller's: a test with thousands of
// Nodes has one watch for all.
//
// RBAC: list and watch on Pods. The agent reads the Pods of its Node alone; roles cannot say so.
package agent
