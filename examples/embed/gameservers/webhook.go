package gameservers

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons of the conditions. InvalidSpec means that the Pods are not changed because of an invalid spec.
// UnderWay means that the update is in progress, and that no limit of the rollout delays the update.
const (
	InvalidSpec reason.Code = "InvalidSpec"
	UnderWay    reason.Code = "UnderWay"
)

// wanted returns the ordinals that should have Pods, or all errors in the spec. The webhook refuses a spec with errors.
// If such a spec was stored nevertheless, the Pods are not changed.
func wanted(g *GameServers, inPlace *inplaceupdate.Updater) (ordinals.Set, reason.List) {
	spec := &g.Spec
	if problems := decode.Reasons(spec.undecodable); problems != nil {
		return ordinals.Set{}, problems // further checks would only report missing values
	}
	paths := ordinals.Paths{Start: "spec.start", Replicas: "spec.replicas", Reserved: "spec.reserved"}
	set, err := ordinals.Of(paths, spec.Start, spec.Replicas, spec.Reserved...)
	problems := reason.From(err)
	refuse := func(path, value, remedy string) {
		problems = append(problems, reason.Reason{Code: InvalidSpec, Path: path, New: value, Remedy: remedy})
	}
	for i, n := range []int{spec.Partition, spec.MaxUnavailable, spec.HistoryLimit} {
		if n < 0 {
			refuse([]string{"spec.partition", "spec.maxUnavailable", "spec.historyLimit"}[i], strconv.Itoa(n), "use 0 or more")
		}
	}
	if last, ok := set.At(set.Len() - 1); ok && len(ordinals.Name(g.Name, last)) > validation.DNS1123SubdomainMaxLength {
		refuse("metadata.name", g.Name, "use a shorter one, or no Pod can have its name")
	}
	for _, reserved := range inPlace.ValidateTemplate(&spec.Template) {
		refuse("spec.template."+reserved.Path, reserved.New, reserved.Remedy)
	}
	return set, problems
}
