// Package realnode answers the question: what do the controllers of the examples do on a real Node? The package
// contains only tests: scenarios that any workload can run, and calls of these scenarios for several kinds. "make
// test-node" runs the tests, as root on Linux.
package realnode
