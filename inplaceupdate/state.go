package inplaceupdate

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// State is the progress of a Pod's update, for display.
type State struct {
	// Revision is the Target.Revision of the Pod's last update.
	Revision string
	// Started is when the update started, in whole seconds.
	Started time.Time
	// Batches are the groups of containers changed so far, the oldest batch first. An update that changes only
	// metadata has no batches.
	Batches []Batch
	// Postponed are the sorted names of containers that later batches will change.
	Postponed []string
}

// Batch is a group of containers changed in a single patch.
type Batch struct {
	// At is the time of the patch, in whole seconds.
	At time.Time
	// Containers are the names of the changed containers, sorted.
	Containers []string
}

// State returns the state of the Pod's last update, nil if the Pod was never updated. The error carries the code
// UnreadableState, or InvalidConfig if New did not make the Updater.
func (u *Updater) State(pod *corev1.Pod) (*State, error) {
	if err := u.ready(); err != nil {
		return nil, err
	}
	saved, err := u.config.Keys.readState(pod)
	if saved == nil || err != nil {
		return nil, err
	}
	state := &State{Revision: saved.Revision, Started: saved.UpdateTimestamp.Time}
	for _, batch := range saved.ContainerBatchesRecord {
		state.Batches = append(state.Batches, Batch{At: batch.Timestamp.Time, Containers: batch.Containers})
	}
	if next := saved.next(); !next.isEmpty() {
		state.Postponed = next.containers()
	}
	return state, nil
}

// InGracePeriod reports whether the Pod has an annotation with changes that wait for the end of a grace period.
func (u *Updater) InGracePeriod(pod *corev1.Pod) bool {
	if u.ready() != nil {
		return false
	}
	_, _, ok := u.config.Keys.graceOf(pod)
	return ok
}

// savedState is the content of the state annotation: the progress of a Pod's update. The JSON has OpenKruise's format
// (apps.kruise.io/inplace-update-state); SupersededImages, BatchResources, EnvByImage, EnvSidecars, Seen, SeenDigests,
// KnownImages and the times of containerRecords are additions. OpenKruise ignores these additions.
type savedState struct {
	// Revision is the revision to which the Pod is updated.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the update started.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`

	progress `json:",inline"`

	// ContainerBatchesRecord lists the batches sent so far.
	ContainerBatchesRecord []savedBatch `json:"containerBatchesRecord,omitempty"`
}

// progress is the part of a savedState that decides whether the update is complete. A decision that writes nothing
// decodes only progress, to save time: every event of a Pod causes a decision.
type progress struct {
	// LastContainerStatuses holds, for each container, a record from before the change of its image; null before the
	// first change.
	LastContainerStatuses map[string]containerRecord `json:"lastContainerStatuses"`
	// UpdateEnvFromMetadata, UpdateResources and UpdateImages say which kinds of changes must have taken effect
	// before the update is complete.
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`
	// NextContainerImages, NextContainerRefMetadata and NextContainerResources are the changes of later batches.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]RefMetadata                 `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	// PreCheckBeforeNext is the condition that must hold before the next batch is sent.
	PreCheckBeforeNext *preCheck `json:"preCheckBeforeNext,omitempty"`
	// SupersededImages holds, by container, the images of earlier updates that were incomplete when the present update
	// started. If the node reports such an image, the container may not have restarted for the present update.
	SupersededImages map[string][]string `json:"supersededImages,omitempty"`
	// BatchResources are the current batch's resources for pods/resize, which is a separate request. If the controller
	// stopped before this request, Next sends the request. The field is removed when the update is complete.
	BatchResources map[string]corev1.ResourceRequirements `json:"batchResources,omitempty"`
	// EnvByImage names the containers that read their new env when they restart for their new image. If somebody
	// reverts the image, there may be no restart, and then a node agent must report a restart.
	EnvByImage []string `json:"envByImage,omitempty"`
	// EnvSidecars are the sorted names of native sidecars with new env, if a node agent must report their restart.
	// OpenKruise neither restarts native sidecars for a new env nor waits for such a restart.
	EnvSidecars []string `json:"envSidecars,omitempty"`
	// Seen holds, by container, the instance whose image only waiting can prove, and the time since which the kubelet
	// has let the instance run.
	Seen map[string]sighting `json:"seen,omitempty"`
	// SeenDigests holds, by container, instances that were reported while the instances could run the new image or a
	// superseded image whose digest is unknown.
	SeenDigests map[string][]passedImage `json:"seenDigests,omitempty"`
	// KnownImages holds, by container, a few images whose digest on the node is known, the newest last. The images are
	// kept after the update, because the next update may return to one of these images.
	KnownImages map[string][]knownImage `json:"knownImages,omitempty"`
}

// knownImage is an image that a container certainly has run, as reported by the kubelet.
type knownImage struct {
	// Image is the image's name in the spec.
	Image string `json:"image"`
	// ImageID is the digest reported by the node. ContainerID is the ID of an instance that was certainly started with
	// the image; empty if the instance may have been started with another name of the image.
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID,omitempty"`
}

// sighting records an instance of a container, and when the kubelet first reported the instance after observing the
// newest spec.
type sighting struct {
	ContainerID string      `json:"containerID"`
	At          metav1.Time `json:"at"`
}

// containerRecord is the container's image before the change of the image. Since is the time of the request if a
// previous update made the request, because the batches of previous updates are no longer recorded.
type containerRecord struct {
	ImageID string       `json:"imageID,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// preCheck names the containers that must be ready before the next batch.
type preCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// savedBatch records which containers were changed together.
type savedBatch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// savedGrace is the content of the grace annotation: the changes that wait for the end of the grace period. The JSON
// has OpenKruise's format (apps.kruise.io/inplace-update-grace). Keys added by other versions of OpenKruise are
// ignored.
type savedGrace struct {
	Revision              string                                 `json:"revision"`
	ContainerImages       map[string]string                      `json:"containerImages,omitempty"`
	ContainerRefMetadata  map[string]RefMetadata                 `json:"containerRefMetadata,omitempty"`
	ContainerResources    map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	MetaDataPatch         []byte                                 `json:"metaDataPatch,omitempty"`
	UpdateEnvFromMetadata bool                                   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32                                  `json:"graceSeconds,omitempty"`
}

// metadataPatch is the content of savedGrace.MetaDataPatch: a strategic merge patch for a Pod's metadata.
type metadataPatch struct {
	Metadata struct {
		Labels           map[string]*string `json:"labels,omitempty"`
		Annotations      map[string]*string `json:"annotations,omitempty"`
		Finalizers       []string           `json:"finalizers,omitempty"`
		DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

// next returns the changes of the batches after the current batch.
func (p *progress) next() work {
	return work{images: p.NextContainerImages, refs: p.NextContainerRefMetadata, resources: p.NextContainerResources}
}

// work returns the containers' changes that must be sent at the end of the grace period.
func (g *savedGrace) work() work {
	return work{images: g.ContainerImages, refs: g.ContainerRefMetadata, resources: g.ContainerResources}
}

// passedImage is an image that an instance of a container ran, as reported by the node.
type passedImage struct {
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID"`
}

// annotation returns the value of the Pod's annotation with the name key or, if missing, with the name legacy. found
// is the name with the value.
func annotation(pod *corev1.Pod, key, legacy string) (raw, found string, ok bool) {
	if raw, ok = pod.Annotations[key]; ok {
		return raw, key, true
	}
	if legacy != "" {
		if raw, ok = pod.Annotations[legacy]; ok {
			return raw, legacy, true
		}
	}
	return "", "", false
}

func (k *Keys) stateOf(pod *corev1.Pod) (raw, key string, ok bool) {
	return annotation(pod, k.StateAnnotation, k.LegacyStateAnnotation)
}

func (k *Keys) graceOf(pod *corev1.Pod) (raw, key string, ok bool) {
	return annotation(pod, k.GraceAnnotation, k.LegacyGraceAnnotation)
}

// readState returns the Pod's whole state annotation, decoded, or nil if the Pod has none.
func (k *Keys) readState(pod *corev1.Pod) (*savedState, error) {
	raw, key, ok := k.stateOf(pod)
	if !ok {
		return nil, nil
	}
	saved := &savedState{}
	if err := decode.Object([]byte(raw), saved); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return saved, nil
}

// whole returns the whole decoded state, nil if the Pod has none. The first call decodes the annotation.
func (v *view) whole() (*savedState, error) {
	if v.saved != nil {
		return v.saved, nil
	}
	saved, err := v.config.Keys.readState(v.pod)
	if saved != nil {
		v.saved, v.state = saved, &saved.progress
	}
	return saved, err
}

// readProgress decodes the part of the state that decides whether the update is complete. The history of batches and
// images is the largest part of most states, and its decoding takes time. readProgress decodes the known images only if
// they matter, and never the batches.
func (v *view) readProgress() error {
	raw, key, ok := v.config.Keys.stateOf(v.pod)
	if !ok {
		return nil
	}
	if text, ok := appendLean(v.text[:0], raw); ok && decode.Object(text, &v.lean) == nil {
		if v.state = &v.lean; !v.needsMemory(raw) {
			return nil
		}
	}
	v.lean = progress{}
	if err := decode.Object(append(v.text[:0], raw...), &v.lean); err != nil {
		return unreadable(v.pod, key, raw, err)
	}
	v.state = &v.lean
	return nil
}

// needsMemory reports whether readProgress must decode the known images, because the node's report alone may not
// prove which images run. raw is the text of the whole state.
func (v *view) needsMemory(raw string) bool {
	for i := range v.containers {
		c := &v.containers[i]
		if _, recorded := c.record(); !recorded || c.spec == nil || c.status == nil {
			continue
		}
		if !named(c.spec.Image, c.status) || len(c.superseded()) > 0 ||
			(c.status.ContainerID != "" && strings.Contains(raw, c.status.ContainerID)) {
			return true
		}
	}
	return false
}

// recordKey and knownImagesKey are the last two keys in a state's JSON, in this order. OpenKruise writes only
// recordKey.
const (
	recordKey      = `,"containerBatchesRecord":`
	knownImagesKey = `,"knownImages":`
)

// appendLean appends a state's JSON to buffer, without the values of recordKey and knownImagesKey, that is without the
// history. ok is false unless the state ends with at least one of the two keys.
func appendLean(buffer []byte, raw string) (text []byte, ok bool) {
	at := strings.Index(raw, recordKey)
	if at < 0 {
		at = strings.Index(raw, knownImagesKey)
	}
	if at < 0 {
		return nil, false
	}
	rest, hasRecord := afterValue(raw[at:], recordKey)
	rest, hasMemory := afterValue(rest, knownImagesKey)
	if rest != "}" || !hasRecord && !hasMemory {
		return nil, false
	}
	return append(append(buffer, raw[:at]...), '}'), true
}

// afterValue returns the text that follows a key and its value, an object or array. If the text does not begin with the
// key, afterValue returns the text unchanged.
func afterValue(text, key string) (rest string, found bool) {
	value, found := strings.CutPrefix(text, key)
	if !found {
		return text, false
	}
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return value[i+1:], true
			}
		}
	}
	return text, false
}

// readGrace decodes the grace annotation.
func (v *view) readGrace() error {
	raw, key, ok := v.config.Keys.graceOf(v.pod)
	if !ok {
		return nil
	}
	v.grace = &savedGrace{}
	if err := decode.Object([]byte(raw), v.grace); err != nil {
		return unreadable(v.pod, key, raw, err)
	}
	return nil
}

// heldMetadata returns the metadata to write at the end of the grace period.
func (v *view) heldMetadata() (metadataPatch, error) {
	var meta metadataPatch
	if len(v.grace.MetaDataPatch) == 0 {
		return meta, nil
	}
	if err := decode.Object(v.grace.MetaDataPatch, &meta); err != nil {
		return meta, unreadable(v.pod, v.config.Keys.GraceAnnotation, string(v.grace.MetaDataPatch), err)
	}
	return meta, nil
}

func unreadable(pod *corev1.Pod, key, raw string, err error) error {
	return reason.Reason{
		Code: UnreadableState, Object: podObject(pod), Path: "metadata.annotations[" + key + "]",
		New: shorten(raw), Detail: err.Error(), Remedy: "correct or remove the annotation",
	}.With(err)
}

// putState adds the state annotation, under its current name, to a change.
func (v *view) putState(change *podpatch.Change, state *savedState) error {
	text, err := v.encodeState(state)
	if err != nil {
		return err
	}
	change.Annotations[v.config.Keys.StateAnnotation] = text
	v.drop(change, v.config.Keys.LegacyStateAnnotation)
	return nil
}

// encodeState encodes the known images last, where readProgress expects the images.
func (v *view) encodeState(state *savedState) (*string, error) {
	known := state.KnownImages
	lean := *state
	lean.KnownImages = nil
	text, err := v.encode(&lean)
	if err != nil || len(known) == 0 {
		return text, err
	}
	memory, err := v.encode(known)
	if err != nil {
		return nil, err
	}
	whole := strings.TrimSuffix(*text, "}") + knownImagesKey + *memory + "}"
	return &whole, nil
}

func (v *view) encode(value any) (*string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, v.unwritable(err)
	}
	text := string(raw)
	return &text, nil
}

// unwritable is the error for a plan with values that cannot be encoded in JSON.
func (v *view) unwritable(err error) error {
	return reason.Reason{Code: InvalidArgument, Object: v.object(), Path: "plan", Detail: err.Error()}.With(err)
}

// put sets a key of a map, and makes the map if the map is nil.
func put[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = make(M)
	}
	(*m)[key] = value
}

// united returns the entries of both maps. If both maps have a key, the entry of b counts. united modifies neither map,
// but may return b itself.
func united[M ~map[K]V, K comparable, V any](a, b M) M {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
