// Package validation answers "which names, selectors, counts and Pod templates may a workload have?"
//
// The functions are pure and return every problem they find, each with its path, the value and what is allowed.
//
// What every Pod must have is for the API server to say: admission asks it, and nothing here repeats its rules.
package validation
