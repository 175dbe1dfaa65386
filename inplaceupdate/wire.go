package inplaceupdate

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// savedState is the content of the state annotation: how far a Pod's update has come. The JSON is OpenKruise's
// (apps.kruise.io/inplace-update-state); SupersededImages, BatchResources, EnvByImage, Seen and KnownImages are additions that
// OpenKruise ignores.
type savedState struct {
	// Revision the Pod is updated to.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the update started.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`

	progress `json:",inline"`

	// ContainerBatchesRecord is the history of batches.
	ContainerBatchesRecord []savedBatch `json:"containerBatchesRecord,omitempty"`
}

// progress is the part of a savedState that completion depends on. It is decoded alone where nothing is written, because
// every event of a Pod makes somebody ask.
type progress struct {
	// LastContainerStatuses holds what each container ran when its image was changed; null until one was.
	LastContainerStatuses map[string]containerRecord `json:"lastContainerStatuses"`
	// UpdateEnvFromMetadata, UpdateResources and UpdateImages say what the update touches and completion must check.
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`
	// NextContainerImages, NextContainerRefMetadata and NextContainerResources wait for a later batch.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]RefMetadata                 `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	// PreCheckBeforeNext is what the next batch waits for.
	PreCheckBeforeNext *preCheck `json:"preCheckBeforeNext,omitempty"`
	// SupersededImages holds, by container, the images of earlier updates that had not completed when this one started.
	// Running one of them is no proof that this update is done.
	SupersededImages map[string][]string `json:"supersededImages,omitempty"`
	// BatchResources is what the current batch gives its containers through pods/resize, which is a request of its own: it
	// may never have been sent, and is then sent again. Removed when the update is complete.
	BatchResources map[string]corev1.ResourceRequirements `json:"batchResources,omitempty"`
	// EnvByImage names the containers that get new env from metadata by the restart for their new image. If that image is taken
	// back there may be no restart, and then a node agent has to report one.
	EnvByImage []string `json:"envByImage,omitempty"`
	// Seen holds, by container, since when the kubelet has left an instance alone of which only time can tell whether it runs the
	// new image.
	Seen map[string]sighting `json:"seen,omitempty"`
	// KnownImages holds, by container, a few images whose digest on this node is known, the newest last. They outlive an
	// update, because the next one may go back to them.
	KnownImages map[string][]knownImage `json:"knownImages,omitempty"`
}

// knownImagesKey begins the last value of a state that this package has written.
const knownImagesKey = `,"knownImages":`

// knownImage is an image that a container was seen to run.
type knownImage struct {
	// Image as the spec names it.
	Image string `json:"image"`
	// ImageID is the digest that the node reported. ContainerID is the instance that runs this image as long as it exists, empty
	// if it was not certain that the instance was started for this very name.
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID,omitempty"`
}

// sighting is an instance of a container, and when it was first reported by a kubelet that had seen the spec.
type sighting struct {
	ContainerID string      `json:"containerID"`
	At          metav1.Time `json:"at"`
}

// containerRecord is what a container ran before its image was changed.
type containerRecord struct {
	ImageID string `json:"imageID,omitempty"`
}

// preCheck names the containers that must be ready before the next batch starts.
type preCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// savedBatch records which containers were changed together.
type savedBatch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// savedGrace is the content of the grace annotation: the change that is applied when the grace period ends. The JSON is
// OpenKruise's (apps.kruise.io/inplace-update-grace). Keys that other builds add are ignored.
type savedGrace struct {
	Revision              string                                 `json:"revision"`
	ContainerImages       map[string]string                      `json:"containerImages,omitempty"`
	ContainerRefMetadata  map[string]RefMetadata                 `json:"containerRefMetadata,omitempty"`
	ContainerResources    map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	MetaDataPatch         []byte                                 `json:"metaDataPatch,omitempty"`
	UpdateEnvFromMetadata bool                                   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32                                  `json:"graceSeconds,omitempty"`
}

// metadataPatch is what savedGrace.MetaDataPatch holds: a strategic merge patch for a Pod's metadata.
type metadataPatch struct {
	Metadata struct {
		Labels           map[string]*string `json:"labels,omitempty"`
		Annotations      map[string]*string `json:"annotations,omitempty"`
		Finalizers       []string           `json:"finalizers,omitempty"`
		DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

// metadata returns the metadata to write when the grace period ends.
func (g *savedGrace) metadata(pod *corev1.Pod, key string) (metadataPatch, error) {
	var meta metadataPatch
	if len(g.MetaDataPatch) == 0 {
		return meta, nil
	}
	if err := decode.Object(g.MetaDataPatch, &meta); err != nil {
		return meta, unreadable(pod, key, string(g.MetaDataPatch), err)
	}
	return meta, nil
}

// part returns the part of a state that completion depends on; nil where there is no state.
func (s *savedState) part() *progress {
	if s == nil {
		return nil
	}
	return &s.progress
}

// next reports whether batches are still to come.
func (s *progress) next() bool {
	return len(s.NextContainerImages)+len(s.NextContainerRefMetadata)+len(s.NextContainerResources) > 0
}

// postponed returns, sorted, the containers of the batches that are still to come.
func (s *progress) postponed() []string {
	later := work{images: s.NextContainerImages, refs: s.NextContainerRefMetadata, resources: s.NextContainerResources}
	return later.containers()
}

// saved returns the Pod's whole state, nil when it has none.
func (u *Updater) saved(pod *corev1.Pod) (*savedState, error) {
	raw, key, ok := annotation(pod, u.config.Keys.StateAnnotation, u.config.Keys.LegacyStateAnnotation)
	if !ok {
		return nil, nil
	}
	state := &savedState{}
	if err := decode.Object([]byte(raw), state); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return state, nil
}

// lean returns the part of the Pod's state that completion depends on, nil when it has none. The memory of images is
// most of a state and seldom decides, so it is read only where it does.
func (u *Updater) lean(pod *corev1.Pod) (*progress, error) {
	raw, key, ok := annotation(pod, u.config.Keys.StateAnnotation, u.config.Keys.LegacyStateAnnotation)
	if !ok {
		return nil, nil
	}
	if rest, ok := withoutKnownImages(raw); ok {
		lean := &progress{}
		if decode.Object(rest, lean) == nil && !lean.needsMemory(pod, raw) {
			return lean, nil
		}
	}
	progress := &progress{}
	if err := decode.Object([]byte(raw), progress); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return progress, nil
}

// encodeState writes the memory of images last, so that it can be left out without being read.
func encodeState(state *savedState) (*string, error) {
	known := state.KnownImages
	lean := *state
	lean.KnownImages = nil
	text, err := encode(&lean)
	if err != nil || len(known) == 0 {
		return text, err
	}
	memory, err := encode(known)
	if err != nil {
		return nil, err
	}
	whole := strings.TrimSuffix(*text, "}") + knownImagesKey + *memory + "}"
	return &whole, nil
}

// withoutKnownImages returns the JSON of a state without its last value, the memory of images. ok is false where that is not
// the last value.
func withoutKnownImages(raw string) (rest []byte, ok bool) {
	at := strings.Index(raw, knownImagesKey)
	if at < 0 {
		return nil, false
	}
	depth, quoted := 0, false
	for i := at + len(knownImagesKey); i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return append(append(make([]byte, 0, at+1), raw[:at]...), '}'), raw[i+1:] == "}"
			}
		}
	}
	return nil, false
}

// needsMemory reports whether what is known about images may say something else about a container than its image does. raw
// is the state as it is written.
func (s *progress) needsMemory(pod *corev1.Pod, raw string) bool {
	for name := range s.LastContainerStatuses {
		spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
		if spec == nil || status == nil {
			continue
		}
		if !named(spec.Image, status) || (status.ContainerID != "" && strings.Contains(raw, status.ContainerID)) {
			return true
		}
	}
	return false
}

// grace returns the Pod's pending change, nil when it has none.
func (u *Updater) grace(pod *corev1.Pod) (*savedGrace, error) {
	raw, key, ok := annotation(pod, u.config.Keys.GraceAnnotation, u.config.Keys.LegacyGraceAnnotation)
	if !ok {
		return nil, nil
	}
	grace := &savedGrace{}
	if err := decode.Object([]byte(raw), grace); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return grace, nil
}

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

func unreadable(pod *corev1.Pod, key, raw string, err error) error {
	return reason.Reason{
		Code: UnreadableState, Object: podObject(pod), Path: "metadata.annotations[" + key + "]",
		New: shorten(raw), Detail: err.Error(), Remedy: "correct or remove the annotation",
	}.With(err)
}

func encode(v any) (*string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding an update's progress: %w", err)
	}
	text := string(raw)
	return &text, nil
}
