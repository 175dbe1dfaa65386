// Package podpatch answers "which requests carry out all of these decisions?".
//
// Several deciders have an opinion about one Pod: the in-place updater wants another image, the lifecycle machine another
// label, a readiness writer another condition. Each returns a [Change]. [Merge] turns all changes for one Pod into the
// fewest requests: at most one patch each for pods/status, pods and pods/resize, with nothing in them that the Pod
// already has, and none at all when nothing differs.
//
// # Ready
//
// The patch that closes a readiness gate sets the Pod's Ready condition False as well, with the kubelet's own reason and
// message, so that traffic ends at once and the kubelet finds nothing to correct. The patch that opens a gate leaves Ready to
// the kubelet, which sets it True within about a second. If it were written here, the kubelet would see no change, keep the
// False in its own memory, and take the Pod out of service again with its next status write.
//
// # Where metadata goes
//
// Labels, annotations and finalizers travel with a spec change when there is one, otherwise with a status change when
// there is one, otherwise alone. pods/status keeps metadata (it resets only spec, deletionTimestamp and owner references),
// which is what makes one request out of two. Two things follow for cluster owners: the right to patch pods/status is the
// right to label Pods, and an admission policy that matches the resource pods alone does not see those writes.
//
// # Preconditions
//
// Every patch carries the Pod's UID, so that nothing is done to a successor of the same name. A resourceVersion is
// demanded only where a change says that a lost update would matter, and then by the first patch of the sequence.
//
// Everything in this package is pure and safe for concurrent use; package podpatch/podwrite sends the patches.
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
	// ConflictingChange means that two deciders want different values for the same field of one Pod: Old is what the earlier
	// change wants, New the later one. It is an error of the program that called them; nothing is written.
	ConflictingChange reason.Code = "ConflictingChange"
	// StaleDecision means that a change was decided on another Pod than the one it is merged for: another UID, or another
	// resourceVersion where the change demands one.
	StaleDecision reason.Code = "StaleDecision"
	// NoSuchContainer means that a change names a container that the Pod does not have.
	NoSuchContainer reason.Code = "NoSuchContainer"
	// InvalidChange means that a change asks for what no Pod should have: a condition without type or status, a container
	// without image, or a condition's transition at the zero time. It is an error of the program that called; nothing is written.
	InvalidChange reason.Code = "InvalidChange"
)

// Change is what one decider wants done to one Pod. The zero value wants nothing. Changes are plain data: nothing in them
// is modified by Merge.
type Change struct {
	// UID of the Pod the decision was made on; empty skips the check against the Pod given to Merge.
	UID types.UID
	// ResourceVersion is set only where a lost update would matter, such as a read-modify-write of a condition's message.
	ResourceVersion string
	// Labels and Annotations are set to the value, or removed where the value is nil.
	Labels, Annotations map[string]*string
	// AddFinalizers and RemoveFinalizers name single finalizers; those of others are left alone.
	AddFinalizers, RemoveFinalizers []string
	// Conditions are set by type. LastTransitionTime is filled in by Merge: now when the status changes, the old time
	// otherwise. Status, reason and message replace those of the Pod's condition; its LastProbeTime and ObservedGeneration
	// are left alone.
	Conditions []corev1.PodCondition
	// ForceConditions sends Conditions even where the Pod already shows them, because the Pod may come from a stale cache.
	ForceConditions bool
	// Images by name of a container or native sidecar.
	Images map[string]string
	// Resources by name of a container or native sidecar: only the entries that change. They go through pods/resize, unless
	// Merger.ResizeInSpec is set.
	Resources map[string]corev1.ResourceRequirements
}

// IsEmpty reports whether the change wants nothing done.
func (c *Change) IsEmpty() bool {
	return len(c.Labels) == 0 && len(c.Annotations) == 0 && len(c.AddFinalizers) == 0 && len(c.RemoveFinalizers) == 0 &&
		len(c.Conditions) == 0 && len(c.Images) == 0 && len(c.Resources) == 0
}

// Patch is one request: a strategic merge patch for the Pod or one of its subresources.
type Patch struct {
	// Subresource is "status", "resize" or empty for the Pod itself.
	Subresource string
	// Body is the JSON of the patch.
	Body []byte
}

// Patches are the requests for one Pod, in the order in which they must be sent: status first, so that traffic is off
// before a container restarts.
type Patches struct {
	// Pod names the Pod the patches are for.
	Pod types.NamespacedName
	// UID is the precondition that every body carries.
	UID types.UID
	// Requests holds at most one patch each for status, the Pod and resize.
	Requests []Patch
}

// IsEmpty reports whether there is nothing to send.
func (p Patches) IsEmpty() bool { return len(p.Requests) == 0 }

// Merger merges changes for one API server. The zero value is for API servers since Kubernetes 1.32.
type Merger struct {
	// ResizeInSpec sends Change.Resources with the Pod's spec. API servers before 1.32, which have no pods/resize, want them
	// there.
	ResizeInSpec bool
}

// Merge is Merger.Merge for API servers since Kubernetes 1.32.
func Merge(pod *corev1.Pod, now time.Time, changes ...Change) (Patches, error) {
	return Merger{}.Merge(pod, now, changes...)
}

// Merge combines the changes into the fewest patches that turn the Pod into what all of them want. The Pod is not
// modified. now becomes the transition time of conditions whose status changes, in whole seconds. If the changes cannot be
// merged it returns no patches, and the error is a reason.List that names every obstacle by path, with the codes
// ConflictingChange, StaleDecision, NoSuchContainer and InvalidChange. A stale change is reported once; its wishes are not
// compared with others.
func (o Merger) Merge(pod *corev1.Pod, now time.Time, changes ...Change) (Patches, error) {
	m := merge{pod: pod, now: now, resizeInSpec: o.ResizeInSpec}
	for i := range changes {
		m.add(&changes[i])
	}
	if len(m.problems) > 0 {
		// Maps are walked in any order; the same changes give the same error.
		slices.SortStableFunc(m.problems, func(a, b reason.Reason) int { return strings.Compare(a.Path, b.Path) })
		return Patches{}, m.problems
	}
	return m.patches()
}

// merge collects changes and drops what the Pod already has.
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

// problem adds a problem of the Pod unless it is known already.
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

// patches drops what the Pod already has and encodes the rest.
func (m *merge) patches() (Patches, error) {
	out := Patches{Pod: types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}, UID: m.pod.UID}
	meta := m.metadata()
	conditions := m.changedConditions()
	spec, resize := m.specs()

	var bodies [3]*body // status, pod, resize
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

// specs returns what changes through the Pod and through its subresource resize. Containers are listed in the Pod's order:
// the API server takes the order of a patch's entries for the one that is wanted, and refuses to change it on a live Pod.
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

// What a conflict shows where there is no value to show.
const added, removed = "(added)", "(removed)"

// rendered shows requests and limits as a user writes them.
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
