package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// Reading reads and validates the values of a spec: the controller uses the values that the methods return, and
// admission refuses the object because of the Problems and Warnings. The path given to a method is the path of the
// field in the spec. The zero value is valid.
type Reading struct {
	// Problems are values with which the controller cannot work. If there are problems, the reconciliation must end,
	// because no other value can be used instead.
	Problems Faults
	// Warnings are invalid values with which the controller can work: OpenKruise accepts some invalid values
	// silently, and Reading interprets such values as OpenKruise does.
	Warnings Faults
}

// Refuse adds errors to Problems.
func (r *Reading) Refuse(errs ...*field.Error) {
	for _, err := range errs {
		r.Problems = append(r.Problems, Fault{reasonOf(partition.InvalidValue, err), err})
	}
}

// Warn adds errors to Warnings, about values that the controller uses unchanged.
func (r *Reading) Warn(errs ...*field.Error) {
	for _, err := range errs {
		r.Warnings = append(r.Warnings, Fault{reasonOf(OddValue, err), err})
	}
}

// Absent adds errors about missing fields that defaulting would set. The controller uses the defaults, and reports
// nothing.
func (r *Reading) Absent(errs ...*field.Error) {
	for _, err := range errs {
		r.Warnings = append(r.Warnings, Fault{Refusal: err})
	}
}

// Ungated adds a warning about a value that has no effect because its feature gate is off. Admission accepts the value.
func (r *Reading) Ungated(path, value string, gate apps.Gate) {
	r.Warnings = append(r.Warnings, Fault{Reason: reason.Reason{
		Code: OddValue, Path: path, New: value, Detail: "has no effect without the feature gate " + string(gate),
		Remedy: "switch the gate on, or leave the field out",
	}})
}

// Misread adds a warning about a value in place of which the controller uses the value read.
func (r *Reading) Misread(err *field.Error, read, remedy string) {
	why := reasonOf(OddValue, err)
	why.Detail, why.Remedy = "read as "+read, remedy
	r.Warnings = append(r.Warnings, Fault{why, err})
}

// Failed adds the reasons in err to Problems.
func (r *Reading) Failed(err error) {
	var list reason.List
	list.Add(partition.InvalidValue, err)
	for _, why := range list {
		r.Refuse(field.Invalid(field.NewPath(why.Path), Written(why.New), cmp.Or(why.Detail, why.Remedy)))
	}
}

// Replicas returns the number of wanted Pods. A negative number is a problem, and the result is then zero, so that the
// fields that depend on the number can be validated.
func (r *Reading) Replicas(path string, n int32) int {
	r.Refuse(validation.NotNegative(&n, field.NewPath(path))...)
	return int(max(n, 0))
}

// OrZero returns n, or zero with a warning if n is negative.
func (r *Reading) OrZero(path string, n int32) int {
	for _, err := range validation.NotNegative(&n, field.NewPath(path)) {
		r.Misread(err, "0", "use 0 or more")
	}
	return int(max(n, 0))
}

// Count returns a number as it is, or converts a percentage of the total to a number. The result may be more than the
// total. A nil value counts as zero. If the total is zero, a percentage is also validated for a total of one, because
// the spec is not validated again when the workload is scaled up.
func (r *Reading) Count(path string, value *intstr.IntOrString, total int, round partition.Rounding) int {
	errs := validation.CountOf(value, int32(total), field.NewPath(path))
	r.Refuse(errs...)
	if value == nil || len(errs) > 0 {
		return 0
	}
	if total == 0 {
		r.Warn(validation.CountOf(value, 1, field.NewPath(path))...)
	}
	n, err := partition.ResolveUncapped(path, value, total, round)
	r.Failed(err)
	return n
}

// NoneWith adds a problem if the count is above zero; why names the other field whose value forbids such a count. A
// percentage that yields zero Pods only because the total is small becomes a warning.
func (r *Reading) NoneWith(path string, value *intstr.IntOrString, total int, why string) {
	if value == nil {
		return
	}
	switch err := field.Invalid(field.NewPath(path), value.String(), why); {
	case validation.AtLeastOne(*value, int32(total)):
		r.Refuse(err)
	case validation.AtLeastOne(*value, 1):
		r.Warn(err)
	}
}

// LimitAsUpstream converts an optional limit to a number as Count does, but also accepts invalid values that
// OpenKruise accepts. A warning is added if the number used differs from the number written in the spec.
func (r *Reading) LimitAsUpstream(path string, value *intstr.IntOrString, total int, round partition.Rounding) *int {
	if value == nil {
		return nil
	}
	read := validation.AsOpenKruise(*value)
	n := r.Count(path, &read, total, round)
	if read != *value {
		for _, err := range validation.Count(value, field.NewPath(path)) {
			r.Misread(err, quoted(&read), "write what is meant")
		}
	}
	return &n
}

func quoted(value *intstr.IntOrString) string {
	if value.Type == intstr.String {
		return strconv.Quote(value.StrVal)
	}
	return value.String()
}

// Kept converts a partition to the number of Pods that stay at the old revision.
func (r *Reading) Kept(path string, value *intstr.IntOrString, replicas int) int {
	if r.Count(path, value, replicas, partition.Up) == 0 {
		return 0
	}
	n, err := partition.Kept(path, value, new(int32(replicas)))
	r.Failed(err)
	return n
}

// Selector compiles the label selector of a workload, and adds a problem if the selector is invalid.
func (r *Reading) Selector(path string, selector *metav1.LabelSelector) labels.Selector {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		r.Refuse(field.Invalid(field.NewPath(path), metav1.FormatLabelSelector(selector), err.Error()))
	}
	return compiled
}

// Pods compiles the selector of a workload's Pods, and checks that the labels of the Pod template match. Users must not
// set the reserved labels, which belong to the controller. path is the path of the spec.
func (r *Reading) Pods(path string, selector *metav1.LabelSelector, template map[string]string,
	reserved []string,
) labels.Selector {
	if errs := validation.Selector(selector, template, reserved, field.NewPath(path)); len(errs) > 0 {
		r.Refuse(errs...)
		return labels.Nothing()
	}
	return r.Selector(path+".selector", selector)
}

// Template validates a Pod template, whose Pods must have the restartPolicy Always. Users must not set the reserved
// labels, which belong to the controller.
func (r *Reading) Template(path string, template *corev1.PodTemplateSpec, reserved []string) {
	at := field.NewPath(path)
	r.Warn(validation.LongRunning(template, at)...)
	r.Warn(validation.Reserved(template, reserved, at.Child("metadata"))...)
}

// InPlace validates the settings for in-place updates.
func (r *Reading) InPlace(path string, strategy *pub.InPlaceUpdateStrategy) {
	for i, err := range validation.InPlaceStrategy(strategy, field.NewPath(path)) {
		if i == 0 && strategy.GracePeriodSeconds < 0 {
			r.Misread(err, "0", "use 0 or more")
			continue
		}
		r.Warn(err)
	}
}

// Target returns the group and kind of the referenced workload. The version in the reference may be any version.
func (r *Reading) Target(path *field.Path, apiVersion, kind, name string) schema.GroupKind {
	for _, part := range [][3]string{
		{"apiVersion", apiVersion, "group and version of the workload"}, {"kind", kind, "its kind"}, {"name", name, "its name"},
	} {
		if part[1] == "" {
			r.Refuse(field.Required(path.Child(part[0]), part[2]))
		}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		r.Refuse(field.Invalid(path.Child("apiVersion"), apiVersion, "is no group and version: "+err.Error()))
		return schema.GroupKind{}
	}
	for _, problem := range apivalidation.NameIsDNSSubdomain(cmp.Or(name, "missing"), false) {
		r.Refuse(field.Invalid(path.Child("name"), name, problem))
	}
	return schema.GroupKind{Group: gv.Group, Kind: kind}
}

// mostPatched limits the total number of list elements in a patch. The time of a strategic merge grows with the square
// of this number. A merge is needed for each Pod, and cannot be interrupted.
const mostPatched = 500

// Patch refuses a strategic merge patch with too many list elements, and reports whether the patch may be applied.
func (r *Reading) Patch(path *field.Path, patch []byte) bool {
	n := decode.Elements(patch)
	if n > mostPatched {
		r.Refuse(field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("has %d elements in its lists, at most %d are taken", n, mostPatched)))
	}
	return n <= mostPatched
}

// OneOf adds a problem if a value is not one of the allowed values. An empty value is accepted, and stands for the
// default.
func OneOf[T ~string](r *Reading, path string, value T, allowed ...T) {
	if value != "" && !slices.Contains(allowed, value) {
		r.Refuse(field.NotSupported(field.NewPath(path), value, allowed))
	}
}

// Order compiles the order in which Pods are updated from the priorities and scatter terms of a spec.
func (r *Reading) Order(path string, priority *pub.PriorityStrategy, scatter []pub.ScatterTerm) (p podorder.Priority,
	s podorder.Scatter,
) {
	if errs := validation.Priority(priority, field.NewPath(path+".priorityStrategy")); len(errs) > 0 {
		r.Refuse(errs...)
	} else if priority != nil {
		p = r.priority(path+".priorityStrategy", priority)
	}
	if errs := validation.Scatter(scatter, field.NewPath(path+".scatterStrategy")); len(errs) > 0 {
		r.Refuse(errs...)
		return p, s
	}
	terms := make([]podorder.ScatterTerm, len(scatter))
	for i := range scatter {
		terms[i] = podorder.ScatterTerm{Key: scatter[i].Key, Value: scatter[i].Value}
	}
	s, err := podorder.CompileScatter(path+".scatterStrategy", terms)
	r.Failed(err)
	return p, s
}

func (r *Reading) priority(path string, priority *pub.PriorityStrategy) (p podorder.Priority) {
	var err error
	switch {
	case len(priority.WeightPriority) > 0:
		terms := make([]podorder.WeightTerm, len(priority.WeightPriority))
		for i := range priority.WeightPriority {
			terms[i] = podorder.WeightTerm{
				Selector: &priority.WeightPriority[i].MatchSelector,
				Weight:   priority.WeightPriority[i].Weight,
			}
		}
		p, err = podorder.CompileWeights(path+".weightPriority", terms)
	case len(priority.OrderPriority) > 0:
		terms := make([]podorder.OrderTerm, len(priority.OrderPriority))
		for i := range priority.OrderPriority {
			terms[i] = podorder.OrderTerm{Key: priority.OrderPriority[i].OrderedKey}
		}
		p, err = podorder.CompileOrder(path+".orderPriority", terms)
	}
	r.Failed(err)
	return p
}
