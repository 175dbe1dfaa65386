package probing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Entry is a Pod in the spec of a Node, with the probes to run.
type Entry struct {
	Namespace, Name string
	UID             types.UID
	// IP is the Pod's address; empty if the Pod has none yet.
	IP     string
	Probes []Assigned
}

// Assigned is a probe in the spec of a Node.
type Assigned struct {
	// Name is unique in the Pod: "<marker>#<probe>" for a probe of a Marker. A probe of a source other than Markers has
	// a name without "#".
	Name      string
	Container string
	Probe     corev1.Probe
}

// Assign returns the entries of each Node for the given Pods, sorted by the Pods' namespaces and names. If pods
// contains all Pods of a Node, the entries of the Node are complete. The caller must then remove all other entries
// from the Node's spec, such as entries of deleted Pods and probes of deleted Markers. Pods without probes have no
// entry, and probes of unknown containers are left out. Probes that cannot be resolved are left out, and unusable
// contains the reasons. Pods that are not yet or no longer probed have no entry: see IsProbed. Nodes without an
// agent, such as virtual Nodes, also have entries, which the caller should ignore.
func (b *Book) Assign(pods []*corev1.Pod) (byNode map[string][]Entry, unusable reason.List) {
	byNode = map[string][]Entry{}
	for _, pod := range pods {
		if !IsProbed(pod) {
			continue
		}
		probes, why := b.assigned(pod)
		unusable = append(unusable, why...)
		if len(probes) == 0 {
			continue
		}
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], Entry{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, IP: pod.Status.PodIP, Probes: probes,
		})
	}
	for _, entries := range byNode {
		slices.SortFunc(entries, byPod)
	}
	return byNode, unusable
}

func (b *Book) assigned(pod *corev1.Pod) (probes []Assigned, unusable reason.List) {
	for _, m := range b.Of(pod) {
		for i := range m.Probes {
			p := &m.Probes[i]
			container := podstate.Container(pod, p.Container)
			if container == nil {
				continue
			}
			resolved, err := Resolve(&p.Probe, container)
			if err != nil {
				for _, why := range reason.From(err) {
					why.Object, why.Path = reason.ObjectOf("Pod", pod), "probes["+joinName(m.Name, p.Name)+"]."+why.Path
					unusable = append(unusable, why)
				}
				continue
			}
			probes = append(probes, Assigned{Name: joinName(m.Name, p.Name), Container: p.Container, Probe: resolved})
		}
	}
	return probes, unusable
}

// Carried returns the probes to write into a Pod's own annotations, for agents that read no spec of a Node, such as
// the agents of virtual Nodes. A webhook calls Carried when the Pod is created. The result contains only probes that
// have a condition and whose container exists; their marks are left out. If two probes have the same container and
// name, or the same condition, the result contains only the first probe. markers are the names of all Markers of the
// Pod, for Annotations.List.
func (b *Book) Carried(pod *corev1.Pod) (probes []Probe, markers []string) {
	for _, m := range b.Of(pod) {
		markers = append(markers, m.Name)
		for _, p := range m.Probes {
			if p.Condition == "" || podstate.Container(pod, p.Container) == nil {
				continue
			}
			if slices.ContainsFunc(probes, func(e Probe) bool {
				return e.Condition == p.Condition || e.Container == p.Container && e.Name == p.Name
			}) {
				continue
			}
			p.Marks = nil
			probes = append(probes, p)
		}
	}
	return probes, markers
}

// Join joins the entries of a Node from several sources, such as Markers and liveness probes run by the agent. The
// result is sorted by the Pods' namespaces and names. If two sources name the same probe of a Pod, the result
// contains the first probe, and repeated contains a reason.
func Join(sources ...[]Entry) (entries []Entry, repeated reason.List) {
	index := map[types.UID]int{}
	for _, source := range sources {
		for _, e := range source {
			i, known := index[e.UID]
			if !known {
				i = len(entries)
				index[e.UID] = i
				entries = append(entries, Entry{Namespace: e.Namespace, Name: e.Name, UID: e.UID, IP: e.IP})
			}
			into := &entries[i]
			if into.IP == "" {
				into.IP = e.IP
			}
			for _, p := range e.Probes {
				if slices.ContainsFunc(into.Probes, func(a Assigned) bool { return a.Name == p.Name }) {
					repeated = append(repeated, reason.Reason{Code: RepeatedProbe, Object: objectOf(e.Namespace, e.Name, e.UID), Path: "probes[" + p.Name + "]"})
					continue
				}
				into.Probes = append(into.Probes, p)
			}
		}
	}
	slices.SortStableFunc(entries, byPod)
	return entries, repeated
}
