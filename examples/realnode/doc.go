// Package realnode contains tests of the example controllers on a Node with a real kubelet and container runtime:
// scenarios for any workload, and tests of several kinds that call the scenarios. "make test-node" runs the tests, as
// root on Linux.
package realnode
