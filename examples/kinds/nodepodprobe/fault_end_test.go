package nodepodprobe

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// converged checks the final state: NodePodProbes and Pods contain exactly the probes and marks of the existing
// PodProbeMarkers.
func (w *story) converged() {
	markers := faultapi.All[*v1alpha1.PodProbeMarker](w.Server)
	slices.SortFunc(markers, func(a, b *v1alpha1.PodProbeMarker) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range markers {
		if m.DeletionTimestamp != nil {
			w.Failf("PP-6", "marker %s is not let go", m.Name)
		}
		matched := int64(0)
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			if m.Spec.Selector.MatchLabels["app"] == pod.Labels["app"] && isProbed(pod) {
				matched++
			}
		}
		if m.Status.MatchedPods != matched || m.Status.ObservedGeneration != m.Generation || !slices.Contains(m.Finalizers, apps.FinalizerPodProbeMarker) {
			w.Failf("PP-2", "marker %s of %d Pods: %s, finalizers %v", m.Name, matched, text(m.Status), m.Finalizers)
		}
	}
	for _, name := range nodeNames() {
		_, exists := stored(w, &corev1.Node{}, "", name)
		list := w.list(name)
		if exists != (list != nil) {
			w.Failf("PP-1", "Node %s is there: %t, and its list: %t", name, exists, list != nil)
		}
		if list == nil {
			continue
		}
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			if pod.Spec.NodeName == name && podstate.IsActive(pod) {
				w.endOfPod(pod, list, markers)
			}
		}
		for _, p := range list.Spec.PodProbes {
			if pod, exists := stored(w, &corev1.Pod{}, p.Namespace, p.Name); !exists || string(pod.UID) != p.UID || !isProbed(pod) {
				w.Failf("PP-7", "the list of %s has Pod %s, which is gone", name, p.Name)
			}
		}
	}
}

func isProbed(pod *corev1.Pod) bool {
	return podstate.IsActive(pod) && pod.Spec.NodeName != "" && podstate.IsTrue(pod, corev1.PodInitialized)
}

// marks are the labels, annotations and conditions that a Pod must have.
type marks struct {
	labels, annotations, conditions map[string]string
	// Probes set these keys only in states other than their present states, so the Pod must not have the keys now.
	oppositeLabels, oppositeAnnotations map[string]bool
}

func (w *story) endOfPod(pod *corev1.Pod, list *v1alpha1.NodePodProbe, markers []*v1alpha1.PodProbeMarker) {
	var asked []string
	for _, p := range list.Spec.PodProbes {
		if p.UID == string(pod.UID) && p.IP != pod.Status.PodIP {
			w.Failf("PP-3", "the list of %s has the address %q of Pod %s, want %q", list.Name, p.IP, pod.Name, pod.Status.PodIP)
		}
		for _, probe := range p.Probes {
			if p.UID == string(pod.UID) {
				asked = append(asked, probe.Name)
			}
		}
	}
	want := marks{map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}, map[string]bool{}}
	var wanted []string
	for _, m := range markers {
		for i := range m.Spec.Probes {
			p := &m.Spec.Probes[i]
			if !selects(m, pod) || !isProbed(pod) || p.ContainerName == "missing" || p.ContainerName == "log" && p.Probe.TCPSocket != nil {
				continue
			}
			name := m.Name + "#" + p.Name
			wanted = append(wanted, name)
			w.wants(&want, p, former(list, string(pod.UID), name).State)
		}
	}
	if pod.Annotations[apps.AnnotationContainerProbeContext] != "" && isProbed(pod) {
		wanted = append(wanted, livenessNames(pod)...)
	}
	if !slices.Equal(slices.Sorted(slices.Values(asked)), slices.Sorted(slices.Values(wanted))) {
		w.Failf("PP-3", "the list of %s asks for %v of Pod %s, want %v", list.Name, asked, pod.Name, wanted)
	}
	w.endOfKeys(pod, "labels", pod.Labels, want.labels, want.oppositeLabels, func(h held) map[string]string { return h.Labels })
	w.endOfKeys(pod, "annotations", pod.Annotations, want.annotations, want.oppositeAnnotations, func(h held) map[string]string { return h.Annotations })
	for t, status := range want.conditions {
		if c := podstate.Condition(pod, corev1.PodConditionType(t)); c == nil || string(c.Status) != status {
			w.Failf("PP-8", "Pod %s has %s, want %s %s", pod.Name, text(pod.Status.Conditions), t, status)
		}
	}
	for _, c := range pod.Status.Conditions {
		if _, wanted := want.conditions[string(c.Type)]; !wanted && !w.touched[pod.UID] && (c.Reason == "ProbeSucceeded" || c.Reason == "ProbeFailed" || c.Reason == "ProbeUnknown") {
			w.Failf("PP-12", "Pod %s has the condition %s of a former probe", pod.Name, text(c))
		}
	}
}

// wants adds the marks of a probe in a state. For the same key, an earlier probe has precedence.
func (w *story) wants(want *marks, p *v1alpha1.PodContainerProbe, state v1alpha1.ProbeState) {
	if state == "" {
		w.Failf("story", "no state of %s", text(p))
	}
	first := func(values map[string]string, key, value string) {
		if _, taken := values[key]; !taken && key != "" {
			values[key] = value
		}
	}
	status := "False"
	if state == v1alpha1.ProbeSucceeded {
		status = "True"
	}
	first(want.conditions, p.PodConditionType, status)
	for _, policy := range p.MarkerPolicy {
		for _, key := range slices.Sorted(maps.Keys(policy.Labels)) {
			if want.oppositeLabels[key] = true; policy.State == state {
				first(want.labels, key, policy.Labels[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(policy.Annotations)) {
			if want.oppositeAnnotations[key] = true; policy.State == state {
				first(want.annotations, key, policy.Annotations[key])
			}
		}
	}
}

// endOfKeys checks that the labels or annotations of a Pod have the values for the probes' present states and no
// values for other states. Keys that no probe sets have a user's value or none, and are not in the annotation that
// records the Pod's marks.
func (w *story) endOfKeys(pod *corev1.Pod, kind string, have, want map[string]string, opposite map[string]bool, holds func(held) map[string]string) {
	for key, value := range want {
		if have[key] != value {
			w.Failf("PP-10", "Pod %s has the %s %v, want %v", pod.Name, kind, have, want)
		}
	}
	for _, key := range []string{"role", "zone", "note", "hint"} {
		value, has := have[key]
		if _, wanted := want[key]; wanted || !has {
			continue
		}
		if opposite[key] {
			w.Failf("PP-10", "Pod %s has the %s %v of another state, want %v", pod.Name, kind, have, want)
		}
		if value != manual && !w.touched[pod.UID] {
			w.Failf("PP-12", "Pod %s has the %s %v of a former probe, want %v", pod.Name, kind, have, want)
		}
	}
	for name, h := range ledgerOf(pod) {
		for key, value := range holds(h) {
			if want[key] != value {
				w.Failf("PP-12", "Pod %s holds %s=%s for %s, want %v", pod.Name, key, value, name, want)
			}
		}
	}
}
