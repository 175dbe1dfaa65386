package nodepodprobe

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// past records the facts that were true at any time of a schedule. A controller may act on outdated facts, but never
// on facts that were never true.
type past struct {
	events  map[string]int // read so far, by kind
	ready   map[string]bool
	virtual map[string]bool
	pods    map[types.UID]*life
	probes  map[string][]wish // by <marker>#<probe>
	said    map[saying]bool
}

// life contains the present and former values of a Pod's fields.
type life struct {
	namespace, name, node string
	addresses             map[string]bool
	labels                map[string]bool // values of the label app
	lists                 map[string]bool // values of the annotation that names PodProbeMarkers; "-" for none
}

// wish is a version of a probe in a marker. The marker selected Pods by the value app of the label app.
type wish struct {
	v1alpha1.PodContainerProbe

	app string
}

// saying is a state that a Node has reported for a probe in the Node's spec.
type saying struct {
	pod     types.UID
	probe   string
	state   v1alpha1.ProbeState
	message string
}

func newPast() *past {
	return &past{
		events: map[string]int{}, ready: map[string]bool{}, virtual: map[string]bool{}, pods: map[types.UID]*life{},
		probes: map[string][]wish{}, said: map[saying]bool{},
	}
}

// learn reads the events since the last call.
func (w *story) learn() *past {
	p := w.past
	for _, e := range p.since("nodes", w.Server.Events(&corev1.Node{})) {
		if node, ok := e.Object.(*corev1.Node); ok {
			p.ready[node.Name] = p.ready[node.Name] || node.Status.Conditions != nil && node.Status.Conditions[0].Status == corev1.ConditionTrue
			p.virtual[node.Name] = p.virtual[node.Name] || node.Labels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet
		}
	}
	for _, e := range p.since("pods", w.Server.Events(&corev1.Pod{})) {
		if pod, ok := e.Object.(*corev1.Pod); ok {
			p.learnPod(pod)
		}
	}
	for _, e := range p.since("markers", w.Server.Events(&v1alpha1.PodProbeMarker{})) {
		if m, ok := e.Object.(*v1alpha1.PodProbeMarker); ok {
			for i := range m.Spec.Probes {
				key := m.Name + "#" + m.Spec.Probes[i].Name
				p.probes[key] = append(p.probes[key], wish{m.Spec.Probes[i], m.Spec.Selector.MatchLabels["app"]})
			}
		}
	}
	for _, e := range p.since("lists", w.Server.Events(&v1alpha1.NodePodProbe{})) {
		if list, ok := e.Object.(*v1alpha1.NodePodProbe); ok {
			p.learnList(list)
		}
	}
	return p
}

func (p *past) since(kind string, events []faultapi.Event) []faultapi.Event {
	begin := p.events[kind]
	p.events[kind] = len(events)
	return events[begin:]
}

func (p *past) learnPod(pod *corev1.Pod) {
	l := p.pods[pod.UID]
	if l == nil {
		l = &life{namespace: pod.Namespace, name: pod.Name, addresses: map[string]bool{}, labels: map[string]bool{}, lists: map[string]bool{}}
		p.pods[pod.UID] = l
	}
	if pod.Spec.NodeName != "" {
		l.node = pod.Spec.NodeName
	}
	l.addresses[pod.Status.PodIP], l.labels[pod.Labels["app"]] = true, true
	if list, listed := pod.Annotations[apps.AnnotationPodProbeMarkerList]; listed {
		l.lists[list] = true
	} else {
		l.lists["-"] = true
	}
}

// learnList records the reported states of probes that are in the spec of the same version of the NodePodProbe. If a
// status contains a probe twice, only the first state counts.
func (p *past) learnList(list *v1alpha1.NodePodProbe) {
	for _, asked := range list.Spec.PodProbes {
		if l := p.pods[types.UID(asked.UID)]; l == nil || l.node != list.Name {
			continue
		}
		for _, s := range list.Status.PodProbeStatuses {
			if s.UID != asked.UID || s.Name != asked.Name || s.Namespace != asked.Namespace {
				continue
			}
			for _, state := range s.ProbeStates {
				if slices.ContainsFunc(asked.Probes, func(c v1alpha1.ContainerProbe) bool { return c.Name == state.Name }) {
					p.said[saying{types.UID(s.UID), state.Name, state.State, state.Message[:min(len(state.Message), 1024)]}] = true
				}
			}
		}
	}
}

// hasSaid reports whether the Node of a Pod has reported a state, with any message.
func (p *past) hasSaid(pod types.UID, probe string, is func(v1alpha1.ProbeState) bool) bool {
	for s := range p.said {
		if s.pod == pod && s.probe == probe && is(s.state) {
			return true
		}
	}
	return false
}

// held contains the marks that a probe has set on a Pod, as recorded in the Pod's annotation.
type held struct {
	Labels, Annotations map[string]string
	Condition           string
}

// ledgerOf decodes the ledger of a Pod, an annotation that records the Pod's marks. The function does not use the
// controller's code, because a mistake in the controller's code would hide a wrong write.
func ledgerOf(pod *corev1.Pod) map[string]held {
	out := map[string]held{}
	if json.Unmarshal([]byte(pod.Annotations[apps.AnnotationProbeMarks]), &out) != nil {
		return map[string]held{}
	}
	return out
}

// selects reports, without the controller's code, whether a PodProbeMarker selects a Pod by the selector or by an
// annotation of the Pod that names PodProbeMarkers.
func selects(m *v1alpha1.PodProbeMarker, pod *corev1.Pod) bool {
	if list, listed := pod.Annotations[apps.AnnotationPodProbeMarkerList]; listed {
		return slices.Contains(strings.Split(list, ","), m.Name)
	}
	return m.Spec.Selector.MatchLabels["app"] == pod.Labels["app"]
}
