package imagepulljob

import (
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/imagepulljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// settings are the values of a parsed spec, computed once for each spec.
type settings struct {
	// Problems are the invalid values of the spec. If there are problems, no other field may be used.
	Problems reason.List

	image  imagepull.Reference
	rules  imagepull.Rules
	policy imagepull.Policy // the pull policy in the NodeImages
	// names are the names of the selected Nodes, in the order of the spec. If names is nil, nodes selects by labels.
	// If pods is not nil, the job selects the Nodes of the Pods that pods matches.
	names []string
	nodes labels.Selector
	pods  labels.Selector
	// secrets are the names of pull secrets. isCopied means that agents need copies of these Secrets.
	secrets  []string
	isCopied bool
}

// rulesOfManager are settings of the manager that concern all jobs.
type rulesOfManager struct {
	// keep is how long a pulled tag stays in NodeImages beyond the TTL that follows from the spec.
	keep time.Duration
	// registries are the registries from which jobs may pull.
	registries imagepull.Registries
}

// settingsOf returns the settings of a job, even if the job is invalid.
func (m *rulesOfManager) settingsOf(job *v1beta1.ImagePullJob) *settings {
	s, problems, _ := m.resolve(job)
	s.Problems = problems.Reasons()
	return s
}

// resolve parses and validates a job's spec, with or without defaults. Problems are values with which the controller
// cannot work. Warnings are values that the controller can use, but that are probably a mistake.
func (m *rulesOfManager) resolve(job *v1beta1.ImagePullJob) (s *settings, problems, warnings judge.Faults) {
	spec, read, path := &job.Spec, &judge.Reading{}, field.NewPath("spec")
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return &settings{}, left, nil // further checks would only report missing values
	}
	read.ImagePullJob(path, spec)
	if len(read.Problems) > 0 {
		return &settings{}, read.Problems, read.Warnings
	}
	s = &settings{secrets: spec.PullSecrets, isCopied: len(spec.PullSecrets) > 0 && job.Namespace != apps.NamespacePullSecrets}
	s.image, _ = imagepull.Parse(spec.Image) // checked before
	if err := m.registries.Allow(s.image); err != nil {
		read.Refuse(field.Forbidden(path.Child("image"), err.Error()))
	}
	s.rules.Rules = rulesOf(spec)
	s.policy = m.policyOf(spec, job.UID)
	s.nodes = labels.Everything()
	switch {
	case spec.PodSelector != nil:
		s.pods = compiled(&spec.PodSelector.LabelSelector)
	case spec.Selector != nil && len(spec.Selector.Names) > 0:
		s.names = spec.Selector.Names
	case spec.Selector != nil:
		s.nodes = compiled(&spec.Selector.LabelSelector)
	}
	return s, read.Problems, read.Warnings
}

// compiled compiles a selector that was checked before.
func compiled(selector *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

func rulesOf(spec *v1beta1.ImagePullJobSpec) completion.Rules {
	rules := completion.Rules{
		Parallelism: api.Parallelism(spec.Parallelism), OnFailure: completion.GoOn, Endless: spec.CompletionPolicy.Type == v1beta1.Never,
		Paths: completion.Paths{Parallelism: "spec.parallelism", Deadline: "spec.completionPolicy.activeDeadlineSeconds"},
	}
	if !rules.Endless {
		rules.Deadline = completion.Seconds(spec.CompletionPolicy.ActiveDeadlineSeconds)
		rules.TTL = completion.Seconds(spec.CompletionPolicy.TTLSecondsAfterFinished)
	}
	return rules
}

// These are the times of jobs of type Never, as in OpenKruise.
const (
	neverTTL      = 24 * time.Hour
	neverSpread   = 10 * time.Minute
	neverDeadline = 30 * time.Minute
)

// spread is the upper limit of the jitter that is added to the TTL of a job's tags, so that not all tags are removed
// at the same time.
const spread = 5 * time.Minute

// policyOf returns the pull policy that a job writes into NodeImages. The tag of a job that ends stays for the TTL of
// the job, or its deadline or timeouts if the job has no TTL, plus rulesOfManager.keep and a jitter. The tag of a job
// of type Never is renewed each day.
func (m *rulesOfManager) policyOf(spec *v1beta1.ImagePullJobSpec, uid types.UID) imagepull.Policy {
	limits := ptr.Deref(spec.PullPolicy, v1beta1.PullPolicy{})
	timeout := time.Duration(ptr.Deref(limits.TimeoutSeconds, api.DefaultTimeoutSeconds)) * time.Second
	retries := ptr.Deref(limits.BackoffLimit, api.DefaultBackoffLimit)
	policy := imagepull.Policy{Always: spec.ImagePullPolicy == corev1.PullAlways, Timeout: timeout, Retries: int(retries)}
	if spec.CompletionPolicy.Type == v1beta1.Never {
		policy.Keep = true
		policy.Deadline = new(max(timeout, neverDeadline))
		policy.TTL = new(neverTTL - neverSpread + jitter(uid, 2*neverSpread))
		return policy
	}
	policy.Deadline = completion.Seconds(spec.CompletionPolicy.ActiveDeadlineSeconds)
	ttl := completion.Seconds(spec.CompletionPolicy.TTLSecondsAfterFinished)
	switch {
	case ttl != nil:
	case policy.Deadline != nil:
		ttl = policy.Deadline
	default:
		ttl = new(timeout * time.Duration(min(retries, 1000)))
	}
	policy.TTL = new(*ttl + m.keep + jitter(uid, spread))
	return policy
}

// jitter returns a duration below a limit, in whole seconds. The duration depends on the job's UID alone.
func jitter(uid types.UID, limit time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uid)) // the error is always nil
	return time.Duration(sum.Sum32()%uint32(limit/time.Second)) * time.Second
}

// selects reports whether a job selects a Node by name or by label.
func (s *settings) selects(name string, nodeLabels map[string]string) bool {
	if s.names == nil {
		return s.nodes.Matches(labels.Set(nodeLabels))
	}
	return slices.Contains(s.names, name)
}

// defaultKeep is OpenKruise's default of Options.KeepSeconds. mostKeep is the largest value.
const (
	defaultKeep = 300
	mostKeep    = 31 * 24 * 60 * 60
)

// newRules returns the settings of the manager. A number of seconds outside of OpenKruise's limits becomes the
// nearest limit.
func newRules(keepSeconds int, registries []string) *rulesOfManager {
	return &rulesOfManager{keep: time.Duration(min(max(keepSeconds, 0), mostKeep)) * time.Second, registries: registries}
}
