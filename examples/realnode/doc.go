// Package realnode answers the question: what do the controllers of the examples do on a real Node? It holds only tests: scenarios that any
// workload may be taken through, and the kinds that are. "make test-node" runs them, as root on Linux.
package realnode
