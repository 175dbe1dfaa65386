package sidecarcontrol

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// placement is a list of the Pod's containers, with the containers to add before and after the Pod's containers.
type placement struct {
	of                     []corev1.Container // the Pod's containers
	before, after, replace []corev1.Container
}

// add adds a container, or replaces the container of the same name in place.
func (p *placement) add(c corev1.Container, after bool) {
	switch {
	case slices.ContainsFunc(p.of, func(own corev1.Container) bool { return own.Name == c.Name }):
		p.replace = append(p.replace, c)
	case after:
		p.after = append(p.after, c)
	default:
		p.before = append(p.before, c)
	}
}

// sortAdded sorts by name the containers to add before, and the containers to add after.
func (p *placement) sortAdded() {
	byName := func(a, b corev1.Container) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(p.before, byName)
	slices.SortStableFunc(p.after, byName)
}

// placed returns the Pod's containers together with the added containers.
func (p *placement) placed() []corev1.Container {
	if len(p.before)+len(p.after)+len(p.replace) == 0 {
		return p.of
	}
	out := slices.Concat(p.before, p.of, p.after)
	for i := range p.replace {
		at := slices.IndexFunc(out, func(c corev1.Container) bool { return c.Name == p.replace[i].Name })
		out[at] = p.replace[i]
	}
	return out
}
