// Package sizing answers "which compute resources does a sidecar get, given those of the Pod's containers?"
//
// A [Policy] selects target containers by their names, and adds up the targets' resources or takes the largest. An
// expression for each limit and each request computes the sidecar's resources:
//
//	max(cpu*50%, 50m)
//
// [Compile] checks a policy in full, so that the writer of a bad policy is refused, and not the creator of a Pod.
// [Sizes.Of] computes, and fails only for reasons of the Pod: no target, a negative result, or a result too large for a
// quantity.
//
// Expressions have the operators + - * / and a minus before a value, parentheses, max(a, b) and min(a, b), numbers (2,
// 0.5, 1e3), percentages (50%), quantities (100m, 64Mi; the suffixes are m k M G T P Ki Mi Gi Ti Pi) and a single
// variable: cpu in expressions for CPU, memory in expressions for memory. Names may be in upper case. A number beside a
// quantity counts in base units, cores or bytes. A product of two quantities and a division by a quantity have no
// meaning and are refused.
//
// All functions are pure and safe for concurrent use.
package sizing
