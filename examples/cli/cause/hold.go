package cause

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// hook returns a cause if a Pod waits for a lifecycle hook. The cause names the labels and finalizers of the hook.
func (f *Facts) hook(pod *corev1.Pod) []Cause {
	state := pod.Labels[apps.LabelLifecycleState]
	var name, waitsFor string
	switch state {
	case apps.LifecyclePreparingNormal:
		name, waitsFor = "preNormal", "added"
	case apps.LifecyclePreparingUpdate:
		name, waitsFor = "inPlaceUpdate", "removed"
	case apps.LifecycleUpdated:
		name, waitsFor = "inPlaceUpdate", "added"
	case apps.LifecyclePreparingDelete:
		name, waitsFor = "preDelete", "removed"
	default:
		return nil
	}
	handlers := f.handlers(pod, name, waitsFor == "added")
	if len(handlers) == 0 && state == apps.LifecyclePreparingNormal {
		return nil // without a hook for this state, the Pod only waits until it is ready
	}
	detail := fmt.Sprintf("the hook %s holds the Pod in the state %s", name, state)
	if since := pod.Annotations[apps.AnnotationLifecycleTimestamp]; since != "" {
		detail += " since " + since
	}
	remedy := fmt.Sprintf("the holder of the hook answers: the label or finalizer of the hook is %s", waitsFor)
	if len(handlers) > 0 {
		remedy = fmt.Sprintf("the holder of the hook answers: %s is %s", strings.Join(handlers, ", "), waitsFor)
	}
	return []Cause{podCause(pod, Hook, held, HookHolds, detail, remedy)}
}

// handlers returns the labels and finalizers of a hook that a Pod lacks if lacking is true, and otherwise those that
// the Pod has.
func (f *Facts) handlers(pod *corev1.Pod, hook string, lacking bool) (list []string) {
	owner := f.Owner
	if owner == nil {
		owner = f.Object
	}
	path := "spec.lifecycle." + hook
	for _, finalizer := range fields.Strings(owner.Object, path+".finalizersHandler") {
		if slices.Contains(pod.Finalizers, finalizer) != lacking {
			list = append(list, "finalizer "+finalizer)
		}
	}
	value, _ := fields.At(owner.Object, path+".labelsHandler")
	labels, _ := value.(fields.Object)
	for key, want := range labels {
		if (pod.Labels[key] == want) != lacking {
			list = append(list, fmt.Sprintf("label %s=%v", key, want))
		}
	}
	slices.Sort(list)
	return list
}

// gates returns a cause for each readiness gate that keeps a Pod unready although all containers are ready.
func gates(pod *corev1.Pod) (causes []Cause) {
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			causes = append(causes, podCause(pod, Hook, held, GateHolds, fmt.Sprintf("nobody has set the readiness gate %s", gate.ConditionType), "the controller of the gate sets the condition"))
		case pod.Status.Conditions[i].Status != corev1.ConditionTrue:
			c := &pod.Status.Conditions[i]
			causes = append(causes, podCause(pod, Hook, held, GateHolds, fmt.Sprintf("readiness gate %s: %s", gate.ConditionType, gateDetail(c)), gateRemedy(string(gate.ConditionType))))
		}
	}
	return causes
}

// gateDetail returns the detail about a closed gate. For the gate that several writers share, the detail names the
// writers that keep the gate closed.
func gateDetail(c *corev1.PodCondition) string {
	if c.Type != apps.ConditionKruisePodReady {
		return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
	}
	var holders []struct {
		UserAgent string `json:"userAgent"`
		Key       string `json:"key"`
	}
	if json.Unmarshal([]byte(c.Message), &holders) != nil || len(holders) == 0 {
		return c.Message
	}
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = h.UserAgent + " (" + h.Key + ")"
	}
	return "held by " + strings.Join(names, ", ")
}

func gateRemedy(gate string) string {
	if gate == apps.ConditionInPlaceUpdateReady {
		return "the end of the update in place: the containers run with their new images"
	}
	return "the holders of the gate set the condition"
}
