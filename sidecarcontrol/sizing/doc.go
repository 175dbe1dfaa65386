// Package sizing answers "which compute resources does a sidecar get, given those of the Pod's containers?"
//
// A [Policy] selects target containers by their names, adds their resources up or takes the largest, and computes what the sidecar gets
// with an expression for each limit and each request:
//
//	max(cpu*50%, 50m)
//
// [Compile] checks a policy in full, so that it is refused where it is written and not where a Pod is created. [Sizes.Of] computes, and
// fails only for what depends on the Pod: no target, a negative result, or one that no quantity holds.
//
// Expressions have the operators + - * / and a minus before a value, parentheses, max(a, b) and min(a, b), numbers (2, 0.5, 1e3),
// percentages (50%), quantities (100m, 64Mi; the suffixes are m k M G T P Ki Mi Gi Ti Pi) and one variable: cpu in expressions for CPU,
// memory in those for memory. Names may be in upper case. A number beside a quantity counts in base units, cores or bytes. A product of
// two quantities and a division by one have no meaning and are refused.
//
// All functions are pure and safe for concurrent use.
package sizing
