package inplaceupdate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
)

// todo is everything to deliver in a new update: the changes of its plan and the undelivered changes of an earlier
// update. The maps and slices of a todo may belong to the plan, which Pods share: read only.
type todo struct {
	work

	labels, annotations             map[string]*string
	addFinalizers, removeFinalizers []string
	resizeRestarts                  bool
}

// trafficOff is Plan.TrafficOff of everything.
func (t *todo) trafficOff() bool { return len(t.images) > 0 || len(t.refs) > 0 || t.resizeRestarts }

// putMetadata adds the metadata without need for a restart.
func (t *todo) putMetadata(change *podpatch.Change) {
	change.Labels = maps.Clone(t.labels)
	maps.Copy(change.Annotations, t.annotations)
	change.AddFinalizers, change.RemoveFinalizers = t.addFinalizers, t.removeFinalizers
}

// todo adds the undelivered changes of an earlier update to a plan: later batches, an unsent resize, and everything
// held back by a running grace period.
func (v *view) todo(plan *Plan) (todo, error) {
	t := todo{
		work:   work{images: plan.Images, refs: plan.RefMetadata, resources: plan.Resources},
		labels: plan.Labels, annotations: plan.Annotations,
		addFinalizers: plan.AddFinalizers, removeFinalizers: plan.RemoveFinalizers,
		resizeRestarts: plan.ResizeRestarts,
	}
	if v.state == nil {
		return t, nil
	}
	t.addEarlier(v.state.next(), plan)
	t.addEarlier(work{resources: v.unsent()}, plan)
	if v.grace == nil || v.grace.Revision != v.saved.Revision {
		return t, nil
	}
	held, err := v.heldMetadata()
	if err != nil {
		return t, err
	}
	meta := &held.Metadata
	t.addEarlier(v.grace.work(), plan)
	t.labels = united(unmentioned(meta.Labels, plan.Labels, plan.RefMetadata, labelsOf), plan.Labels)
	t.annotations = united(unmentioned(meta.Annotations, plan.Annotations, plan.RefMetadata, annotationsOf), plan.Annotations)
	t.addFinalizers = slices.Concat(plan.AddFinalizers, without(meta.Finalizers, plan.AddFinalizers, plan.RemoveFinalizers))
	t.removeFinalizers = slices.Concat(plan.RemoveFinalizers, without(meta.DeleteFinalizers, plan.AddFinalizers, plan.RemoveFinalizers))
	return t, nil
}

// addEarlier adds work of an earlier update, as far as the newer plan does not set the same. Maps of either are not
// modified.
func (w *work) addEarlier(earlier work, newer *Plan) {
	w.images = united(earlier.images, w.images)
	if len(earlier.resources) > 0 {
		all := maps.Clone(earlier.resources)
		for name, resources := range w.resources {
			all[name] = overlaid(all[name], resources)
		}
		w.resources = all
	}
	if len(earlier.refs) == 0 {
		return
	}
	all := maps.Clone(w.refs)
	for name, refs := range earlier.refs {
		ref := RefMetadata{
			Labels:      united(unmentioned(refs.Labels, newer.Labels, newer.RefMetadata, labelsOf), all[name].Labels),
			Annotations: united(unmentioned(refs.Annotations, newer.Annotations, newer.RefMetadata, annotationsOf), all[name].Annotations),
		}
		if put(&all, name, ref); len(ref.Labels)+len(ref.Annotations) == 0 {
			delete(all, name)
		}
	}
	w.refs = all
}

// overlaid returns the quantities of both. The quantity of b wins.
func overlaid(a, b corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: united(a.Limits, b.Limits), Requests: united(a.Requests, b.Requests)}
}

func labelsOf(r RefMetadata) map[string]string { return r.Labels }

func annotationsOf(r RefMetadata) map[string]string { return r.Annotations }

// unmentioned returns the labels or annotations set by no part of the newer plan, neither plainly nor for a container.
func unmentioned[V any](earlier map[string]V, plain map[string]*string, refs map[string]RefMetadata, kind func(RefMetadata) map[string]string) map[string]V {
	out := maps.Clone(earlier)
	maps.DeleteFunc(out, func(key string, _ V) bool {
		_, mentioned := plain[key]
		for _, r := range refs {
			_, ok := kind(r)[key]
			mentioned = mentioned || ok
		}
		return mentioned
	})
	return out
}

// without returns the entries of list missing in all the further lists.
func without(list []string, others ...[]string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return slices.ContainsFunc(others, func(other []string) bool { return slices.Contains(other, s) })
	})
}
