// Package sizing answers "which compute resources does a sidecar get, given those of the Pod's containers?"
//
// A [Policy] selects target containers by name, and combines their resources: the sum, or the largest. Expressions
// compute each limit and each request of the sidecar from these resources:
//
//	max(cpu*50%, 50m)
//
// [Compile] validates the whole policy, so that a webhook can refuse an invalid policy when the policy is written,
// instead of refusing Pods later. [Sizes.Of] computes the resources, and fails only for reasons that depend on the
// Pod: no target container, a negative result, or a result too large for a quantity.
//
// Expressions have the operators + - * / and a minus before a value, parentheses, max(a, b) and min(a, b), numbers
// (2, 0.5, 1e3), percentages (50%), quantities (100m, 64Mi; the suffixes are m k M G T P Ki Mi Gi Ti Pi) and a single
// variable: cpu in expressions for CPU, memory in expressions for memory. The names of variables and functions may be
// in upper case. A plain number that is added to a quantity, or compared with a quantity by max or min, counts in
// cores or bytes. An expression with a product of two quantities or a division by a quantity is invalid.
//
// All functions are pure and safe for concurrent use.
package sizing
