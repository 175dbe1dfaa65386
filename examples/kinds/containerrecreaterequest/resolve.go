package containerrecreaterequest

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// settings are the values of a request's spec, with all defaults set. A time that is not set is nil.
type settings struct {
	pod string
	// The containers are in the order of the restarts.
	containers                                []v1beta1.ContainerRecreateRequestContainer
	ordered, force, ignoresFailures           bool
	minStarted, grace, unready, deadline, ttl *time.Duration
}

// minDeadline is the smallest allowed activeDeadlineSeconds, because agent and controller need a few seconds to
// react.
const minDeadline = 3

func podPath() *field.Path            { return field.NewPath("spec", "podName") }
func containerPath(i int) *field.Path { return field.NewPath("spec", "containers").Index(i) }

// resolve parses and validates the spec, with or without defaults. Problems are values with which neither controller
// nor agent can work; no container is then restarted. No value leads to a warning. A negative minStartedSeconds and
// ttlSecondsAfterFinished are problems too, although OpenKruise 1.9 accepts both in v1alpha1.
func resolve(spec *v1beta1.ContainerRecreateRequestSpec) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, path := &judge.Reading{}, field.NewPath("spec")
	if spec.PodName == "" {
		read.Refuse(field.Required(podPath(), "name a Pod of this namespace"))
	}
	if len(spec.Containers) == 0 {
		read.Refuse(field.Required(path.Child("containers"), "name at least one container of the Pod"))
	}
	names := sets.New[string]()
	for i := range spec.Containers {
		name := spec.Containers[i].Name
		if names.Has(name) {
			read.Refuse(field.Duplicate(containerPath(i).Child("name"), name))
		}
		names.Insert(name)
	}
	const ignore = v1beta1.ContainerRecreateRequestFailurePolicyIgnore
	strategy, at := ptr.Deref(spec.Strategy, v1beta1.ContainerRecreateRequestStrategy{}), path.Child("strategy")
	judge.OneOf(read, at.Child("failurePolicy").String(), strategy.FailurePolicy,
		v1beta1.ContainerRecreateRequestFailurePolicyFail, ignore)
	s = &settings{
		pod: spec.PodName, containers: spec.Containers, ordered: strategy.OrderedRecreate, force: strategy.ForceRecreate,
		ignoresFailures: cmp.Or(strategy.FailurePolicy, api.DefaultFailurePolicy) == ignore,

		deadline:   seconds(read, path.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, minDeadline),
		ttl:        seconds(read, path.Child("ttlSecondsAfterFinished"), spec.TTLSecondsAfterFinished, 0),
		grace:      seconds(read, at.Child("terminationGracePeriodSeconds"), strategy.TerminationGracePeriodSeconds, 0),
		unready:    seconds(read, at.Child("unreadyGracePeriodSeconds"), strategy.UnreadyGracePeriodSeconds, 0),
		minStarted: seconds(read, at.Child("minStartedSeconds"), &strategy.MinStartedSeconds, 0),
	}
	return s, read.Problems, read.Warnings
}

// seconds parses an optional number of seconds.
func seconds[T int32 | int64](read *judge.Reading, path *field.Path, n *T, least T) *time.Duration {
	if n == nil {
		return nil
	}
	if *n < least {
		read.Refuse(field.Invalid(path, *n, fmt.Sprintf("must be at least %d", least)))
	}
	return new(time.Duration(min(int64(*n), math.MaxInt64/int64(time.Second))) * time.Second)
}
