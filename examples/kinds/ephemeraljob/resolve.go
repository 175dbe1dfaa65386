package ephemeraljob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/ephemeraljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/reason"
)

// NoContainers means that the template of a job has no containers.
const NoContainers reason.Code = "NoContainers"

// settings are the values of a parsed spec, computed once for each spec.
type settings struct {
	// Problems are the invalid values of the spec. If there are problems, only the selector may be used.
	Problems reason.List

	selector   labels.Selector
	replicas   *int // nil means all Pods
	rules      completion.Rules
	containers []corev1.EphemeralContainer
}

// settingsOf returns the settings of a job, even if the job is invalid.
func settingsOf(job *v1alpha1.EphemeralJob) *settings {
	s, problems, _ := resolve(job)
	s.Problems = problems.Reasons()
	return s
}

// resolve parses and validates a job's spec. Problems are values with which the controller cannot work. Warnings are
// values that the controller can use, but that are probably a mistake.
func resolve(job *v1alpha1.EphemeralJob) (s *settings, problems, warnings judge.Faults) {
	spec, read, path := &job.Spec, &judge.Reading{}, field.NewPath("spec")
	s = &settings{selector: labels.Nothing()}
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return s, left, nil // further checks would only report missing values
	}
	s.selector = selects(read, path.Child("selector"), spec.Selector)
	if spec.Replicas != nil {
		n := read.OrZero("spec.replicas", *spec.Replicas)
		s.replicas = &n
	}
	ttl := api.TTLSecondsAfterFinished(spec)
	s.rules = completion.Rules{
		Parallelism: read.OrZero("spec.parallelism", api.Parallelism(spec)), Paused: spec.Paused, OnFailure: completion.GoOn,
		Deadline: completion.Seconds(spec.ActiveDeadlineSeconds), TTL: completion.Seconds(&ttl),
		Paths: completion.Paths{Parallelism: "spec.parallelism", Paused: "spec.paused", Deadline: "spec.activeDeadlineSeconds"},
	}
	read.Warn(validation.NotNegative(spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	read.Warn(validation.NotNegative(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	s.containers = spec.Template.EphemeralContainers
	at := path.Child("template", "ephemeralContainers")
	invalid, absent := validation.EphemeralContainers(s.containers, at)
	read.Refuse(invalid...)
	read.Absent(absent...)
	if len(s.containers) == 0 { // admission accepts an empty list, as OpenKruise does
		read.Problems = append(read.Problems, judge.Fault{Reason: reason.Reason{
			Code: NoContainers, Path: at.String(), Detail: "there is nothing to run", Remedy: "name a container",
		}})
	}
	return s, read.Problems, read.Warnings
}

// selects compiles the selector of a job. An empty selector selects no Pods, as in OpenKruise.
func selects(read *judge.Reading, path *field.Path, selector *metav1.LabelSelector) labels.Selector {
	if isEmpty(selector) {
		return labels.Nothing()
	}
	errs := validation.NotTooMany(apps.SelectorTerms(selector), path)
	if len(errs) == 0 {
		errs = validation.LabelSelector(selector, path)
	}
	read.Refuse(errs...)
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || len(errs) > 0 {
		return labels.Nothing()
	}
	return compiled
}

func isEmpty(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// marked returns the containers to add, with the job's UID in their environment.
func (s *settings) marked(job types.UID) []corev1.EphemeralContainer {
	containers := slices.Clone(s.containers)
	for i := range containers {
		c := &containers[i]
		c.Env = append(slices.DeleteFunc(slices.Clone(c.Env), func(e corev1.EnvVar) bool { return e.Name == apps.EnvEphemeralJobID }),
			corev1.EnvVar{Name: apps.EnvEphemeralJobID, Value: string(job)})
	}
	return containers
}
