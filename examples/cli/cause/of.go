package cause

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/progress"
)

// Of returns the causes why the object waits, the most important first; none for a healthy object.
func Of(f Facts) []Cause {
	var causes []Cause
	if pod := f.pod(); pod != nil {
		causes = slices.Concat(f.podCauses(pod), f.updated(pod), f.injected(pod))
		if len(causes) > 0 || pod.DeletionTimestamp != nil {
			causes = append(causes, f.evictable(pod)...)
		}
	} else {
		causes = f.workloadCauses()
	}
	causes = withoutEchoes(merge(causes))
	slices.SortStableFunc(causes, func(a, b Cause) int { return int(a.rank) - int(b.rank) })
	return causes
}

// pod returns the Pod in question, or nil for another object.
func (f *Facts) pod() *corev1.Pod {
	if f.Object.GetKind() != "Pod" || f.Object.GetAPIVersion() != "v1" || len(f.Pods) == 0 {
		return nil
	}
	return &f.Pods[0]
}

// withoutEchoes leaves out causes that only say how many Pods are missing or not ready, unless no other cause is
// known.
func withoutEchoes(causes []Cause) []Cause {
	isEcho := func(c Cause) bool {
		return c.Code == progress.PodsNotUpdated || c.Code == progress.PodsNotReady || c.Code == PodsMissing
	}
	if !slices.ContainsFunc(causes, func(c Cause) bool { return !isEcho(c) }) {
		return causes
	}
	return slices.DeleteFunc(causes, isEcho)
}

// merge merges the equal causes of several Pods. Causes are equal if the texts are equal except for the Pod's name.
func merge(causes []Cause) (merged []Cause) {
	places := map[string]int{}
	for _, c := range causes {
		key := strings.Join([]string{string(c.Layer), string(c.Code), c.Path, strings.ReplaceAll(c.Detail, or(c.Object.Name, "\x00"), "")}, "\x00")
		switch {
		case c.Layer == Quota || (c.Layer == Webhook || c.Layer == APIServer) && len(c.Pods) == 0:
			key = string(c.Layer) + string(c.Code) // the same refusal can come from a condition and from a dry-run request
		case len(c.Pods) == 0:
			key += c.Object.String()
		}
		if i, known := places[key]; known {
			for _, pod := range c.Pods {
				if !slices.Contains(merged[i].Pods, pod) {
					merged[i].Pods = append(merged[i].Pods, pod)
				}
			}
			continue
		}
		places[key] = len(merged)
		merged = append(merged, c)
	}
	return merged
}

// Healthy describes an object without causes in one line. The line names the budgets that would refuse an eviction of
// a healthy Pod.
func Healthy(f Facts) string {
	name := fmt.Sprintf("%s %s", f.Object.GetKind(), f.Object.GetName())
	pod := f.pod()
	if pod == nil {
		p, err := progress.Of(f.Object, 0, f.Now)
		if err != nil {
			return name + " waits for nothing that is known"
		}
		return name + " is healthy: " + p.Text
	}
	text := name + " is healthy: ready"
	if pod.Status.Phase == corev1.PodSucceeded {
		text = name + " has succeeded"
	}
	if f.Owner != nil {
		text += fmt.Sprintf(", of %s %s", f.Owner.GetKind(), f.Owner.GetName())
	}
	for _, c := range f.evictable(pod) {
		text += "; an eviction would be refused: " + c.Detail
	}
	return text
}

// Summary describes the object in one line, to be printed before its causes.
func Summary(f Facts) string {
	name := fmt.Sprintf("%s %s", f.Object.GetKind(), f.Object.GetName())
	if pod := f.pod(); pod != nil {
		if pod.DeletionTimestamp != nil {
			return name + ": being deleted"
		}
		return fmt.Sprintf("%s: %s", name, strings.ToLower(string(pod.Status.Phase)))
	}
	ready := 0
	for i := range f.Pods {
		if IsReady(&f.Pods[i]) {
			ready++
		}
	}
	if wanted := fields.Int(f.Object.Object, "spec.replicas"); wanted > 0 {
		return fmt.Sprintf("%s: %d Pods of %d, %d ready", name, len(f.Pods), wanted, ready)
	}
	return fmt.Sprintf("%s: %d Pods, %d ready", name, len(f.Pods), ready)
}
