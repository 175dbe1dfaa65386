// Package bench answers the question: what does a whole rollout of my kind cost? The bench runs a manager as a
// separate process on a real control plane with simulated Nodes, and takes Pods through phases (scale-up, an update
// in place, an update by recreation, nothing at all, scale-down). For each phase the bench reports the seconds, the
// requests per Pod by verb and resource, the time for which Pods were out of service, and the CPU time and memory of
// the manager. The bench can measure any manager that serves the same kind, so two managers can be compared with the
// same work.
//
//	options := bench.NewOptions("bin/my-operator", bench.Workload{
//		Name: "fleet", AddToScheme: ..., Install: ..., Object: ..., List: ...,
//	})
//	options.Pods = 100
//	result, err := bench.Run(ctx, options)
//	...
//	result.Print(os.Stdout)
//
// A test can compare figures that do not depend on the machine with limits, such as the writes per Pod in the phase
// "in-place".
package bench
