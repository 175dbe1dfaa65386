// Package realnode answers the question: what do the controllers of the examples do on a real Node? Package realnode
// contains only tests: scenarios for any workload, and the kinds that go through the scenarios. "make test-node" runs
// the tests. They need root on Linux.
package realnode
