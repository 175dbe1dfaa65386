package podpatch_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
)

// maker makes random Pods and changes from small sets of names and values, so that conflicts are frequent.
type maker struct{ *rand.Rand }

func (m maker) one(of ...string) string { return of[m.IntN(len(of))] }

func (m maker) some() bool { return m.IntN(2) == 0 }

func (m maker) strings() map[string]string {
	out := map[string]string{}
	for range m.IntN(3) {
		out[m.one("a", "b", "c/d")] = m.one("", "1", "2")
	}
	return out
}

func (m maker) resources() corev1.ResourceRequirements {
	list := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		for range m.IntN(3) {
			out[corev1.ResourceName(m.one("cpu", "memory"))] = resource.MustParse(m.one("1", "1000m", "2"))
		}
		return out
	}
	return corev1.ResourceRequirements{Limits: list(), Requests: list()}
}

func (m maker) condition() corev1.PodCondition {
	return corev1.PodCondition{
		Type:   corev1.PodConditionType(m.one("g1", "g2", "plain")),
		Status: corev1.ConditionStatus(m.one("True", "False", "Unknown")), Reason: m.one("", "R"), Message: m.one("", "m"),
	}
}

func (m maker) finalizers() []string {
	var out []string
	for _, f := range []string{"f1", "f2", "f3"} {
		if m.IntN(3) == 0 {
			out = append(out, f)
		}
	}
	return out
}

func (m maker) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.UID, pod.ResourceVersion = "web-0", "u1", "7"
	pod.Labels, pod.Annotations, pod.Finalizers = m.strings(), m.strings(), m.finalizers()
	for _, gate := range []corev1.PodConditionType{"g1", "g2"} {
		if m.some() {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
		}
	}
	types := []corev1.PodConditionType{"g1", "g2", "plain", corev1.ContainersReady, corev1.PodReady}
	m.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
	for _, t := range types[:m.IntN(len(types)+1)] {
		c := m.condition()
		c.Type = t
		if m.IntN(4) > 0 {
			c.LastTransitionTime = before
		}
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", Image: "i1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: m.resources()}}
	// The containers are not sorted by name: a patch must not reorder containers.
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "i3", Resources: m.resources()}, {Name: "app", Image: "i1", Resources: m.resources()}, {Name: "log", Image: "i2", Resources: m.resources()}}
	return pod
}

func (m maker) change() podpatch.Change {
	c := podpatch.Change{ForceConditions: m.IntN(4) == 0}
	c.UID = "u1"
	keys := func() map[string]*string {
		out := map[string]*string{}
		for key, value := range m.strings() {
			out[key] = &value
		}
		if m.some() {
			out[m.one("a", "b")] = nil
		}
		return out
	}
	if m.some() {
		c.Labels, c.Annotations = keys(), keys()
	}
	if m.some() {
		c.AddFinalizers = m.finalizers()
		c.RemoveFinalizers = slices.DeleteFunc(m.finalizers(), func(f string) bool { return slices.Contains(c.AddFinalizers, f) })
	}
	if m.some() {
		c.Conditions = []corev1.PodCondition{m.condition()}
	}
	if m.some() {
		c.Images = map[string]string{m.one("app", "log", "proxy", "web"): m.one("i1", "i2")}
	}
	if m.some() {
		c.Resources = map[string]corev1.ResourceRequirements{m.one("app", "log", "proxy", "web"): m.resources()}
	}
	return c
}

// wishes returns the values of a change by path. Two changes conflict if they have different values for the same
// path.
func wishes(c podpatch.Change) map[string]string {
	out := map[string]string{}
	for _, f := range c.AddFinalizers {
		out["finalizer "+f] = "add"
	}
	for _, f := range c.RemoveFinalizers {
		out["finalizer "+f] = "remove"
	}
	for kind, keys := range map[string]map[string]*string{"label ": c.Labels, "annotation ": c.Annotations} {
		for key, value := range keys {
			out[kind+key] = "removed"
			if value != nil {
				out[kind+key] = "=" + *value
			}
		}
	}
	for _, cond := range c.Conditions {
		out["condition "+string(cond.Type)] = fmt.Sprint(cond.Status, "|", cond.Reason, "|", cond.Message)
	}
	for name, image := range c.Images {
		out["image "+name] = image
	}
	for name, r := range c.Resources {
		text := ""
		for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
			cpu, memory := list["cpu"], list["memory"]
			_, hasCPU := list["cpu"]
			_, hasMemory := list["memory"]
			text += fmt.Sprint(hasCPU, cpu.MilliValue(), hasMemory, memory.Value(), ";")
		}
		out["resources "+name] = text
	}
	return out
}

func disagree(changes []podpatch.Change) bool {
	all := map[string]string{}
	for _, c := range changes {
		for path, value := range wishes(c) {
			if old, ok := all[path]; ok && old != value {
				return true
			}
			all[path] = value
		}
	}
	return false
}

// intended applies the changes to a copy of the Pod, one after the other, without any patch.
func intended(pod *corev1.Pod, changes []podpatch.Change) *corev1.Pod {
	out := pod.DeepCopy()
	written, forced := false, false // whether the change of a gate's condition was written or forced
	for _, c := range changes {
		setKeys(out.Labels, c.Labels)
		setKeys(out.Annotations, c.Annotations)
		out.Finalizers = append(out.Finalizers, c.AddFinalizers...)
		out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return slices.Contains(c.RemoveFinalizers, f) })
		for _, want := range c.Conditions {
			changed := setCondition(out, want, c.ForceConditions)
			isGate := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == want.Type })
			written = written || (isGate && (changed || c.ForceConditions))
			forced = forced || (isGate && c.ForceConditions)
		}
		for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
			for i := range list {
				if image, ok := c.Images[list[i].Name]; ok {
					list[i].Image = image
				}
				setQuantities(list[i].Resources.Limits, c.Resources[list[i].Name].Limits)
				setQuantities(list[i].Resources.Requests, c.Resources[list[i].Name].Requests)
			}
		}
	}
	have := podstate.Condition(out, corev1.PodReady)
	if ready, ok := kubeletReady(out); ok && written && ready.Status == corev1.ConditionFalse && (forced || have == nil || have.Status == corev1.ConditionTrue) {
		setCondition(out, ready, forced)
	}
	return out
}

func setKeys(have map[string]string, want map[string]*string) {
	for key, value := range want {
		if value == nil {
			delete(have, key)
		} else {
			have[key] = *value
		}
	}
}

func setQuantities(have, want corev1.ResourceList) {
	maps.Copy(have, want)
}

// setCondition sets a condition, and reports whether anything has changed. A written condition always gets a time.
func setCondition(pod *corev1.Pod, want corev1.PodCondition, force bool) bool {
	for i := range pod.Status.Conditions {
		have := &pod.Status.Conditions[i]
		if have.Type != want.Type {
			continue
		}
		changed := have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
		want.LastTransitionTime = have.LastTransitionTime
		if have.Status != want.Status || ((changed || force) && have.LastTransitionTime.IsZero()) {
			want.LastTransitionTime = metav1.NewTime(now)
		}
		*have = want
		return changed
	}
	want.LastTransitionTime = metav1.NewTime(now)
	pod.Status.Conditions = append(pod.Status.Conditions, want)
	return true
}

// kubeletReady is a second implementation of the kubelet's rule (pkg/kubelet/status of Kubernetes 1.36).
func kubeletReady(pod *corev1.Pod) (corev1.PodCondition, bool) {
	have := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		have[c.Type] = c.Status
	}
	if have[corev1.ContainersReady] != corev1.ConditionTrue {
		return corev1.PodCondition{}, false
	}
	var messages []string
	for _, g := range pod.Spec.ReadinessGates {
		if status, ok := have[g.ConditionType]; !ok {
			messages = append(messages, `corresponding condition of pod readiness gate "`+string(g.ConditionType)+`" does not exist.`)
		} else if status != corev1.ConditionTrue {
			messages = append(messages, `the status of pod readiness gate "`+string(g.ConditionType)+`" is not "True", but `+string(status))
		}
	}
	if len(messages) == 0 {
		return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}, true
	}
	return corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", Message: strings.Join(messages, ", "),
	}, true
}

// TestMergeDoesWhatEachChangeSays runs a fixed number of the fuzz target's cases with every test run.
func TestMergeDoesWhatEachChangeSays(t *testing.T) {
	for seed := range uint64(300) {
		checkMerge(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzMerge(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed << 32)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkMerge(t, seed) })
}

func checkMerge(t *testing.T, seed uint64) {
	m := maker{rand.New(rand.NewPCG(seed, 2))}
	pod := m.pod()
	original := pod.DeepCopy()
	changes := make([]podpatch.Change, m.IntN(4))
	for i := range changes {
		changes[i] = m.change()
	}
	merger := podpatch.Merger{ResizeInSpec: m.IntN(4) == 0}
	patches, err := merger.Merge(pod, now, changes...)
	if want := disagree(changes); errors.Is(err, podpatch.ConflictingChange) != want || (err != nil && !want) {
		t.Fatalf("Merge = %v, conflict: %v\n%+v", err, want, changes)
	}
	if diff := cmp.Diff(original, pod); diff != "" {
		t.Fatalf("the Pod was modified:\n%s", diff)
	}
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, p := range patches.Requests {
		if seen[p.Subresource] {
			t.Errorf("two patches of %q", p.Subresource)
		}
		seen[p.Subresource] = true
	}
	got, want := applied(t, pod, patches), intended(pod, changes)
	if diff := cmp.Diff(unordered(want), unordered(got), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the Pod (-intended +patched):\n%s\nchanges %+v\npatches %s", diff, changes, patches.Requests)
	}
	for i := range changes {
		changes[i].ForceConditions = false
	}
	if again, err := merger.Merge(got, now, changes...); err != nil || !again.IsEmpty() {
		t.Errorf("a second merge sends %s, %v", again.Requests, err)
	}
}

// unordered returns a copy of the Pod in which lists without a meaningful order are sorted.
func unordered(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Finalizers = slices.Compact(slices.Sorted(slices.Values(pod.Finalizers)))
	slices.SortFunc(pod.Status.Conditions, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return pod
}
