package persistentpodstate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
)

// records maps the names of Pods to the records of a PersistentPodState.
type records = map[string]v1beta1.PodState

// recordOf returns the new records of a PersistentPodState: the old records, with the records of ready Pods updated,
// and without records that are no longer needed. workload is nil if the workload does not exist. pods are the Pods
// that the workload controls. No Pod besides these Pods has the name of a record. nodes looks up a Node by name; the
// result is false if the Node is unknown. differs reports whether the new records differ from before. If no record
// has changed, recordOf returns before, not a copy. recordOf never modifies before.
//
//   - For a ready Pod that is not being deleted, recordOf records the Node, the labels of the Node that the spec names,
//     and the annotations that the spec names. If the Node is unknown, the old record of the Pod is kept.
//   - The records of Pods that are not ready or are being deleted are not changed.
//   - If the workload does not exist or is being deleted, all records are removed.
//   - Otherwise a record is kept as long as its Pod exists or its ordinal is wanted. With the policy WhenDeleted, all
//     records are kept until the workload is deleted. A record whose name has no ordinal is also kept. While the wanted
//     ordinals are unknown, all records are kept.
func recordOf(
	s *settings, before map[string]v1beta1.PodState, workload *workloads.Workload, pods []*corev1.Pod, nodes func(name string) (*corev1.Node, bool),
) (after map[string]v1beta1.PodState, differs bool) {
	if workload == nil || workload.Ending {
		return nil, len(before) > 0
	}
	d := &draft{records: before}
	for _, pod := range pods {
		if !podstate.IsReady(pod) || !podstate.IsScheduled(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		node, ok := nodes(pod.Spec.NodeName)
		if !ok {
			continue
		}
		if was, ok := before[pod.Name]; !ok || was.NodeName != node.Name || !isPartOf(was.NodeTopologyLabels, node.Labels, s.topology) || !isPartOf(was.Annotations, pod.Annotations, s.annotations) {
			d.put(pod.Name, v1beta1.PodState{NodeName: node.Name, NodeTopologyLabels: part(node.Labels, s.topology), Annotations: part(pod.Annotations, s.annotations)})
		}
	}
	if s.keepsAll || workload.Wanted.IsZero() {
		return d.records, d.changed
	}
	d.dropGone(workload.Wanted, pods)
	return d.records, d.changed
}

// forgets reports whether after lacks a record that before contains.
func forgets(before, after map[string]v1beta1.PodState) bool {
	for name := range before {
		if _, ok := after[name]; !ok {
			return true
		}
	}
	return false
}

// matters reports whether the change of a Pod may change the records, or lead to an event.
func matters(spec *v1beta1.PersistentPodStateSpec, before, after *corev1.Pod) bool {
	if podstate.IsReady(before) != podstate.IsReady(after) || before.Spec.NodeName != after.Spec.NodeName ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || ownerUID(before) != ownerUID(after) {
		return true
	}
	for _, annotation := range spec.PersistentPodAnnotations {
		was, had := before.Annotations[annotation.Key]
		if is, has := after.Annotations[annotation.Key]; was != is || had != has {
			return true
		}
	}
	return false
}

func ownerUID(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return string(ref.UID)
	}
	return ""
}

// draft is a set of records that is copied before the first change, and not at all without a change, because most
// reconciliations change none of thousands of records.
type draft struct {
	records records
	changed bool
}

func (d *draft) change() {
	if d.changed {
		return
	}
	d.changed = true
	if d.records = maps.Clone(d.records); d.records == nil {
		d.records = records{}
	}
}

func (d *draft) put(name string, state v1beta1.PodState) {
	d.change()
	d.records[name] = state
}

func (d *draft) drop(name string) {
	d.change()
	delete(d.records, name)
}

// dropGone removes the records of ordinals that are not wanted, if their Pods no longer exist.
func (d *draft) dropGone(wanted ordinals.Set, pods []*corev1.Pod) {
	unwanted := map[string]bool{}
	for name := range d.records {
		if _, ordinal, ok := ordinals.ParseName(name); ok && !wanted.Contains(ordinal) {
			unwanted[name] = true
		}
	}
	if len(unwanted) == 0 {
		return
	}
	for _, pod := range pods {
		delete(unwanted, pod.Name)
	}
	for name := range unwanted {
		d.drop(name)
	}
}

// part returns the entries of the map of with the given keys.
func part(of map[string]string, keys []string) (out map[string]string) {
	for _, key := range keys {
		if value, ok := of[key]; ok {
			put(&out, key, value)
		}
	}
	return out
}

// isPartOf reports whether was equals part(of, keys).
func isPartOf(was, of map[string]string, keys []string) bool {
	n := 0
	for _, key := range keys {
		if value, ok := of[key]; ok {
			if recorded, ok := was[key]; !ok || recorded != value {
				return false
			}
			n++
		}
	}
	return n == len(was)
}

func put(to *map[string]string, key, value string) {
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
}

// equal reports whether two records are equal.
func equal(a, b v1beta1.PodState) bool {
	return a.NodeName == b.NodeName && maps.Equal(a.NodeTopologyLabels, b.NodeTopologyLabels) && maps.Equal(a.Annotations, b.Annotations)
}

// maxSize is the largest size of all records together, in bytes of JSON. The API server accepts objects of up to 1.5
// MiB, including the metadata.
const maxSize = 1200 << 10

// fit returns the records in before with the changes in after, as far as the object has space for the changes.
// Deletions of records are applied first, then changes of records, then new records, each group in the order of
// ordinals. left names the Pods whose records could not be updated. fit never removes a record for lack of space.
func fit(before, after map[string]v1beta1.PodState, most int) (fit map[string]v1beta1.PodState, left []string) {
	size := 0
	for name, state := range after {
		size += sizeOf(name, state)
	}
	if size <= most {
		return after, nil
	}
	fit, size = records{}, 0
	var changed []string
	for _, name := range slices.SortedFunc(maps.Keys(after), byOrdinal) {
		was, ok := before[name]
		if ok {
			fit[name] = was
			size += sizeOf(name, was)
		}
		if !ok || !equal(was, after[name]) {
			changed = append(changed, name)
		}
	}
	slices.SortStableFunc(changed, func(a, b string) int { return cmp.Compare(rank(before, a), rank(before, b)) })
	for _, name := range changed {
		grown := sizeOf(name, after[name])
		if was, ok := before[name]; ok {
			grown -= sizeOf(name, was)
		}
		if grown > 0 && size+grown > most {
			left = append(left, name)
			continue
		}
		fit[name] = after[name]
		size += grown
	}
	slices.SortFunc(left, byOrdinal)
	return fit, left
}

// rank returns 0 for a Pod that has a record, and 1 for any other Pod.
func rank(before records, name string) int {
	if _, ok := before[name]; ok {
		return 0
	}
	return 1
}

func byOrdinal(a, b string) int {
	ownerA, ordinalA, _ := ordinals.ParseName(a)
	ownerB, ordinalB, _ := ordinals.ParseName(b)
	return cmp.Or(strings.Compare(ownerA, ownerB), cmp.Compare(ordinalA, ordinalB), strings.Compare(a, b))
}

// sizeOf returns the size of a record in bytes of JSON, or slightly more.
func sizeOf(name string, state v1beta1.PodState) int {
	const around = len(`"":{"nodeName":"","nodeTopologyLabels":{},"annotations":{}},`)
	return around + len(name) + len(state.NodeName) + sizeOfMap(state.NodeTopologyLabels) + sizeOfMap(state.Annotations)
}

func sizeOfMap(m map[string]string) (size int) {
	for key, value := range m {
		size += len(`"":"",`) + len(key) + len(value) + escapes(value)
	}
	return size
}

// escapes returns by how many bytes a text grows when it is encoded as JSON.
func escapes(text string) (more int) {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= 0x7f || c == '<' || c == '>' || c == '&':
			more += len(`\u0000`) - 1
		case c == '"' || c == '\\':
			more++
		}
	}
	return more
}
