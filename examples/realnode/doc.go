// Package realnode answers the question: what do the controllers of the examples do on a real Node? Package realnode
// contains only tests: scenarios for any workload, and the kinds to take through the scenarios. "make test-node" runs
// the tests, as root on Linux.
package realnode
