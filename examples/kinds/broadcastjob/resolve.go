package broadcastjob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
)

// settings are the values of a spec that do not depend on Nodes and Pods, computed once for each spec.
type settings struct {
	// Problems are the invalid values of the spec. If there are problems, all other fields are empty.
	Problems reason.List

	rules completion.Rules // parallelism is not set, because it may be a percentage
	// requirements are what a new Pod requires of its Node; unmoved is what a running Pod requires of its Node.
	requirements, unmoved *nodefit.Requirements
	size                  nodefit.Size
}

// settingsOf returns the settings of a job, even if the job is invalid.
func settingsOf(job *v1beta1.BroadcastJob) *settings {
	s, problems, _ := resolve(job)
	if problems != nil {
		return &settings{Problems: problems.Reasons()}
	}
	return s
}

// resolve parses and validates a job's spec, with or without defaults. Problems are values with which no controller can
// work; the settings must then not be used. Warnings are values that the controller can use, but that are probably a
// mistake.
func resolve(job *v1beta1.BroadcastJob) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(job.Spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, pod := &judge.Reading{}, &job.Spec.Template.Spec
	read.BroadcastJob(field.NewPath("spec"), &job.Spec)
	if len(read.Problems) > 0 { // with too many requirements, the check of each would take too long
		return nil, read.Problems, read.Warnings
	}
	requirements, err := nodefit.New(pod)
	terms := reason.From(err)
	// A few reasons are enough if thousands of terms have the same error.
	for _, why := range terms[:min(len(terms), kruise.ReasonsInEvent)] {
		why.Path = "spec.template." + why.Path
		read.Problems = append(read.Problems, judge.Fault{Reason: why}) // the API server refuses such templates
	}
	unmoved, _ := nodefit.New(pod, nodefit.HealthTolerations()...)
	s = &settings{rules: rulesOf(&job.Spec), requirements: requirements, unmoved: unmoved, size: nodefit.SizeOf(pod)}
	return s, read.Problems, read.Warnings
}

func rulesOf(spec *v1beta1.BroadcastJobSpec) completion.Rules {
	rules := completion.Rules{
		Endless: spec.CompletionPolicy.Type == v1beta1.Never, Paused: spec.Paused,
		Paths: completion.Paths{
			Parallelism: "spec.parallelism", Paused: "spec.paused", OnFailure: "spec.failurePolicy.type", Deadline: "spec.completionPolicy.activeDeadlineSeconds",
		},
	}
	if !rules.Endless {
		rules.Deadline = completion.Seconds(spec.CompletionPolicy.ActiveDeadlineSeconds)
		rules.TTL = completion.Seconds(spec.CompletionPolicy.TTLSecondsAfterFinished)
	}
	switch spec.FailurePolicy.Type {
	case v1beta1.FailurePolicyTypeContinue:
		rules.OnFailure = completion.GoOn
	case v1beta1.FailurePolicyTypePause:
		rules.OnFailure = completion.Hold
	default:
		rules.OnFailure = completion.End
	}
	return rules
}

// Claim returns whether the job may create Pods on a Node, and whether running Pods may stay there. A job with an
// invalid spec may use no Node.
func (s *settings) Claim(node *corev1.Node) completion.Claim {
	if s.Problems != nil || s.size.Fits(node) != nil {
		return completion.Claim{}
	}
	return completion.Claim{Fits: s.requirements.Fits(node).Run, Keeps: s.unmoved.Fits(node).Run}
}

// Place restricts a new Pod to the given Node; the scheduler still binds the Pod.
func (s *settings) Place(pod *corev1.Pod, node string) { s.requirements.Place(pod, node) }
