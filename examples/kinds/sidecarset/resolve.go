package sidecarset

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// settings are an update strategy with its selectors compiled.
type settings struct {
	update   *pub.SidecarSetUpdateStrategy
	selector labels.Selector
	order    podorder.Update
	// rollout is nil where no new upgrade is to be started.
	rollout func([]sidecarcontrol.Standing) sidecarcontrol.Rollout
}

const strategyPath = "spec.updateStrategy"

func resolve(set *v1beta1.SidecarSet) (*settings, error) {
	update, read := &set.Spec.UpdateStrategy, &kruise.Reading{}
	s := &settings{update: update, selector: labels.Everything()}
	if update.Selector != nil {
		s.selector = read.Selector(strategyPath+".selector", update.Selector)
	}
	s.order.Priority, s.order.Scatter = read.Order(strategyPath, update.PriorityStrategy, update.ScatterStrategy)
	// A value that fails for a single Pod fails for any number.
	read.Count(strategyPath+".maxUnavailable", s.maxUnavailable(), 1, partition.Up)
	read.Kept(strategyPath+".partition", update.Partition, 1)
	if update.Type != pub.SidecarSetNotUpdate && !update.Paused {
		s.rollout = s.of
	}
	return s, read.Problems.Reasons().Err()
}

func (s *settings) maxUnavailable() *intstr.IntOrString {
	return cmp.Or(s.update.MaxUnavailable, new(intstr.FromInt32(api.DefaultMaxUnavailable)))
}

// of returns the rollout for the given Pods.
func (s *settings) of(pods []sidecarcontrol.Standing) sidecarcontrol.Rollout {
	read := &kruise.Reading{} // resolve has already found unreadable values
	order := s.order
	if terms, found := anyValue(s.update.ScatterStrategy, pods); found {
		_, order.Scatter = read.Order(strategyPath, nil, terms)
	}
	return sidecarcontrol.Rollout{
		Selector: s.selector, Order: order,
		Partition:     read.Kept(strategyPath+".partition", s.update.Partition, len(pods)),
		PartitionPath: strategyPath + ".partition", MaxUnavailablePath: strategyPath + ".maxUnavailable",
		MaxUnavailable: read.Count(strategyPath+".maxUnavailable", s.maxUnavailable(), len(pods), partition.Up),
	}
}

// anyValue replaces each term with the value * by a term for each value of the label among the Pods, and reports
// whether such a term exists.
func anyValue(terms []pub.ScatterTerm, pods []sidecarcontrol.Standing) (out []pub.ScatterTerm, found bool) {
	add := func(term pub.ScatterTerm) {
		if !slices.Contains(out, term) {
			out = append(out, term)
		}
	}
	for _, term := range terms {
		if term.Value != "*" { // no label can have the value *
			add(term)
			continue
		}
		found = true
		values := sets.Set[string]{}
		for i := range pods {
			if value, ok := pods[i].Pod.Labels[term.Key]; ok {
				values.Insert(value)
			}
		}
		for _, value := range sets.List(values) {
			add(pub.ScatterTerm{Key: term.Key, Value: value})
		}
	}
	return out, found
}
