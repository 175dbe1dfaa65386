package inplaceupdate

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
)

// work holds the changes of containers by container name.
type work struct {
	images    map[string]string
	refs      map[string]RefMetadata
	resources map[string]corev1.ResourceRequirements
}

func (w *work) isEmpty() bool { return len(w.images)+len(w.refs)+len(w.resources) == 0 }

// containers returns the names of all containers with work, sorted.
func (w *work) containers() []string {
	names := slices.Concat(slices.Collect(maps.Keys(w.images)), slices.Collect(maps.Keys(w.refs)), slices.Collect(maps.Keys(w.resources)))
	slices.Sort(names)
	return slices.Compact(names)
}

// deliver moves the first batch of the work into the change, and the rest into the state.
func (v *view) deliver(w work, state *savedState, change *podpatch.Change) {
	state.NextContainerImages, state.NextContainerRefMetadata, state.NextContainerResources = nil, nil, nil
	state.PreCheckBeforeNext, state.BatchResources = nil, nil
	if w.isEmpty() {
		return
	}
	first := v.firstBatch(&w)
	for _, name := range w.containers() {
		if slices.Contains(first, name) {
			v.give(name, &w, state, change)
		} else {
			state.postpone(name, &w)
		}
	}
	if next := state.next(); !next.isEmpty() {
		state.PreCheckBeforeNext = &preCheck{ContainersRequiredReady: first}
	}
	state.ContainerBatchesRecord = append(state.ContainerBatchesRecord, savedBatch{Timestamp: metav1.NewTime(v.now), Containers: first})
}

// give moves the work on a container into the change. The state receives the parts that completion depends on.
func (v *view) give(name string, w *work, state *savedState, change *podpatch.Change) {
	if image, ok := w.images[name]; ok {
		put(&change.Images, name, image)
		var record containerRecord
		if status := v.container(name).status; status != nil {
			record.ImageID = status.ImageID
		}
		put(&state.LastContainerStatuses, name, record)
	}
	if resources, ok := w.resources[name]; ok {
		put(&change.Resources, name, resources)
		put(&state.BatchResources, name, resources)
	}
	for key, value := range w.refs[name].Labels {
		put(&change.Labels, key, &value)
	}
	for key, value := range w.refs[name].Annotations {
		put(&change.Annotations, key, &value)
	}
}

// postpone moves the work on a container into the state.
func (p *progress) postpone(name string, w *work) {
	if image, ok := w.images[name]; ok {
		put(&p.NextContainerImages, name, image)
	}
	if ref, ok := w.refs[name]; ok {
		put(&p.NextContainerRefMetadata, name, ref)
	}
	if resources, ok := w.resources[name]; ok {
		put(&p.NextContainerResources, name, resources)
	}
}

// firstBatch returns sorted container names: all without a launch priority, all with the highest priority, and every
// container that shares a changed label or annotation with the batch through env.
func (v *view) firstBatch(w *work) []string {
	all := w.containers()
	priorities, highest := v.priorities(all)
	first := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		p, ok := priorities[name]
		return ok && p < highest
	})
	for grown := true; grown; {
		grown = false
		for _, name := range all {
			if !slices.Contains(first, name) && sharesKey(w.refs, name, first) {
				first = append(first, name)
				grown = true
			}
		}
	}
	slices.SortFunc(first, strings.Compare)
	return first
}

// priorities returns the launch priorities of the containers, as far as they have any, and the highest priority.
func (v *view) priorities(names []string) (priorities map[string]int, highest int) {
	highest = math.MinInt
	for _, name := range names {
		spec := v.container(name).spec
		if spec == nil || v.config.Priority == nil {
			continue
		}
		if p, ok := v.config.Priority(spec); ok {
			put(&priorities, name, p)
			highest = max(highest, p)
		}
	}
	return priorities, highest
}

// sharesKey reports whether a container reads the same label or annotation as a container of the list.
func sharesKey(refs map[string]RefMetadata, name string, with []string) bool {
	mine := refs[name]
	for _, other := range with {
		for key := range mine.Labels {
			if _, ok := refs[other].Labels[key]; ok {
				return true
			}
		}
		for key := range mine.Annotations {
			if _, ok := refs[other].Annotations[key]; ok {
				return true
			}
		}
	}
	return false
}
