// Package ephemeraljob answers "what does the API do with an EphemeralJob written by a user: the defaults?"
//
// The defaults are not stored, as in OpenKruise: no webhook changes an EphemeralJob, and readers of a field call the
// functions of this package.
package ephemeraljob

import "github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"

// Defaults of absent fields.
const (
	// DefaultParallelism lets containers run in a single Pod at a time.
	DefaultParallelism int32 = 1
	// DefaultTTLSecondsAfterFinished is half an hour.
	DefaultTTLSecondsAfterFinished int32 = 1800
)

// Parallelism returns in how many Pods the containers may run at once.
func Parallelism(spec *v1alpha1.EphemeralJobSpec) int32 {
	if spec.Parallelism == nil {
		return DefaultParallelism
	}
	return *spec.Parallelism
}

// TTLSecondsAfterFinished returns the time from the end of a job to the deletion of the job.
func TTLSecondsAfterFinished(spec *v1alpha1.EphemeralJobSpec) int32 {
	if spec.TTLSecondsAfterFinished == nil {
		return DefaultTTLSecondsAfterFinished
	}
	return *spec.TTLSecondsAfterFinished
}
