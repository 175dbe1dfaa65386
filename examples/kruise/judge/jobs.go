package judge

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	pull "github.com/workloadkit/workloadkit/examples/apis/apps/imagepulljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// mostNodes is a number of Nodes that no cluster exceeds. A percentage is refused if its result for mostNodes is too
// large, so an accepted percentage is valid in any cluster.
const mostNodes = 100_000

// BroadcastJob validates the spec of a BroadcastJob, or of the BroadcastJob template in an AdvancedCronJob.
func (r *Reading) BroadcastJob(path *field.Path, spec *v1beta1.BroadcastJobSpec) {
	pod, done, failure := path.Child("template", "spec"), path.Child("completionPolicy"), path.Child("failurePolicy")
	r.Refuse(validation.CountOf(spec.Parallelism, mostNodes, path.Child("parallelism"))...)
	if policy := spec.Template.Spec.RestartPolicy; policy == "" {
		r.Refuse(field.Required(pod.Child("restartPolicy"), "use Never or OnFailure: without one Pods would never end"))
	} else {
		OneOf(r, pod.Child("restartPolicy").String(), policy, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	}
	r.Refuse(validation.NotTooMany(apps.NodeTerms(&spec.Template.Spec), pod.Child("affinity", "nodeAffinity"))...)
	OneOf(r, done.Child("type").String(), spec.CompletionPolicy.Type, v1beta1.Always, v1beta1.Never)
	deadline, ttl := spec.CompletionPolicy.ActiveDeadlineSeconds, spec.CompletionPolicy.TTLSecondsAfterFinished
	r.Refuse(validation.NotNegative(deadline, done.Child("activeDeadlineSeconds"))...)
	r.Refuse(validation.NotNegative(ttl, done.Child("ttlSecondsAfterFinished"))...)
	OneOf(r, failure.Child("type").String(), spec.FailurePolicy.Type,
		v1beta1.FailurePolicyTypeFailFast, v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypePause)
	r.Refuse(validation.NotNegative(&spec.FailurePolicy.RestartLimit, failure.Child("restartLimit"))...)
	r.Warn(validation.Reserved(&spec.Template, apps.ReservedBroadcastJobLabels(), path.Child("template",
		"metadata"))...)
	if spec.CompletionPolicy.Type == v1beta1.Never {
		r.unused(deadline != nil, done.Child("activeDeadlineSeconds"))
		r.unused(ttl != nil, done.Child("ttlSecondsAfterFinished"))
	}
}

// unused warns of a field that has an effect only for jobs that end, not for jobs of type Never.
func (r *Reading) unused(isSet bool, path *field.Path) {
	if isSet {
		r.Warn(field.Forbidden(path, "has no meaning with type Never: such a job does not end"))
	}
}

// pullTemplate contains the fields that ImagePullJobs and ImageListPullJobs share.
type pullTemplate struct {
	PullSecrets      []string
	Selector         *v1beta1.ImagePullJobNodeSelector
	PodSelector      *v1beta1.ImagePullJobPodSelector
	Parallelism      *intstr.IntOrString
	PullPolicy       *v1beta1.PullPolicy
	CompletionPolicy v1beta1.CompletionPolicy
	ImagePullPolicy  corev1.PullPolicy
}

// ImagePullJob validates the spec of an ImagePullJob.
func (r *Reading) ImagePullJob(path *field.Path, spec *v1beta1.ImagePullJobSpec) {
	r.image(path.Child("image"), spec.Image)
	r.pullTemplate(path, &pullTemplate{
		spec.PullSecrets, spec.Selector, spec.PodSelector, spec.Parallelism, spec.PullPolicy, spec.CompletionPolicy, spec.ImagePullPolicy,
	})
}

// mostListed is the largest number of images of an ImageListPullJob.
const mostListed = 255

// mostSecrets is the largest number of pull secrets of a job.
const mostSecrets = 255

// ImageListPullJob validates the spec of an ImageListPullJob, or of the template in an AdvancedCronJob.
func (r *Reading) ImageListPullJob(path *field.Path, spec *v1beta1.ImageListPullJobSpec) {
	images := path.Child("images")
	switch n := len(spec.Images); {
	case n == 0:
		r.Refuse(field.Required(images, "the images to pull"))
	case n > mostListed:
		r.Refuse(field.TooMany(images, n, mostListed))
		return
	}
	seen := map[string]bool{}
	for i, image := range spec.Images {
		r.image(images.Index(i), image)
		if seen[image] {
			r.Refuse(field.Duplicate(images.Index(i), image))
		}
		seen[image] = true
	}
	r.pullTemplate(path, &pullTemplate{
		spec.PullSecrets, spec.Selector, spec.PodSelector, spec.Parallelism, spec.PullPolicy, spec.CompletionPolicy, spec.ImagePullPolicy,
	})
}

func (r *Reading) image(path *field.Path, image string) {
	if image == "" {
		r.Refuse(field.Required(path, "the image to pull"))
	} else if _, err := imagepull.Parse(image); err != nil {
		r.Refuse(field.Invalid(path, reason.Shorten(image, 200), err.Error()))
	}
}

func (r *Reading) pullTemplate(path *field.Path, t *pullTemplate) {
	r.pullNodes(path, t)
	r.Refuse(wholeNumber(t.Parallelism, path.Child("parallelism"))...)
	timeout := pull.DefaultTimeoutSeconds
	if limits := t.PullPolicy; limits != nil {
		r.Refuse(validation.NotNegative(limits.TimeoutSeconds, path.Child("pullPolicy", "timeoutSeconds"))...)
		r.Refuse(validation.NotNegative(limits.BackoffLimit, path.Child("pullPolicy", "backoffLimit"))...)
		timeout = ptr.Deref(limits.TimeoutSeconds, timeout)
	}
	OneOf(r, path.Child("imagePullPolicy").String(), t.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent)
	secrets := t.PullSecrets
	if n := len(secrets); n > mostSecrets { // the API server is asked about each Secret
		r.Refuse(field.TooMany(path.Child("pullSecrets"), n, mostSecrets))
		secrets = nil
	}
	for i, name := range secrets {
		if len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 {
			r.Refuse(field.Invalid(path.Child("pullSecrets").Index(i), reason.Shorten(name, 200), "no Secret can have this name"))
		}
	}
	done := path.Child("completionPolicy")
	OneOf(r, done.Child("type").String(), t.CompletionPolicy.Type, v1beta1.Always, v1beta1.Never)
	deadline, ttl := t.CompletionPolicy.ActiveDeadlineSeconds, t.CompletionPolicy.TTLSecondsAfterFinished
	r.Refuse(validation.NotNegative(deadline, done.Child("activeDeadlineSeconds"))...)
	r.Refuse(validation.NotNegative(ttl, done.Child("ttlSecondsAfterFinished"))...)
	if t.CompletionPolicy.Type == v1beta1.Never {
		r.unused(deadline != nil, done.Child("activeDeadlineSeconds"))
		r.unused(ttl != nil, done.Child("ttlSecondsAfterFinished"))
	} else if deadline != nil && *deadline >= 0 && *deadline < int64(timeout) {
		r.Refuse(field.Invalid(done.Child("activeDeadlineSeconds"), *deadline, "must not be below pullPolicy.timeoutSeconds"))
	}
}

// pullNodes validates the selectors of a job.
func (r *Reading) pullNodes(path *field.Path, t *pullTemplate) {
	if selector := t.Selector; selector != nil {
		at := path.Child("selector")
		if t.PodSelector != nil {
			r.Refuse(field.Forbidden(path.Child("podSelector"), "cannot be used together with selector"))
		}
		seen := map[string]bool{}
		for i, name := range selector.Names {
			if seen[name] {
				r.Refuse(field.Duplicate(at.Child("names").Index(i), name))
			}
			seen[name] = true
		}
		if len(selector.Names) > 0 && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
			r.Refuse(field.Forbidden(at.Child("names"), "cannot be used together with labels"))
		}
		r.labels(at, &selector.LabelSelector)
	}
	if t.PodSelector != nil {
		r.labels(path.Child("podSelector"), &t.PodSelector.LabelSelector)
	}
}

func (r *Reading) labels(path *field.Path, selector *metav1.LabelSelector) {
	if errs := validation.NotTooMany(apps.SelectorTerms(selector), path); len(errs) > 0 {
		r.Refuse(errs...)
		return
	}
	r.Refuse(validation.LabelSelector(selector, path)...)
}

// wholeNumber validates a number of Nodes: an integer of 0 or more, also as a string. A percentage is refused.
func wholeNumber(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	n := int64(value.IntVal)
	if value.Type == intstr.String {
		parsed, err := strconv.ParseInt(value.StrVal, 10, 32)
		if err != nil {
			return field.ErrorList{field.Invalid(path, value.StrVal, "must be an integer of 0 or more, not a percentage")}
		}
		n = parsed
	}
	if n < 0 {
		return field.ErrorList{field.Invalid(path, n, "must be 0 or more")}
	}
	return nil
}
