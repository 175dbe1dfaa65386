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

// State is the content of the state annotation: how far a Pod's update has come. The JSON is OpenKruise's
// (apps.kruise.io/inplace-update-state); SupersededImages, BatchResources, KnownImages and
// EnvByImage are additions that OpenKruise ignores.
type State struct {
	// Revision the Pod is updated to.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the update started.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`

	Progress `json:",inline"`

	// ContainerBatchesRecord is the history of batches.
	ContainerBatchesRecord []Batch `json:"containerBatchesRecord,omitempty"`
}

// Progress is the part of a State that completion depends on. It is decoded alone where nothing is written, because a
// Pod's state is looked at with every event of the Pod.
type Progress struct {
	// LastContainerStatuses holds what each container ran when its image was changed; null until one was.
	LastContainerStatuses map[string]ContainerRecord `json:"lastContainerStatuses"`
	// UpdateEnvFromMetadata, UpdateResources and UpdateImages say what the update touches and completion must check.
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`
	// NextContainerImages, NextContainerRefMetadata and NextContainerResources wait for a later batch.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]RefMetadata                 `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	// PreCheckBeforeNext is what the next batch waits for.
	PreCheckBeforeNext *PreCheck `json:"preCheckBeforeNext,omitempty"`
	// SupersededImages holds, by container, the images of earlier updates that had not completed when this one started.
	// Running one of them is no proof that this update is done.
	SupersededImages map[string][]string `json:"supersededImages,omitempty"`
	// BatchResources is what the current batch gives its containers through pods/resize, which is a request of its own: it
	// may never have been sent, and is then sent again. Removed when the update is complete.
	BatchResources map[string]corev1.ResourceRequirements `json:"batchResources,omitempty"`
	// EnvByImage names the containers that get new env from metadata by the restart for their new image. If that image is taken
	// back there may be no restart, and somebody has to report one.
	EnvByImage []string `json:"envByImage,omitempty"`
	// Seen holds, by container, since when the kubelet has left an instance alone about which only time can tell whether it is
	// of the new image.
	Seen map[string]Sighting `json:"seen,omitempty"`
	// KnownImages holds, by container, a few images of which it is known what they are on this node, the newest last. They
	// outlive an update, because the next one may go back to them.
	KnownImages map[string][]KnownImage `json:"knownImages,omitempty"`
}

// knownImagesKey begins the last value of a state that this package has written.
const knownImagesKey = `,"knownImages":`

// KnownImage is an image that a container was seen to run.
type KnownImage struct {
	// Image as the spec names it.
	Image string `json:"image"`
	// ImageID is the digest in what the node reported, and ContainerID the instance that runs this image as long as it exists. It
	// is empty where it was not sure that the instance was started for this very name.
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID,omitempty"`
}

// Sighting is an instance of a container, and when it was first reported by a kubelet that had seen the spec.
type Sighting struct {
	ContainerID string      `json:"containerID"`
	At          metav1.Time `json:"at"`
}

// ContainerRecord is what a container ran before its image was changed.
type ContainerRecord struct {
	ImageID string `json:"imageID,omitempty"`
}

// PreCheck names the containers that must be ready before the next batch starts.
type PreCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// Batch records which containers were changed together.
type Batch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// Grace is the content of the grace annotation: the change that is applied when the grace period ends. The JSON is
// OpenKruise's (apps.kruise.io/inplace-update-grace). Keys that other builds add are ignored.
type Grace struct {
	Revision              string                                 `json:"revision"`
	ContainerImages       map[string]string                      `json:"containerImages,omitempty"`
	ContainerRefMetadata  map[string]RefMetadata                 `json:"containerRefMetadata,omitempty"`
	ContainerResources    map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	MetaDataPatch         []byte                                 `json:"metaDataPatch,omitempty"`
	UpdateEnvFromMetadata bool                                   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32                                  `json:"graceSeconds,omitempty"`
}

// metadataPatch is what Grace.MetaDataPatch holds: a strategic merge patch for a Pod's metadata.
type metadataPatch struct {
	Metadata struct {
		Labels           map[string]*string `json:"labels,omitempty"`
		Annotations      map[string]*string `json:"annotations,omitempty"`
		Finalizers       []string           `json:"finalizers,omitempty"`
		DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

// metadata returns the metadata to write when the grace period ends.
func (g *Grace) metadata(pod *corev1.Pod, key string) (metadataPatch, error) {
	var meta metadataPatch
	if len(g.MetaDataPatch) == 0 {
		return meta, nil
	}
	if err := decode.Object(g.MetaDataPatch, &meta); err != nil {
		return meta, unreadable(pod, key, string(g.MetaDataPatch), err)
	}
	return meta, nil
}

// progress returns the part of a state that completion depends on; nil where there is no state.
func (s *State) progress() *Progress {
	if s == nil {
		return nil
	}
	return &s.Progress
}

// next reports whether batches are still to come.
func (s *Progress) next() bool {
	return len(s.NextContainerImages)+len(s.NextContainerRefMetadata)+len(s.NextContainerResources) > 0
}

// State returns the Pod's update state, nil when it has none. The error is a reason.Reason with code UnreadableState.
func (c *Config) State(pod *corev1.Pod) (*State, error) {
	raw, key, ok := annotation(pod, c.Keys.StateAnnotation, c.Keys.LegacyStateAnnotation)
	if !ok {
		return nil, nil
	}
	state := &State{}
	if err := decode.Object([]byte(raw), state); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return state, nil
}

// progress returns the part of the Pod's state that completion depends on, nil when it has none. The memory of images is
// most of a state and seldom decides, so it is read only where it does.
func (c *Config) progress(pod *corev1.Pod) (*Progress, error) {
	raw, key, ok := annotation(pod, c.Keys.StateAnnotation, c.Keys.LegacyStateAnnotation)
	if !ok {
		return nil, nil
	}
	if rest, ok := withoutKnownImages(raw); ok {
		lean := &Progress{}
		if decode.Object(rest, lean) == nil && !lean.needsMemory(pod, raw) {
			return lean, nil
		}
	}
	progress := &Progress{}
	if err := decode.Object([]byte(raw), progress); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return progress, nil
}

// encodeState writes the memory of images last, so that it can be left out without being read.
func encodeState(state *State) (*string, error) {
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
func (s *Progress) needsMemory(pod *corev1.Pod, raw string) bool {
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
func (c *Config) grace(pod *corev1.Pod) (*Grace, error) {
	raw, key, ok := annotation(pod, c.Keys.GraceAnnotation, c.Keys.LegacyGraceAnnotation)
	if !ok {
		return nil, nil
	}
	grace := &Grace{}
	if err := decode.Object([]byte(raw), grace); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return grace, nil
}

// InGracePeriod reports whether the Pod carries a change whose grace period runs.
func (c *Config) InGracePeriod(pod *corev1.Pod) bool {
	_, _, ok := annotation(pod, c.Keys.GraceAnnotation, c.Keys.LegacyGraceAnnotation)
	return ok
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
		Code:   UnreadableState,
		Object: reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Path:   "metadata.annotations[" + key + "]",
		New:    shorten(raw),
		Detail: err.Error(),
		Remedy: "mend or remove the annotation",
	}
}

func encode(v any) (*string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding an update's progress: %w", err)
	}
	text := string(raw)
	return &text, nil
}
