package probing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// State is the state of a probe.
type State string

// These are the states of a probe. Other values count as no state.
const (
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
	// Unknown means that the probe has no result yet for the present instance of the container.
	Unknown State = "Unknown"
)

func (s State) isValid() bool { return s == Succeeded || s == Failed || s == Unknown }

// Marker describes probes to run for the containers of selected Pods.
type Marker struct {
	Namespace, Name string
	// Selector selects Pods in the namespace; nil selects none.
	Selector labels.Selector
	Probes   []Probe
}

// Probe is a probe of a Marker.
type Probe struct {
	// Name is unique in the Marker and contains no "#".
	Name string
	// Container is the name of a container or of a native sidecar.
	Container string
	// Probe has the handler and the timings; see Next for the defaults. The fields host and
	// terminationGracePeriodSeconds have no effect.
	Probe corev1.Probe
	// Condition is the type of the condition to write: True for Succeeded, False for Failed and Unknown. An empty
	// Condition means that no condition is written.
	Condition corev1.PodConditionType
	// Marks are set in the given state, and removed in the other states.
	Marks []Marks
}

// Marks are labels and annotations for a state.
type Marks struct {
	State               State
	Labels, Annotations map[string]string
}

// separator separates the name of a Marker from the name of a probe. No name of a Kubernetes object contains "#".
const separator = "#"

// joinName returns the name of a Marker's probe in entries and reports: "<marker>#<probe>", as in OpenKruise.
func joinName(marker, probe string) string { return marker + separator + probe }

// splitName returns both parts of a probe's name. ok is false for names of any other form, for example from a hostile
// Node.
func splitName(name string) (marker, probe string, ok bool) {
	marker, probe, ok = strings.Cut(name, separator)
	if ok = ok && marker != "" && probe != "" && !strings.Contains(probe, separator); !ok {
		return "", "", false
	}
	return marker, probe, true
}

// Annotations are the names of annotations of Pods.
type Annotations struct {
	// Ledger is the annotation with the marks set by Book.Mark; required.
	Ledger string
	// List is the annotation with names of Markers, separated by commas. If a Pod has the annotation, exactly the named
	// Markers count, and selectors do not. An empty List means that only selectors count.
	List string
}

// Book contains all Markers, in the order of precedence: if two probes set the same mark, the earlier probe wins.
// Sort Markers by creation time and name, so that a new Marker does not override old Markers. Make a Book with
// NewBook. A Book never changes.
type Book struct {
	annotations Annotations
	markers     map[string][]Marker // by namespace
}

// NewBook returns a Book of Markers. Invalid probes are left out, and invalid contains the reasons. If
// annotations.Ledger is empty or equal to annotations.List, NewBook returns nil and the reason InvalidAnnotation.
func NewBook(annotations Annotations, markers []Marker) (book *Book, invalid reason.List) {
	if annotations.Ledger == "" || annotations.Ledger == annotations.List {
		return nil, reason.List{{Code: InvalidAnnotation, Path: "annotations.ledger", New: annotations.Ledger, Detail: "the ledger needs an annotation of its own"}}
	}
	book = &Book{annotations: annotations, markers: map[string][]Marker{}}
	seen := map[string]bool{}
	for _, m := range markers {
		object := reason.Object{Kind: "Marker", Namespace: m.Namespace, Name: m.Name}
		key := m.Namespace + "/" + m.Name
		if m.Name == "" || strings.Contains(m.Name, separator) || seen[key] {
			invalid = append(invalid, reason.Reason{Code: InvalidMarker, Object: object, Path: "metadata.name", New: m.Name, Detail: "the name is empty, repeated, or contains a #"})
			continue
		}
		seen[key] = true
		given := m.Probes
		m.Probes = nil
		for i := range given {
			if why := book.refuse(given[:i], &given[i]); why.Code != "" {
				why.Object = object
				invalid = append(invalid, why)
				continue
			}
			m.Probes = append(m.Probes, given[i])
		}
		book.markers[m.Namespace] = append(book.markers[m.Namespace], m)
	}
	return book, invalid
}

// refuse returns the reason why a probe is invalid; the code is empty if the probe is valid.
func (b *Book) refuse(earlier []Probe, p *Probe) reason.Reason {
	path := fmt.Sprintf("spec.probes[%s]", p.Name)
	switch {
	case p.Name == "" || strings.Contains(p.Name, separator):
		return reason.Reason{Code: InvalidMarker, Path: path + ".name", New: p.Name, Detail: "the name is empty, or contains a #"}
	case slices.ContainsFunc(earlier, func(e Probe) bool { return e.Name == p.Name }):
		return reason.Reason{Code: InvalidMarker, Path: path + ".name", New: p.Name, Detail: "an earlier probe has the same name"}
	case isReserved(p.Condition):
		return reason.Reason{Code: InvalidMarker, Path: path + ".podConditionType", New: string(p.Condition), Detail: "Kubernetes writes the condition"}
	case slices.ContainsFunc(p.Marks, func(m Marks) bool {
		_, ledger := m.Annotations[b.annotations.Ledger]
		_, list := m.Annotations[cmp.Or(b.annotations.List, b.annotations.Ledger)]
		return ledger || list
	}):
		return reason.Reason{Code: InvalidMarker, Path: path + ".markerPolicy", Detail: "no probe may set an annotation used by the controller"}
	}
	return reason.Reason{}
}

// isReserved reports whether the kubelet, the scheduler or another part of Kubernetes writes a condition of the type.
func isReserved(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodScheduled, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.DisruptionTarget,
		corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	}
	return false
}

// Of returns the Markers of a Pod, in the order of precedence, whether or not the Pod runs. The result is empty if no
// Marker selects the Pod, or if the Pod's annotation Annotations.List names no Marker.
func (b *Book) Of(pod *corev1.Pod) (out []Marker) {
	all := b.markers[pod.Namespace]
	if list, listed := pod.Annotations[b.annotations.List]; listed && b.annotations.List != "" {
		named := strings.Split(list, ",")
		for i := range named {
			named[i] = strings.TrimSpace(named[i])
		}
		for _, m := range all {
			if slices.Contains(named, m.Name) {
				out = append(out, m)
			}
		}
		return out
	}
	for _, m := range all {
		if m.Selector != nil && m.Selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, m)
		}
	}
	return out
}

// IsProbed reports whether the probes of a Pod are run: the Pod has a Node and has neither ended nor been deleted, and
// the condition Initialized is True.
func IsProbed(pod *corev1.Pod) bool {
	return podstate.IsActive(pod) && podstate.IsScheduled(pod) && podstate.IsTrue(pod, corev1.PodInitialized)
}
