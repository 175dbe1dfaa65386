package nodeimage

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// maxImages is the largest number of image names in a NodeImage.
const maxImages = 256

// validateSpec returns all errors in a spec with defaults.
func validateSpec(obj *v1beta1.NodeImage) field.ErrorList {
	read, path := &judge.Reading{}, field.NewPath("spec", "images")
	if n := len(obj.Spec.Images); n > maxImages {
		read.Refuse(field.TooMany(path, n, maxImages))
	}
	for _, name := range slices.Sorted(maps.Keys(obj.Spec.Images)) {
		image := obj.Spec.Images[name]
		at := path.Key(name)
		if name == "" {
			read.Refuse(field.Invalid(path, name, "the name of an image must not be empty"))
		}
		seen := map[string]bool{}
		for i := range image.Tags {
			tag := &image.Tags[i]
			validateTag(read, at.Child("tags").Index(i), name, tag)
			if seen[tag.Tag] {
				read.Refuse(field.Duplicate(at.Child("tags").Index(i).Child("tag"), tag.Tag))
			}
			seen[tag.Tag] = true
		}
	}
	return read.Problems.Refusals()
}

func validateTag(read *judge.Reading, at *field.Path, name string, tag *v1beta1.ImageTagSpec) {
	if tag.Tag == "" {
		read.Refuse(field.Required(at.Child("tag"), "a tag or a digest"))
	} else if _, err := imagepull.Join(name, tag.Tag); err != nil && name != "" {
		read.Refuse(field.Invalid(at.Child("tag"), tag.Tag, err.Error()))
	}
	if tag.CreatedAt == nil {
		read.Refuse(field.Required(at.Child("createdAt"), "the time at which the tag was asked for"))
	}
	read.Refuse(validation.NotNegative(&tag.Version, at.Child("version"))...)
	judge.OneOf(read, at.Child("imagePullPolicy").String(), tag.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent)
	limits := at.Child("pullPolicy")
	if tag.PullPolicy == nil {
		read.Refuse(field.Required(limits, "the limits for the attempts"))
		return
	}
	if tag.PullPolicy.TTLSecondsAfterFinished == nil {
		read.Refuse(field.Required(limits.Child("ttlSecondsAfterFinished"), "otherwise the tag would stay for ever"))
	}
	read.Refuse(validation.NotNegative(tag.PullPolicy.TimeoutSeconds, limits.Child("timeoutSeconds"))...)
	read.Refuse(validation.NotNegative(tag.PullPolicy.BackoffLimit, limits.Child("backoffLimit"))...)
	read.Refuse(validation.NotNegative(tag.PullPolicy.TTLSecondsAfterFinished, limits.Child("ttlSecondsAfterFinished"))...)
	read.Refuse(validation.NotNegative(tag.PullPolicy.ActiveDeadlineSeconds, limits.Child("activeDeadlineSeconds"))...)
}

// validateUpdate returns the errors in an update. An error that old has too, at the same path with the same value, is
// left out.
func validateUpdate(obj, old *v1beta1.NodeImage) field.ErrorList {
	return validation.NewProblems(validateSpec(obj), validateSpec(old))
}
