package imagepulljob

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec returns all errors in a spec.
func validateSpec(rules *rulesOfManager, obj *v1beta1.ImagePullJob) field.ErrorList {
	_, problems, warnings := rules.resolve(obj)
	return append(append(problems.Refusals(), warnings.Refusals()...), validation.PullThrough(obj)...)
}

// validateUpdate returns the errors in an update. An error that old has too, at the same path with the same value, is
// left out. While the job runs, an update is refused if the change would only have an effect on Nodes whose pulls
// have not begun.
func validateUpdate(rules *rulesOfManager, obj, old *v1beta1.ImagePullJob) field.ErrorList {
	problems := validation.NewProblems(validateSpec(rules, obj), validateSpec(rules, old))
	path := field.NewPath("spec")
	if !slices.Equal(obj.Spec.PullSecrets, old.Spec.PullSecrets) {
		problems = append(problems, field.Forbidden(path.Child("pullSecrets"), "is immutable; create another job"))
	}
	if hasEnded(old) {
		return problems
	}
	for _, fixed := range []struct {
		name    string
		changed bool
	}{
		{"pullPolicy", !equality.Semantic.DeepEqual(obj.Spec.PullPolicy, old.Spec.PullPolicy)},
		{"imagePullPolicy", obj.Spec.ImagePullPolicy != old.Spec.ImagePullPolicy},
		{"sandboxConfig", !equality.Semantic.DeepEqual(obj.Spec.SandboxConfig, old.Spec.SandboxConfig)},
	} {
		if fixed.changed {
			problems = append(problems, field.Forbidden(path.Child(fixed.name), "cannot be changed while the job runs: Nodes that pull already would keep the old value"))
		}
	}
	return problems
}
