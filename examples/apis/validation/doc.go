// Package validation answers "which names, selectors, counts and Pod templates may a workload have?"
//
// The functions are pure and return every problem, each with path, value and the allowed values.
//
// The API server validates the general rules for Pods: admission asks the API server, and this package does not repeat
// these rules.
package validation
