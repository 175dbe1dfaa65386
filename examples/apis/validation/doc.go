// Package validation answers "which Pod templates, counts and percentages may a workload have?"
//
// The functions are pure and return every problem they find, each with its path, the value and what is allowed.
//
// [PodTemplate] covers what people get wrong in a template: names, images, ports, probes, environment, volumes and
// their mounts, resources, and the fields of the Pod's spec that have a closed set of values. It expects a defaulted
// template but takes a missing default for the value it stands for. Left to the API server, which checks every Pod that
// is made from the template: details of volume sources, security contexts, affinity, resource claims, host aliases,
// the DNS configuration, Pod-level resources, and rules for Windows.
package validation
