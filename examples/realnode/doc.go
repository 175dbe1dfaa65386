// Package realnode answers the question: what do the controllers of the examples do on a real Node? The package
// contains only tests: scenarios for any workload, and tests of several kinds with calls of the scenarios. "make
// test-node" runs the tests, as root on Linux.
package realnode
