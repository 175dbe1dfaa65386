// Package validation answers "which names, selectors, counts and Pod templates may a workload have?"
//
// The functions are pure and return every problem, each with path, value and the allowed values.
//
// The API server judges the general rules of Pods: admission asks the API server, and package validation does not
// repeat the rules.
package validation
