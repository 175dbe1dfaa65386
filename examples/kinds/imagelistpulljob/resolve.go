package imagelistpulljob

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/imagepulljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/reason"
)

// settings are the values of a parsed spec, computed once for each spec.
type settings struct {
	// Problems are the invalid values of the spec. If there are problems, no other field may be used.
	Problems reason.List

	hash string
}

// settingsOf returns the settings of a job, even if the job is invalid.
func settingsOf(job *v1beta1.ImageListPullJob) *settings {
	if problems, _ := resolve(&job.Spec); problems != nil {
		return &settings{Problems: problems.Reasons()}
	}
	return &settings{hash: hashOf(&job.Spec)}
}

// resolve validates a spec, with or without defaults. Problems are values with which the controller cannot work.
// Warnings are values that the controller can use, but that are probably a mistake.
func resolve(spec *v1beta1.ImageListPullJobSpec) (problems, warnings judge.Faults) {
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return left, nil // further checks would only report missing values
	}
	read := &judge.Reading{}
	read.ImageListPullJob(field.NewPath("spec"), spec)
	return read.Problems, read.Warnings
}

// specOf returns the spec, with defaults, of the ImagePullJob for an image.
func specOf(list *v1beta1.ImageListPullJobSpec, image string) v1beta1.ImagePullJobSpec {
	in := list.DeepCopy()
	job := &v1beta1.ImagePullJob{Spec: v1beta1.ImagePullJobSpec{
		Image: image, PullSecrets: in.PullSecrets, Selector: in.Selector, PodSelector: in.PodSelector, Parallelism: in.Parallelism,
		PullPolicy: in.PullPolicy, CompletionPolicy: in.CompletionPolicy, SandboxConfig: in.SandboxConfig, ImagePullPolicy: in.ImagePullPolicy,
	}}
	job.Spec.CompletionPolicy.TTLSecondsAfterFinished = nil
	api.Default(job)
	return job.Spec
}

// hashOf returns a hash of all fields of the spec except the images, in a form valid as a label value. The TTL is not
// part of the hash, because the created jobs have no TTL.
func hashOf(spec *v1beta1.ImageListPullJobSpec) string {
	template := specOf(spec, "")
	content, err := json.Marshal(template)
	if err != nil {
		return "" // not possible: a spec with undecodable fields is invalid
	}
	sum := fnv.New32a()
	_, _ = sum.Write(content) // the error is always nil
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10))
}

// hasSpec reports whether an ImagePullJob has the spec that the ImageListPullJob requires. The TTL is not compared,
// because OpenKruise's controller copies the TTL of the list to the jobs.
func hasSpec(job *v1beta1.ImagePullJob, list *v1beta1.ImageListPullJobSpec) bool {
	have := job.DeepCopy()
	api.Default(have)
	have.Spec.CompletionPolicy.TTLSecondsAfterFinished = nil
	return equality.Semantic.DeepEqual(have.Spec, specOf(list, job.Spec.Image))
}
