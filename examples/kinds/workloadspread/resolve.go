package workloadspread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

// settings are the values of a WorkloadSpread's compiled spec.
type settings struct {
	kind schema.GroupKind // kind of the target
	name string           // name of the target
	// selector selects the Pods of the target.
	selector labels.Selector
	// paths lists paths in the target that lead to integers; their sum is the number of wanted Pods. If there are no
	// paths, the number is read from the field that the kind uses.
	paths   [][]string
	subsets []subset
	rules   *subsets.Rules
	policy  subsets.Policy
	// scaled is true if a maximum is a percentage of the number of wanted Pods.
	scaled bool
}

// subset is the compiled spec of a subset.
type subset struct {
	name        string
	required    *corev1.NodeSelectorTerm // nil if there is no requirement
	preferred   []corev1.PreferredSchedulingTerm
	tolerations []corev1.Toleration
	patch       []byte
}

const (
	// mostSubsets is the largest number of subsets in a spec, because the status has an entry for each subset and each
	// version of the workload.
	mostSubsets = 100
	// longestName is the largest length of a subset's name.
	longestName = 253
	// slowest is the largest value of the field with the time, in seconds, after which an unschedulable Pod is
	// deleted. With a larger value, the first subset would be open again before a Pod was created in each of the
	// subsets.
	slowest = 295
)

func targetPath() *field.Path { return field.NewPath("spec", "targetRef") }

// targetIn returns the kind and the name of the target in a spec.
func targetIn(spec *v1beta1.WorkloadSpreadSpec) (schema.GroupKind, string) {
	ref := &spec.TargetReference
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), ref.Name
}

// resolve parses and validates the spec. Problems are values with which the controller cannot work; no Pods are then
// assigned to subsets. Warnings are values that the controller can use, but that are probably a mistake.
func resolve(spec *v1beta1.WorkloadSpreadSpec) (s *settings, problems, warnings judge.Faults) {
	read, path, ref := &judge.Reading{}, field.NewPath("spec"), spec.TargetReference
	s = &settings{name: ref.Name, selector: labels.Everything(), policy: subsets.Policy{CreatingFor: longestRequest + subsets.RenewedAfter}}
	s.kind = read.Target(targetPath(), ref.APIVersion, ref.Kind, ref.Name)
	if spec.TargetFilter != nil {
		s.readFilter(read, spec.TargetFilter, path.Child("targetFilter"))
	}
	s.readSubsets(read, spec.Subsets, path.Child("subsets"))
	s.readMaximums(read, spec.Subsets, path.Child("subsets"))
	s.readStrategy(read, spec, path.Child("scheduleStrategy"))
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return s, left, nil // further checks would only report missing values
	}
	return s, read.Problems, read.Warnings
}

func (s *settings) readFilter(read *judge.Reading, filter *v1beta1.WorkloadSpreadTargetFilter, path *field.Path) {
	if filter.Selector != nil {
		at := path.Child("selector")
		errs := validation.NotTooMany(apps.SelectorTerms(filter.Selector), at)
		if len(errs) == 0 {
			errs = validation.LabelSelector(filter.Selector, at)
		}
		if read.Refuse(errs...); len(errs) == 0 {
			s.selector = read.Selector(at.String(), filter.Selector)
		}
	}
	read.Warn(validation.NotTooMany(len(filter.ReplicasPathList), path.Child("replicasPathList"))...)
	for i, text := range filter.ReplicasPathList {
		steps, ok := api.Steps(text)
		if !ok {
			read.Refuse(field.Invalid(path.Child("replicasPathList").Index(i), text, "must be a path such as spec.groups.1.replicas"))
			continue
		}
		s.paths = append(s.paths, steps)
	}
}

func (s *settings) readSubsets(read *judge.Reading, list []v1beta1.WorkloadSpreadSubset, path *field.Path) {
	switch n := len(list); {
	case n == 0:
		read.Refuse(field.Required(path, "at least a subset"))
	case n > mostSubsets:
		read.Refuse(field.TooMany(path, n, mostSubsets))
		return
	}
	divided := make([]subsets.Subset, len(list))
	for i := range list {
		from, at := &list[i], path.Index(i)
		to := subset{name: from.Name, preferred: from.PreferredNodeSelector, tolerations: from.Tolerations}
		if term := from.RequiredNodeSelector; term != nil && len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			to.required = term
		}
		if from.Patch != nil {
			to.patch = from.Patch.Raw
		}
		if len(to.name) > longestName {
			read.Refuse(field.TooLong(at.Child("name"), to.name, longestName))
		}
		judgeNodes(read, from, at)
		judgePatch(read, from.Patch, at.Child("patch"))
		s.subsets = append(s.subsets, to)
		divided[i] = subsets.Subset{Name: from.Name, Max: from.MaxReplicas}
	}
	var err error
	s.rules, err = subsets.New(subsets.Config{
		Fill: subsets.InOrder, Rounding: partition.Up, Paths: subsets.Paths{Subsets: path.String(), Max: "maxReplicas"},
	}, divided)
	read.Failed(err)
}

// judgeNodes validates the Node terms and tolerations of a subset, because the API server would refuse all Pods of a
// subset with invalid terms.
func judgeNodes(read *judge.Reading, of *v1beta1.WorkloadSpreadSubset, path *field.Path) {
	terms := apps.NodeTerms(&corev1.PodSpec{Tolerations: of.Tolerations, Affinity: requiring(nil, of.RequiredNodeSelector)})
	if errs := validation.NotTooMany(terms+len(of.PreferredNodeSelector), path); len(errs) > 0 {
		read.Warn(errs...)
		return
	}
	judged := func(spec *corev1.PodSpec, path *field.Path) {
		_, err := nodefit.New(spec)
		for _, why := range reason.From(err) {
			read.Warn(field.Invalid(path, why.New, why.Detail))
		}
	}
	judged(&corev1.PodSpec{Affinity: requiring(nil, of.RequiredNodeSelector)}, path.Child("requiredNodeSelector"))
	judged(&corev1.PodSpec{Tolerations: of.Tolerations}, path.Child("tolerations"))
	for i := range of.PreferredNodeSelector {
		at, term := path.Child("preferredNodeSelector").Index(i), &of.PreferredNodeSelector[i]
		if term.Weight < 1 || term.Weight > 100 {
			read.Warn(field.Invalid(at.Child("weight"), term.Weight, "must be from 1 to 100"))
		}
		judged(&corev1.PodSpec{Affinity: requiring(nil, &term.Preference)}, at.Child("preference"))
	}
}

// identity lists the fields of a Pod's metadata that no patch may change.
func identity() []string {
	return []string{"name", "generateName", "namespace", "uid", "ownerReferences"}
}

// judgePatch validates a patch by applying it to an empty Pod, because a patch that cannot be applied would make all
// Pods of the subset fail.
func judgePatch(read *judge.Reading, patch *runtime.RawExtension, path *field.Path) {
	if patch == nil || !read.Patch(path, patch.Raw) {
		return
	}
	var parts struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(patch.Raw, &parts); err != nil {
		read.Refuse(field.Invalid(path, field.OmitValueType{}, "must be a patch of a Pod, as an object"))
		return
	}
	if _, err := patched(&corev1.Pod{}, patch.Raw); err != nil {
		read.Refuse(field.Invalid(path, field.OmitValueType{}, "cannot be applied to a Pod: "+reason.Shorten(err.Error(), 200)))
	}
	for _, name := range identity() {
		if _, ok := parts.Metadata[name]; ok {
			read.Warn(field.Forbidden(path.Child("metadata", name), "has no effect: a Pod keeps what tells who the Pod is"))
		}
	}
}

// readMaximums validates the maximums of all subsets together. whole is a number of Pods with which percentages are
// converted to numbers.
func (s *settings) readMaximums(read *judge.Reading, list []v1beta1.WorkloadSpreadSubset, path *field.Path) {
	const whole = 1_000_000
	var first *intstr.IntOrString
	sum, last := 0, len(list)-1
	for i := range list {
		value, at := list[i].MaxReplicas, path.Index(i).Child("maxReplicas")
		if value == nil || partition.Validate("", value) != nil {
			continue
		}
		first = cmp.Or(first, value)
		if value.Type != first.Type {
			read.Warn(field.Invalid(at, value.String(), "must be a number or a percentage like the others: "+first.String()))
			return
		}
		if value.Type != intstr.String {
			continue
		}
		s.scaled = true
		if api.IsNumbered(s.kind) {
			read.Warn(field.Invalid(at, value.String(), "must be a number: Pods with numbers would change their subset with each scaling"))
		}
		n, err := partition.Resolve("", value, whole, partition.Up)
		if sum += n; err == nil && sum > whole {
			read.Warn(field.Invalid(at, value.String(), "must not make the sum of all percentages exceed 100%"))
			return
		}
	}
	if s.scaled && sum < whole && list[last].MaxReplicas != nil {
		read.Warn(field.Invalid(path.Index(last).Child("maxReplicas"), list[last].MaxReplicas.String(),
			"must be left out: the percentages are less than 100%, and some Pods would have no subset"))
	}
}

func (s *settings) readStrategy(read *judge.Reading, spec *v1beta1.WorkloadSpreadSpec, path *field.Path) {
	strategy, n := &spec.ScheduleStrategy, len(spec.Subsets)
	types := []v1beta1.WorkloadSpreadScheduleStrategyType{v1beta1.WorkloadSpreadAdaptive, v1beta1.WorkloadSpreadFixed}
	if strategy.Type != "" && !slices.Contains(types, strategy.Type) {
		read.Warn(field.NotSupported(path.Child("type"), strategy.Type, types))
	}
	adaptive, at := strategy.Adaptive, path.Child("adaptive")
	if adaptive == nil {
		return
	}
	if strategy.Type != v1beta1.WorkloadSpreadAdaptive {
		read.Warn(field.Forbidden(at, "has no meaning unless the type is Adaptive"))
	}
	if n > 1 && spec.Subsets[n-1].MaxReplicas != nil {
		read.Warn(field.Invalid(field.NewPath("spec", "subsets").Index(n-1).Child("maxReplicas"),
			spec.Subsets[n-1].MaxReplicas.String(), "must be left out with the type Adaptive: Pods need a last resort"))
	}
	seconds := adaptive.RescheduleCriticalSeconds
	if seconds == nil {
		return
	}
	most := int32(math.MaxInt32)
	if n > 1 {
		most = slowest / int32(min(n-1, slowest))
	}
	if *seconds < 0 || *seconds > most {
		read.Warn(field.Invalid(at.Child("rescheduleCriticalSeconds"), *seconds,
			fmt.Sprintf("must be from 0 to %d for %d subsets", most, n)))
	}
	if strategy.Type == v1beta1.WorkloadSpreadAdaptive {
		s.policy.PendingFor = time.Duration(max(*seconds, 0)) * time.Second
	}
}
