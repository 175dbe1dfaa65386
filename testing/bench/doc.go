// Package bench answers the question: what does a whole rollout of my kind cost? It runs a manager as a process of its own on a real
// control plane with simulated Nodes, takes Pods through phases (scale-up, an update in place, one that recreates, nothing at all,
// scale-down), and says for each: seconds, requests per Pod by verb and resource, how long Pods were out of service, CPU and memory of the
// manager. Any manager of the same API can be measured, so that two can be compared on the same work.
//
//	options := bench.NewOptions("bin/my-operator", bench.Workload{Name: "fleet", AddToScheme: ..., Install: ..., Object: ..., List: ...})
//	options.Pods = 100
//	result, err := bench.Run(ctx, options)
//	...
//	result.Print(os.Stdout)
//
// A test may hold a manager to figures that do not depend on the machine, such as the writes per Pod of the phase "in-place".
package bench
