package subsets

import (
	"math"
	"slices"
	"strconv"

	"github.com/workloadkit/workloadkit/reason"
)

// Unlimited is the Max of a Place without a limit.
const Unlimited = -1

// Place says how many Pods may be in a subset, and whether the subset gets new Pods. The zero value takes no Pods. In a
// list of places, a place without a name and a second place with the same name take no Pods.
type Place struct {
	// Name is the subset's name. Required.
	Name string
	// Max is how many Pods may be in the subset, Unlimited for any number. A number below Unlimited means 0.
	Max int
	// Closed subsets get no new Pods.
	Closed bool
	// Path is the field path of the subset in the API object, used only in reasons.
	Path string
}

// isUnlimited reports whether any number of Pods may be in the subset.
func (p *Place) isUnlimited() bool { return p.Max == Unlimited }

// distinct returns the places that have a name, and of places with the same name only the first. If no place is left
// out, distinct does not copy the list.
func distinct(places []Place) []Place {
	seen := make(map[string]bool, len(places))
	isFurther := func(p Place) bool {
		further := p.Name == "" || seen[p.Name]
		seen[p.Name] = true
		return further
	}
	if !slices.ContainsFunc(places, isFurther) {
		return places
	}
	clear(seen)
	return slices.DeleteFunc(slices.Clone(places), isFurther)
}

// noPlace returns the reason why a Pod has no subset if there are no subsets.
func noPlace() reason.Reason {
	return reason.Reason{Code: MaxReached, Path: "subsets", Detail: "there is no subset", Remedy: "add a subset"}
}

// takes reports whether a subset that has the given number of Pods may get another Pod, and otherwise adds the reason.
func (p *Place) takes(have int, why *reason.List) bool {
	switch {
	case p.Closed:
		add(why, reason.Reason{
			Code: SubsetClosed, Path: p.path(), Detail: "Pods could not be scheduled there",
			Remedy: "make room in the subset",
		})
	case p.isUnlimited() || have < p.Max:
		return true
	default:
		add(why, reason.Reason{
			Code: MaxReached, Path: p.path(), New: strconv.Itoa(p.Max),
			Detail: "the subset has as many Pods as allowed", Remedy: "raise the maximum",
		})
	}
	return false
}

func (p *Place) path() string {
	if p.Path != "" {
		return p.Path
	}
	return "subsets[" + p.Name + "]"
}

// Places are the maximums of the subsets for a number of replicas, for controllers that put each new Pod into the
// first subset with a free place. closed reports whether a subset is closed; nil means that no subset is closed. The
// errors are the errors of Divide, and InvalidSubsets unless the Fill is InOrder: with weights or fixed shares, the
// numbers depend on the present Pods, so use Division.Places.
func (r *Rules) Places(replicas int, closed func(subset string) bool) ([]Place, error) {
	if err := r.check(replicas, nil); err != nil {
		return nil, err
	}
	if r.config.Fill != InOrder {
		return nil, reason.Reason{
			Code: InvalidSubsets, Path: r.config.Paths.Subsets, New: string(r.config.Fill),
			Detail: "the first subset with room is not the right subset for a new Pod", Remedy: "use Divide and Division.Places",
		}
	}
	out := make([]Place, len(r.subsets))
	for i := range r.subsets {
		s := &r.subsets[i]
		_, hi, err := r.bounds(s, replicas)
		if err != nil {
			return nil, err
		}
		if s.Max == nil {
			hi = Unlimited
		}
		out[i] = Place{Name: s.Name, Max: hi, Closed: closed != nil && closed(s.Name), Path: s.path}
	}
	return out, nil
}

// Choice is the subset for a new Pod.
type Choice struct {
	// Subset is the name of the subset, empty if no subset may get the Pod.
	Subset string
	// Changed says that the book has changed and must be stored before the Pod is created.
	Changed bool
	// Why says why the subsets before the chosen subset were not chosen; at most ten reasons.
	Why reason.List
}

// Pick returns the first subset that may get another Pod. have returns the number of Pods in a subset. Use Pick if a
// single process creates all the Pods, and have counts the Pods just created, too. If several processes create Pods,
// record the chosen places in a Book.
func Pick(places []Place, have func(subset string) int) Choice {
	var c Choice
	places = distinct(places)
	for i := range places {
		if places[i].takes(have(places[i].Name), &c.Why) {
			c.Subset = places[i].Name
			break
		}
	}
	if len(places) == 0 {
		add(&c.Why, noPlace())
	}
	return c
}

// PickNumbered returns the subset of a numbered Pod: the first Max Pods belong to the first subset, the next to the
// second, and so on; closed subsets are skipped. index counts from 0 and is the position of the Pod's number among all
// numbers of the workload, as returned by ordinals.Set.Index: if there is a start or reserved numbers, the number
// itself would be too high.
func PickNumbered(places []Place, index int) Choice {
	var c Choice
	places = distinct(places)
	before := 0 // Pods of earlier subsets
	for i := range places {
		have := max(index-before, 0)
		if index >= 0 && places[i].takes(have, &c.Why) {
			c.Subset = places[i].Name
			break
		}
		if !places[i].Closed {
			before += min(max(places[i].Max, 0), math.MaxInt32)
		}
	}
	if len(places) == 0 {
		add(&c.Why, noPlace())
	}
	return c
}

func find(places []Place, name string) *Place {
	for i := range places {
		if places[i].Name == name {
			return &places[i]
		}
	}
	return nil
}
