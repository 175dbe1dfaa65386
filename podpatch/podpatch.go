// Package podpatch answers "which requests carry out all of these decisions?".
//
// Several parts of a controller (deciders) want to change a Pod: the in-place updater its images, the lifecycle
// machine its labels, a readiness writer its conditions. Each returns a [Change]. [Merge] turns all changes of a Pod
// into the fewest requests: at most one patch each for pods/status, pods and pods/resize, without values that the Pod
// has already, and no patch if nothing differs.
//
// # Ready
//
// The patch that closes a readiness gate also sets the Pod's Ready condition to False, with the kubelet's own reason
// and message, so that traffic ends at once and the kubelet has nothing to correct. The patch that opens a gate
// leaves Ready to the kubelet, which sets Ready True within about a second. If the patch set Ready to True, the
// kubelet would not notice the change: the kubelet's own record would still say False, and the kubelet's next status
// write would take the Pod out of service again.
//
// # Metadata
//
// Labels, annotations and finalizers are sent in the patch of the spec if there is one, otherwise in the patch of the
// status if there is one, otherwise in a patch of their own. A patch of pods/status may change metadata (the API
// server resets only spec, deletionTimestamp and owner references), so a single request replaces two. This has two
// consequences for cluster administrators: everybody with the right to patch pods/status may set labels of Pods, and
// an admission policy that covers only the resource pods does not see such writes.
//
// # Preconditions
//
// Every patch carries the Pod's UID, so the patch never changes another Pod of the same name. A patch carries a
// resourceVersion only if a change says that a lost update would matter, and then only the first patch of the
// sequence carries the resourceVersion.
//
// Every function of the package is pure and safe for concurrent use; package podpatch/podwrite sends the patches.
package podpatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// ConflictingChange means that two deciders want different values for the same field of a Pod: Old is the earlier
	// change's value, New the later change's. ConflictingChange is a bug of the calling program; nothing is written.
	ConflictingChange reason.Code = "ConflictingChange"
	// StaleDecision means that a change was decided for another Pod than the Pod passed to Merge: the UID differs, or
	// the resourceVersion if the change has one.
	StaleDecision reason.Code = "StaleDecision"
	// NoSuchContainer means that a change names a container that the Pod does not have.
	NoSuchContainer reason.Code = "NoSuchContainer"
	// InvalidChange means that a change has an impossible value: a condition without type or status, a container
	// without image, or a zero time for a condition's transition. InvalidChange is a bug of the calling program;
	// nothing is written.
	InvalidChange reason.Code = "InvalidChange"
)

// Change has the changes of a Pod that a decider wants. The zero value changes nothing. Changes are plain data, and
// Merge does not modify them.
type Change struct {
	// UID is the UID of the Pod for which the change was decided; empty skips the check against the Pod passed to
	// Merge.
	UID types.UID
	// ResourceVersion is set only if a lost update would matter, for example when a condition's message is read,
	// modified and written.
	ResourceVersion string
	// Labels and Annotations are set to the value, or removed if the value is nil.
	Labels, Annotations map[string]*string
	// AddFinalizers and RemoveFinalizers name single finalizers. All other finalizers are unchanged.
	AddFinalizers, RemoveFinalizers []string
	// Conditions are replaced by type. Merge fills in LastTransitionTime: now if the status changes, otherwise the old
	// time. Status, reason and message replace the values of the Pod's condition. LastProbeTime and ObservedGeneration
	// are unchanged.
	Conditions []corev1.PodCondition
	// ForceConditions sends Conditions even if the Pod has the same conditions already, because the given Pod may come
	// from a stale cache.
	ForceConditions bool
	// Images are the new images, by name of the container or native sidecar.
	Images map[string]string
	// Resources are the changed requests and limits, by name of the container or native sidecar. Resources are sent to
	// pods/resize, unless Merger.ResizeInSpec is set.
	Resources map[string]corev1.ResourceRequirements
}

// IsEmpty reports whether the change changes nothing.
func (c *Change) IsEmpty() bool {
	return len(c.Labels) == 0 && len(c.Annotations) == 0 && len(c.AddFinalizers) == 0 && len(c.RemoveFinalizers) == 0 &&
		len(c.Conditions) == 0 && len(c.Images) == 0 && len(c.Resources) == 0
}

// Patch is a request: a strategic merge patch for the Pod or for a subresource.
type Patch struct {
	// Subresource is "status", "resize", "ephemeralcontainers" or empty for the Pod itself.
	Subresource string
	// Body is the JSON of the patch.
	Body []byte
}

// Patches are the requests for a Pod, in the order in which they must be sent: status first, so that the Pod is out
// of service before a container restarts.
type Patches struct {
	// Pod is the name of the Pod to patch.
	Pod types.NamespacedName
	// UID is a precondition in every patch.
	UID types.UID
	// Requests has at most one patch each for the status, the Pod and the resize.
	Requests []Patch
}

// IsEmpty reports whether there is nothing to send.
func (p Patches) IsEmpty() bool { return len(p.Requests) == 0 }

// Merger merges changes for an API server. The zero value is for API servers since Kubernetes 1.32.
type Merger struct {
	// ResizeInSpec sends Change.Resources in the patch of the Pod's spec, for API servers before 1.32, which do not
	// have pods/resize.
	ResizeInSpec bool
}

// Merge calls Merger.Merge of the zero Merger, for API servers since Kubernetes 1.32.
func Merge(pod *corev1.Pod, now time.Time, changes ...Change) (Patches, error) {
	return Merger{}.Merge(pod, now, changes...)
}

// Merge combines the changes into the fewest patches that give the Pod the values of all changes. Merge does not modify
// the Pod. now, in whole seconds, becomes the transition time of conditions whose status changes. If the changes cannot
// be merged, Merge returns no patches, and the error is a reason.List with every problem by path, with the codes
// ConflictingChange, StaleDecision, NoSuchContainer and InvalidChange. A stale change is reported once, and its values
// are not compared with other changes.
func (o Merger) Merge(pod *corev1.Pod, now time.Time, changes ...Change) (Patches, error) {
	m := merge{pod: pod, now: now, resizeInSpec: o.ResizeInSpec}
	for i := range changes {
		m.add(&changes[i])
	}
	if len(m.problems) > 0 {
		// Go iterates over maps in random order, but the same changes must always give the same error.
		slices.SortStableFunc(m.problems, func(a, b reason.Reason) int { return strings.Compare(a.Path, b.Path) })
		return Patches{}, m.problems
	}
	return m.patches()
}

// merge combines the changes of a Pod, and leaves out values that the Pod has already.
type merge struct {
	pod              *corev1.Pod
	now              time.Time
	resourceVersion  string
	labels           map[string]*string
	annotations      map[string]*string
	addFinalizers    []string
	removeFinalizers []string
	conditions       []corev1.PodCondition
	forced           []corev1.PodConditionType
	images           map[string]string
	resources        map[string]corev1.ResourceRequirements
	resizeInSpec     bool
	problems         reason.List
}

func (m *merge) fail(code reason.Code, path, was, want string) {
	m.problem(reason.Reason{Code: code, Path: path, Old: was, New: want})
}

func (m *merge) invalid(path, detail string) {
	m.problem(reason.Reason{Code: InvalidChange, Path: path, Detail: detail})
}

// problem adds a problem about the Pod unless the same problem is listed already.
func (m *merge) problem(why reason.Reason) {
	why.Object = reason.Object{Kind: "Pod", Namespace: m.pod.Namespace, Name: m.pod.Name, UID: m.pod.UID}
	if !slices.Contains(m.problems, why) {
		m.problems = append(m.problems, why)
	}
}

func (m *merge) add(c *Change) {
	if c.UID != "" && c.UID != m.pod.UID {
		m.fail(StaleDecision, "metadata.uid", string(c.UID), string(m.pod.UID))
		return
	}
	if c.ResourceVersion != "" {
		if c.ResourceVersion != m.pod.ResourceVersion {
			m.fail(StaleDecision, "metadata.resourceVersion", c.ResourceVersion, m.pod.ResourceVersion)
			return
		}
		m.resourceVersion = c.ResourceVersion
	}
	m.labels = m.addKeys("metadata.labels", m.labels, c.Labels)
	m.annotations = m.addKeys("metadata.annotations", m.annotations, c.Annotations)
	m.addFinalizerChanges(c)
	m.addConditions(c)
	m.addContainers(c)
}

func (m *merge) addKeys(path string, into, from map[string]*string) map[string]*string {
	for key, value := range from {
		if old, ok := into[key]; ok {
			if !equalValue(old, value) {
				m.fail(ConflictingChange, path+"["+key+"]", quoted(old), quoted(value))
			}
			continue
		}
		if into == nil {
			into = make(map[string]*string, len(from))
		}
		into[key] = value
	}
	return into
}

func (m *merge) addFinalizerChanges(c *Change) {
	for _, f := range c.AddFinalizers {
		if slices.Contains(m.removeFinalizers, f) {
			m.fail(ConflictingChange, "metadata.finalizers["+f+"]", removed, added)
		} else if !slices.Contains(m.addFinalizers, f) {
			m.addFinalizers = append(m.addFinalizers, f)
		}
	}
	for _, f := range c.RemoveFinalizers {
		if slices.Contains(m.addFinalizers, f) {
			m.fail(ConflictingChange, "metadata.finalizers["+f+"]", added, removed)
		} else if !slices.Contains(m.removeFinalizers, f) {
			m.removeFinalizers = append(m.removeFinalizers, f)
		}
	}
}

func (m *merge) addConditions(c *Change) {
	for _, want := range c.Conditions {
		switch {
		case want.Type == "":
			m.invalid(conditionPath(&want)+".type", "must not be empty")
		case want.Status == "":
			m.invalid(conditionPath(&want)+".status", "must not be empty")
		case m.now.IsZero():
			m.invalid(conditionPath(&want)+".lastTransitionTime", "must not be the zero time")
		}
		if c.ForceConditions {
			m.forced = append(m.forced, want.Type)
		}
		i := slices.IndexFunc(m.conditions, func(have corev1.PodCondition) bool { return have.Type == want.Type })
		if i < 0 {
			m.conditions = append(m.conditions, want)
			continue
		}
		if have := m.conditions[i]; !sameCondition(&have, &want) {
			m.fail(ConflictingChange, conditionPath(&want), describe(&have), describe(&want))
		}
	}
}

func conditionPath(c *corev1.PodCondition) string { return "status.conditions[" + string(c.Type) + "]" }

func (m *merge) addContainers(c *Change) {
	for name, image := range c.Images {
		path := "spec.containers[" + name + "].image"
		old, known := m.images[name]
		switch {
		case podstate.Container(m.pod, name) == nil:
			m.fail(NoSuchContainer, path, "", image)
		case image == "":
			m.invalid(path, "must not be empty")
		case !known:
			if m.images == nil {
				m.images = make(map[string]string, len(c.Images))
			}
			m.images[name] = image
		case old != image:
			m.fail(ConflictingChange, path, old, image)
		}
	}
	for name, want := range c.Resources {
		path := "spec.containers[" + name + "].resources"
		old, known := m.resources[name]
		switch {
		case podstate.Container(m.pod, name) == nil:
			m.fail(NoSuchContainer, path, "", rendered(want))
		case !known:
			if m.resources == nil {
				m.resources = make(map[string]corev1.ResourceRequirements, len(c.Resources))
			}
			m.resources[name] = want
		case !equality.Semantic.DeepEqual(old, want):
			m.fail(ConflictingChange, path, rendered(old), rendered(want))
		}
	}
}

// patches leaves out values that the Pod has already, and encodes all other values.
func (m *merge) patches() (Patches, error) {
	out := Patches{Pod: types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}, UID: m.pod.UID}
	meta := m.metadata()
	conditions := m.changedConditions()
	spec, resize := m.specs()

	var bodies [3]*body // patches of status, Pod and resize
	if len(conditions) > 0 {
		bodies[0] = &body{Status: &statusBody{Conditions: conditions}}
	}
	if spec != nil {
		bodies[1] = &body{Spec: spec}
	}
	if resize != nil {
		bodies[2] = &body{Spec: resize}
	}
	if !meta.isEmpty() {
		switch {
		case bodies[1] != nil:
			bodies[1].Metadata = meta
		case bodies[0] != nil:
			bodies[0].Metadata = meta
		default:
			bodies[1] = &body{Metadata: meta}
		}
	}
	for i, subresource := range []string{"status", "", "resize"} {
		b := bodies[i]
		if b == nil {
			continue
		}
		b.Metadata.UID = m.pod.UID
		if len(out.Requests) == 0 {
			b.Metadata.ResourceVersion = m.resourceVersion
		}
		raw, err := json.Marshal(b)
		if err != nil {
			return Patches{}, fmt.Errorf("encoding the %q patch of Pod %s: %w", subresource, out.Pod, err)
		}
		out.Requests = append(out.Requests, Patch{Subresource: subresource, Body: raw})
	}
	return out, nil
}

func (m *merge) metadata() metaBody {
	meta := metaBody{
		Labels:      changedKeys(m.pod.Labels, m.labels),
		Annotations: changedKeys(m.pod.Annotations, m.annotations),
	}
	for _, f := range m.addFinalizers {
		if !slices.Contains(m.pod.Finalizers, f) {
			meta.Finalizers = append(meta.Finalizers, f)
		}
	}
	for _, f := range m.removeFinalizers {
		if slices.Contains(m.pod.Finalizers, f) {
			meta.DeleteFinalizers = append(meta.DeleteFinalizers, f)
		}
	}
	return meta
}

func changedKeys(have map[string]string, want map[string]*string) map[string]*string {
	var changed map[string]*string
	for key, value := range want {
		old, ok := have[key]
		if (value == nil && !ok) || (value != nil && ok && old == *value) {
			continue
		}
		if changed == nil {
			changed = make(map[string]*string, len(want))
		}
		changed[key] = value
	}
	return changed
}

// specs returns the changes for the Pod's spec and for its subresource resize. Containers are listed in the Pod's
// order: the API server takes the order of a patch's entries as the wanted order, and refuses to reorder the containers
// of an existing Pod.
func (m *merge) specs() (spec, resize *specBody) {
	var direct, resized specBody
	for _, list := range [][]corev1.Container{m.pod.Spec.InitContainers, m.pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			entry := containerBody{Name: c.Name, Resources: m.changedResources(c)}
			if !m.resizeInSpec && entry.Resources != nil {
				resized.add(c, entry)
				entry.Resources = nil
			}
			if image, ok := m.images[c.Name]; ok && image != c.Image {
				entry.Image = image
			}
			if entry.Image != "" || entry.Resources != nil {
				direct.add(c, entry)
			}
		}
	}
	return direct.orNil(), resized.orNil()
}

// changedResources returns the quantities to send for a container, nil when there are none.
func (m *merge) changedResources(c *corev1.Container) *resourcesBody {
	want, ok := m.resources[c.Name]
	if !ok {
		return nil
	}
	changed := &resourcesBody{
		Limits:   changedQuantities(c.Resources.Limits, want.Limits),
		Requests: changedQuantities(c.Resources.Requests, want.Requests),
	}
	if len(changed.Limits)+len(changed.Requests) == 0 {
		return nil
	}
	return changed
}

func changedQuantities(have, want corev1.ResourceList) corev1.ResourceList {
	var changed corev1.ResourceList
	for name, quantity := range want {
		if old, ok := have[name]; ok && old.Cmp(quantity) == 0 {
			continue
		}
		if changed == nil {
			changed = make(corev1.ResourceList, len(want))
		}
		changed[name] = quantity
	}
	return changed
}

// These texts stand for a value in a conflict about a finalizer, or about a removed label or annotation.
const added, removed = "(added)", "(removed)"

// rendered formats requests and limits as users write them.
func rendered(r corev1.ResourceRequirements) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Sprint(r)
	}
	return reason.Shorten(string(raw), 80)
}

func equalValue(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func quoted(s *string) string {
	if s == nil {
		return removed
	}
	return fmt.Sprintf("%q", reason.Shorten(*s, 80))
}
