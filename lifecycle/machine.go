package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
)

// Machine decides which state an owner's Pods have next, and returns the changes to write. A Machine is a small value,
// never changed, and safe for concurrent use. Make a Machine with New. The zero Machine has neither keys nor hooks: the
// zero Machine allows every action, treats every Pod as a Pod without a state, and writes no state.
type Machine struct {
	keys  Keys
	hooks Hooks
}

// New returns a Machine without hooks. The error names each key that is empty, is no valid name of a label or
// annotation, or occurs twice.
func New(keys Keys) (Machine, error) {
	var problems []error
	for _, key := range []struct{ field, name string }{{"Keys.State", keys.State}, {"Keys.Timestamp", keys.Timestamp}} {
		if key.name == "" {
			problems = append(problems, fmt.Errorf("lifecycle: %s is required", key.field))
		} else if why := validation.IsQualifiedName(key.name); len(why) > 0 {
			problems = append(problems, fmt.Errorf("lifecycle: %s %q: %s", key.field, key.name, strings.Join(why, "; ")))
		}
	}
	if keys.State != "" && keys.State == keys.Timestamp {
		problems = append(problems, fmt.Errorf("lifecycle: Keys.State and Keys.Timestamp are both %q", keys.State))
	}
	if len(problems) > 0 {
		return Machine{}, errors.Join(problems...)
	}
	return Machine{keys: keys}, nil
}

// With returns a copy of the Machine with the given owner's hooks. With copies only a few pointers, so call With in
// each reconcile.
func (m Machine) With(hooks Hooks) Machine {
	m.hooks = hooks
	return m
}

// Keys returns the keys given to New.
func (m Machine) Keys() Keys { return m.keys }

// Hooks returns the hooks given to With.
func (m Machine) Hooks() Hooks { return m.hooks }

// State returns the Pod's state.
func (m Machine) State(pod *corev1.Pod) State {
	if m.keys.State == "" {
		return ""
	}
	return State(pod.Labels[m.keys.State])
}

// Next decides what happens to a Pod now. If a caller repeats Next, writes each transition and acts, every Pod ends in
// Normal or is deleted, provided that the hooks' owners release and complete their hooks. A Pod can leave every state.
func (m Machine) Next(pod *corev1.Pod, want Want) Transition {
	d := next(m.facts(pod, want))
	d.Why = m.why(pod, &d)
	return d.Transition
}

// facts collects the inputs of a decision from the Pod.
func (m Machine) facts(pod *corev1.Pod, want Want) facts {
	read := func(hook *Hook) hookFacts {
		f := hookFacts{configured: hook != nil, hooked: hooked(&pod.ObjectMeta, hook), allHooked: allHooked(&pod.ObjectMeta, hook)}
		if hook != nil {
			f.empty = hook.IsEmpty()
			f.markNotReady, f.beforeOnly = hook.MarkNotReady, hook.BeforeOnly
		}
		return f
	}
	return facts{
		Want: want, state: m.State(pod), unscheduled: !podstate.IsScheduled(pod),
		preDelete: read(m.hooks.PreDelete), inPlaceUpdate: read(m.hooks.InPlaceUpdate), preNormal: read(m.hooks.PreNormal),
	}
}

// Change returns the changes that a transition writes: the label and timestamp of a changed state, and the labels and
// finalizers of a restored hook. The change is empty if nothing changes.
func (m Machine) Change(pod *corev1.Pod, t Transition, now time.Time) podpatch.Change {
	change := podpatch.Change{UID: pod.UID}
	if t.From != t.To && m.keys.State != "" {
		state, timestamp := string(t.To), stamp(now)
		change.Labels = map[string]*string{m.keys.State: &state}
		change.Annotations = map[string]*string{m.keys.Timestamp: &timestamp}
	}
	hook := m.hooks.InPlaceUpdate
	if !t.Rearm || hook == nil {
		return change
	}
	if change.Labels == nil {
		change.Labels = make(map[string]*string, len(hook.Labels))
	}
	for key, value := range hook.Labels {
		change.Labels[key] = &value
	}
	change.AddFinalizers = slices.Clone(hook.Finalizers)
	return change
}

// Stamp prepares a Pod before its creation: Stamp sets the state, see Hooks.Initial, and adds the labels and finalizers
// of the hooks before deletions and updates, so that the hooks also hold the Pod's first update and deletion. Stamp
// leaves out hooks with Unstamped, and the preNormal hook, whose labels and finalizers mean that the Pod is prepared.
// If state is empty, Stamp sets no state.
func (m Machine) Stamp(meta *metav1.ObjectMeta, state State, now time.Time) {
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	for _, hook := range []*Hook{m.hooks.PreDelete, m.hooks.InPlaceUpdate} {
		if !hook.isStamped() {
			continue
		}
		maps.Copy(meta.Labels, hook.Labels)
		for _, finalizer := range hook.Finalizers {
			if !hasFinalizer(meta, finalizer) {
				meta.Finalizers = append(meta.Finalizers, finalizer)
			}
		}
	}
	if m.keys.State == "" || state == "" {
		return
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Labels[m.keys.State] = string(state)
	meta.Annotations[m.keys.Timestamp] = stamp(now)
}

func stamp(now time.Time) string { return now.UTC().Format(time.RFC3339) }
