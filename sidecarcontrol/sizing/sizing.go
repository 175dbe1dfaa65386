package sizing

import (
	"fmt"
	"math/big"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidExpression means that a policy is invalid. The reason has the path of the field within the policy, and its
	// value.
	InvalidExpression reason.Code = "InvalidExpression"
	// NoTargetContainer means that a Pod has no target container, so the policy has no resources to compute from.
	NoTargetContainer reason.Code = "NoTargetContainer"
)

// Mode says how to combine the resources of several containers.
type Mode string

const (
	// Sum adds the resources.
	Sum Mode = "sum"
	// Max takes the largest value of each resource.
	Max Mode = "max"
)

// Expressions are the formulas for the sidecar's cpu and memory. An empty expression leaves the resource unset.
type Expressions struct {
	CPU, Memory string
}

// Policy says how to compute a sidecar's resources.
type Policy struct {
	Mode Mode
	// Containers is a regular expression, in the syntax of package regexp. Every container whose name contains a match
	// is a target. Containers must not be empty.
	Containers string
	// Limits are computed from the limits of the target containers, and Requests from their requests.
	Limits, Requests Expressions
}

// Sizes is a validated and compiled Policy. Sizes is immutable, and safe for concurrent use. Make Sizes with Compile.
type Sizes struct {
	mode    Mode
	names   *regexp.Regexp
	entries []entry
}

// entry is an expression and the resource that it computes.
type entry struct {
	path   string
	text   string
	limit  bool
	name   corev1.ResourceName
	result *node
}

// Compile validates and compiles a policy. The error is a reason.List with code InvalidExpression. The list names every
// invalid field by its path: targetContainersMode, targetContainersNameRegex, or a path such as
// resourcesExpr.limits.cpu.
func Compile(p Policy) (*Sizes, error) {
	s := &Sizes{mode: p.Mode}
	var problems reason.List
	refuse := func(path, value, detail string) {
		problems = append(problems, reason.Reason{Code: InvalidExpression, Path: path, New: reason.Shorten(value, 100), Detail: detail})
	}
	if p.Mode != Sum && p.Mode != Max {
		refuse("targetContainersMode", string(p.Mode), "must be sum or max")
	}
	const names = "targetContainersNameRegex"
	var err error
	if p.Containers == "" {
		refuse(names, "", "is required")
	} else if s.names, err = regexp.Compile(p.Containers); err != nil {
		refuse(names, p.Containers, err.Error())
	}
	for _, e := range []entry{
		{path: "resourcesExpr.limits.cpu", text: p.Limits.CPU, limit: true, name: corev1.ResourceCPU},
		{path: "resourcesExpr.limits.memory", text: p.Limits.Memory, limit: true, name: corev1.ResourceMemory},
		{path: "resourcesExpr.requests.cpu", text: p.Requests.CPU, name: corev1.ResourceCPU},
		{path: "resourcesExpr.requests.memory", text: p.Requests.Memory, name: corev1.ResourceMemory},
	} {
		if e.text == "" {
			continue
		}
		if e.result, err = parse(e.text, string(e.name)); err == nil && e.result.constant() {
			_, err = e.quantity(nil)
		}
		if err != nil {
			refuse(e.path, e.text, err.Error())
		}
		s.entries = append(s.entries, e)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// Selects reports whether the sidecar's resources are computed from the resources of a container with this name.
func (s *Sizes) Selects(container string) bool { return s.names.MatchString(container) }

// Of computes the resources of a sidecar from the resources of the target containers. If any target container has no
// limit for a resource, the sidecar gets no limit either, whatever the expression for the limit is. A missing request
// counts as zero. The error is a reason.List: NoTargetContainer if there are no targets, InvalidExpression if a
// result is negative, or too large for a quantity.
func (s *Sizes) Of(targets []corev1.ResourceRequirements) (corev1.ResourceRequirements, error) {
	if len(targets) == 0 {
		return corev1.ResourceRequirements{}, reason.List{{
			Code: NoTargetContainer, Path: "targetContainersNameRegex", New: reason.Shorten(s.names.String(), 100),
			Detail: "matches none of the Pod's containers", Remedy: "add a container that it matches, or change the expression",
		}}
	}
	var out corev1.ResourceRequirements
	var problems reason.List
	for _, e := range s.entries {
		aggregate, bounded := s.aggregate(&e, targets)
		if !bounded {
			continue
		}
		q, err := e.quantity(aggregate)
		if err != nil {
			problems = append(problems, reason.Reason{
				Code: InvalidExpression, Path: e.path, New: reason.Shorten(e.text, 100),
				Detail: fmt.Sprintf("%v, with %s as %s", err, decimal(aggregate), e.name),
			})
			continue
		}
		list := &out.Requests
		if e.limit {
			list = &out.Limits
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[e.name] = q
	}
	if len(problems) > 0 {
		return corev1.ResourceRequirements{}, problems
	}
	return out, nil
}

// aggregate returns the combined resource of the targets, and false for a limit that a target does not set.
func (s *Sizes) aggregate(e *entry, targets []corev1.ResourceRequirements) (*big.Rat, bool) {
	total := new(big.Rat)
	for i := range targets {
		list := targets[i].Requests
		if e.limit {
			list = targets[i].Limits
		}
		q, set := list[e.name]
		if !set && e.limit {
			return nil, false
		}
		if value := exact(q); s.mode == Sum {
			total.Add(total, value)
		} else if i == 0 || value.Cmp(total) > 0 {
			total = value
		}
	}
	return total, true
}

// exact returns the value of a quantity as a fraction. The parameter is a copy, because AsDec changes the quantity's
// representation.
func exact(q resource.Quantity) *big.Rat {
	d := q.AsDec()
	out := new(big.Rat).SetInt(d.UnscaledBig())
	if scale := int(d.Scale()); scale > 0 {
		return out.Quo(out, powerOf(10, scale))
	} else if scale < 0 {
		return out.Mul(out, powerOf(10, -scale))
	}
	return out
}

// quantity evaluates the expression of an entry as a quantity.
func (e *entry) quantity(variable *big.Rat) (resource.Quantity, error) {
	value := e.result.eval(variable)
	format := resource.DecimalSI
	if e.name == corev1.ResourceMemory {
		format = resource.BinarySI
		if !e.result.quantity { // memory is in bytes, and fractions of a byte are impossible
			value = new(big.Rat).SetInt(whole(value))
		}
	}
	if value.Sign() < 0 {
		return resource.Quantity{}, fmt.Errorf("the result %s is negative", decimal(value))
	}
	// A value may be too large for an int64 in thousandths, and still fit into an int64 in whole units.
	if milli := whole(new(big.Rat).Mul(value, thousand())); milli.IsInt64() {
		return *resource.NewMilliQuantity(milli.Int64(), format), nil
	}
	if units := whole(value); units.IsInt64() {
		return *resource.NewQuantity(units.Int64(), format), nil
	}
	return resource.Quantity{}, fmt.Errorf("the result %s is larger than any quantity", decimal(value))
}

// decimal formats a value for messages. The value may have a million digits.
func decimal(value *big.Rat) string {
	const most = 40
	if value == nil {
		return "nothing"
	}
	if value.IsInt() {
		return reason.Shorten(value.Num().String(), most)
	}
	return reason.Shorten(value.FloatString(3), most)
}
