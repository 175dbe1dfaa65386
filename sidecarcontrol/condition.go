package sidecarcontrol

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
)

// These are the reasons of the condition, as in OpenKruise.
const (
	allUpgradable = "AllSidecarsetUpgradable"
	notUpgradable = "UpdateImmutableField"
)

// Tell returns the change of the Pod condition that says whether the set's sidecars can be upgraded in place. The
// change is empty if the condition is up to date. A missing condition means that the sidecars can be upgraded, so
// Tell adds a condition with this meaning only after the end of the first upgrade by any set.
func (c *Control) Tell(s *Standing, set *Set) podpatch.Change {
	if c.keys.Condition == "" || !s.Injected {
		return podpatch.Change{}
	}
	upgradable := len(s.Blocked) == 0
	said := map[string]bool{}
	condition := podstate.Condition(s.Pod, c.keys.Condition)
	if condition != nil && json.Unmarshal([]byte(condition.Message), &said) != nil {
		said = map[string]bool{}
	}
	was, told := said[set.spec.Name]
	news := !upgradable || condition == nil && s.upgraded && s.Updated && len(s.Waiting) == 0
	if told && was == upgradable || !told && !news {
		return podpatch.Change{}
	}
	said[set.spec.Name] = upgradable
	message, err := json.Marshal(said)
	if err != nil {
		return podpatch.Change{} // a map of booleans can always be encoded
	}
	next := corev1.PodCondition{Type: c.keys.Condition, Status: corev1.ConditionTrue, Reason: allUpgradable, Message: string(message)}
	for each := range maps.Values(said) {
		if !each {
			next.Status, next.Reason = corev1.ConditionFalse, notUpgradable
		}
	}
	// The change needs the resourceVersion, because other sets write the same condition.
	return podpatch.Change{UID: s.Pod.UID, ResourceVersion: s.Pod.ResourceVersion, Conditions: []corev1.PodCondition{next}}
}
