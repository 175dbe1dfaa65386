package subsets

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// Fill says how replicas are divided among subsets after every minimum is met. A caller must set one of the values.
type Fill string

const (
	// InOrder fills each subset up to its maximum before the next subset gets Pods.
	InOrder Fill = "InOrder"
	// ByWeight gives each subset Pods in proportion to Subset.Weight, within the bounds. If no bound is a percentage,
	// scaling up never removes a Pod from a subset.
	ByWeight Fill = "ByWeight"
	// Fixed gives each subset exactly Subset.Replicas, and divides the remaining replicas evenly among the subsets that
	// have no Replicas. Replicas that cannot be divided evenly go to the subsets with the most Pods, and among subsets
	// with equally many Pods to the subset with the later name.
	Fixed Fill = "Fixed"
)

// Subset is a part of a workload, as specified by a user. Numbers may be counts or percentages of all replicas.
type Subset struct {
	// Name identifies the subset. Required.
	Name string
	// Replicas is the fixed share, nil for an even part of the remaining replicas. Replicas may be set only with Fixed.
	Replicas *intstr.IntOrString
	// Min and Max bound the number of Pods; nil means 0 and no limit. They must not be set with Fixed.
	Min, Max *intstr.IntOrString
	// Weight is the subset's weight, at least 1. Weight may be set only with ByWeight.
	Weight int32
}

// Config has the settings for dividing replicas.
type Config struct {
	// Fill is required.
	Fill Fill
	// Rounding says how percentages are rounded.
	Rounding partition.Rounding
	// Stay keeps settled Pods in their subset, even if a preferred subset can get Pods again. If Stay is false, a
	// subset that is opened again gets its whole share at once, and running Pods elsewhere are deleted.
	Stay bool
	// Reserve lets the pending Pods of a closed subset keep their place: the subset keeps State.Replicas Pods, and other
	// subsets get substitutes until the Pods have settled. If Reserve is false, pending Pods lose their place. Reserve
	// may be set only with InOrder, and not together with Stay, because the substitutes would stay, too.
	Reserve bool
	// Paths are the paths of the API fields, used only in errors and reasons.
	Paths Paths
}

// Paths are field paths and field names, such as "spec.topology.subsets" and "maxReplicas". For example, the path of a
// subset's field is "spec.topology.subsets[zone-a].maxReplicas". Empty fields default to "replicas", "subsets",
// "replicas", "minReplicas", "maxReplicas" and "weight".
type Paths struct {
	// Total is the path of the number of replicas, and Subsets the path of the list.
	Total, Subsets string
	// Replicas, Min, Max and Weight are the names of a subset's fields.
	Replicas, Min, Max, Weight string
}

func (p Paths) orDefaults() Paths {
	for _, field := range []struct {
		path *string
		name string
	}{
		{&p.Total, "replicas"},
		{&p.Subsets, "subsets"},
		{&p.Replicas, "replicas"},
		{&p.Min, "minReplicas"},
		{&p.Max, "maxReplicas"},
		{&p.Weight, "weight"},
	} {
		if *field.path == "" {
			*field.path = field.name
		}
	}
	return p
}

// Rules divide replicas among subsets, compiled by New. Rules never change and are safe for concurrent use. The zero
// value returns an error from Divide.
type Rules struct {
	config  Config
	subsets []compiled
}

// compiled is a Subset with the paths of its fields.
type compiled struct {
	Subset

	path, sharePath, minPath, maxPath string
}

// New compiles the subsets, which are in the order of preference. The caller may modify the subsets afterwards.
//
// The error is a reason.List with a reason for each invalid field: InvalidSubsets, or partition.InvalidValue for a
// number or percentage. Some errors depend on the number of replicas and are found only by Rules.Divide: whether fixed
// shares add up to the replicas, and whether a minimum in percent is above a maximum in Pods.
func New(config Config, subsets []Subset) (*Rules, error) {
	config.Paths = config.Paths.orDefaults()
	r := &Rules{config: config, subsets: make([]compiled, len(subsets))}
	var problems reason.List
	if config.Fill != InOrder && config.Fill != ByWeight && config.Fill != Fixed {
		problems = append(problems, reason.Reason{
			Code: InvalidSubsets, Path: config.Paths.Subsets,
			New: strconv.Quote(reason.Shorten(string(config.Fill), 40)), Detail: "no way to fill subsets",
			Remedy: "use InOrder, ByWeight or Fixed",
		})
	}
	if config.Rounding > partition.Nearest {
		problems = append(problems, reason.Reason{
			Code: InvalidSubsets, Path: config.Paths.Subsets, New: strconv.Itoa(int(config.Rounding)),
			Detail: "no rounding", Remedy: "use Down, Up or Nearest of package partition",
		})
	}
	if config.Reserve && (config.Stay || config.Fill != InOrder) {
		problems = append(problems, reason.Reason{
			Code: InvalidSubsets, Path: config.Paths.Subsets,
			Detail: "substitutes are for subsets filled in order, whose Pods may move",
			Remedy: "leave out Reserve, or use InOrder without Stay",
		})
	}
	seen := make(map[string]bool, len(subsets))
	for i, s := range subsets {
		c := config.compile(s, i)
		if problem := nameProblem(s.Name, seen); problem != "" {
			problems = append(problems, misnamed(c.path+".name", s.Name, problem))
		}
		seen[s.Name] = true
		problems = append(problems, config.problems(&c)...)
		r.subsets[i] = c
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

func nameProblem(name string, seen map[string]bool) string {
	switch {
	case name == "":
		return "the subset has no name"
	case seen[name]:
		return "an earlier subset has the name"
	}
	return ""
}

func misnamed(path, name, problem string) reason.Reason {
	return reason.Reason{
		Code: InvalidSubsets, Path: path, New: strconv.Quote(reason.Shorten(name, 63)), Detail: problem,
		Remedy: "name each subset differently",
	}
}

func (c Config) compile(s Subset, i int) compiled {
	name := s.Name
	if name == "" {
		name = strconv.Itoa(i)
	}
	path := c.Paths.Subsets + "[" + name + "]"
	s.Replicas, s.Min, s.Max = copied(s.Replicas), copied(s.Min), copied(s.Max)
	return compiled{s, path, path + "." + c.Paths.Replicas, path + "." + c.Paths.Min, path + "." + c.Paths.Max}
}

func copied(value *intstr.IntOrString) *intstr.IntOrString {
	if value == nil {
		return nil
	}
	out := *value
	return &out
}

// problems lists what is invalid in a subset's numbers.
func (c Config) problems(s *compiled) reason.List {
	var out reason.List
	values := []struct {
		path  string
		value *intstr.IntOrString
		usual bool
	}{
		{s.sharePath, s.Replicas, c.Fill == Fixed},
		{s.minPath, s.Min, c.Fill != Fixed},
		{s.maxPath, s.Max, c.Fill != Fixed},
	}
	for _, v := range values {
		out.Add(partition.InvalidValue, partition.Validate(v.path, v.value))
		if v.value != nil && !v.usual {
			out = append(out, c.useless(v.path, v.value.String()))
		}
	}
	weightPath := s.path + "." + c.Paths.Weight
	switch weight := strconv.Itoa(int(s.Weight)); {
	case c.Fill == ByWeight && s.Weight <= 0:
		out = append(out, reason.Reason{
			Code: InvalidSubsets, Path: weightPath, New: weight, Detail: "no weight",
			Remedy: "use 1 or more, and a maximum of 0 for a subset without Pods",
		})
	case c.Fill != ByWeight && s.Weight != 0:
		out = append(out, c.useless(weightPath, weight))
	}
	if len(out) == 0 && s.Min != nil && s.Max != nil && s.Min.Type == s.Max.Type {
		// Percentages are compared by resolving both for the largest possible total.
		lo, _ := partition.Resolve(s.minPath, s.Min, math.MaxInt32, partition.Down)
		hi, _ := partition.Resolve(s.maxPath, s.Max, math.MaxInt32, partition.Down)
		if lo > hi {
			out = append(out, s.crossed(s.Min.String(), s.Max.String()))
		}
	}
	return out
}

func (c Config) useless(path, value string) reason.Reason {
	return reason.Reason{
		Code: InvalidSubsets, Path: path, New: value, Detail: "not used together with " + string(c.Fill),
		Remedy: "remove the field",
	}
}

func (s *compiled) crossed(lo, hi string) reason.Reason {
	return reason.Reason{
		Code: BoundsCross, Path: s.minPath, New: lo, Detail: "above the maximum of " + hi,
		Remedy: "lower the minimum, or raise " + s.maxPath,
	}
}

// bounds returns the minimum and maximum of a subset, resolved for a number of replicas.
func (r *Rules) bounds(s *compiled, replicas int) (lo, hi int, err error) {
	hi = math.MaxInt32
	if s.Replicas != nil {
		lo, err = partition.Resolve(s.sharePath, s.Replicas, replicas, r.config.Rounding)
		return lo, lo, err
	}
	if s.Max != nil {
		if hi, err = partition.Resolve(s.maxPath, s.Max, replicas, r.config.Rounding); err != nil {
			return 0, 0, err
		}
	}
	if s.Min != nil {
		if lo, err = partition.Resolve(s.minPath, s.Min, replicas, r.config.Rounding); err != nil {
			return 0, 0, err
		}
	}
	if lo > hi {
		return 0, 0, s.crossed(strconv.Itoa(lo), strconv.Itoa(hi))
	}
	return lo, hi, nil
}
