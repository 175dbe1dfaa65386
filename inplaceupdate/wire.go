package inplaceupdate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// savedState is the content of the state annotation: how far a Pod's update has come. The JSON is OpenKruise's
// (apps.kruise.io/inplace-update-state); SupersededImages, BatchResources, EnvByImage, Seen, SeenDigests and KnownImages are additions
// that
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
	// SeenDigests holds, by container, instances that were seen while they could be of the new image or of a superseded one whose digest is
	// unknown.
	SeenDigests map[string][]passedImage `json:"seenDigests,omitempty"`
	// KnownImages holds, by container, a few images whose digest on this node is known, the newest last. They outlive an
	// update, because the next one may go back to them.
	KnownImages map[string][]knownImage `json:"knownImages,omitempty"`
}

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

// next returns what the batches that are still to come deliver.
func (p *progress) next() work {
	return work{images: p.NextContainerImages, refs: p.NextContainerRefMetadata, resources: p.NextContainerResources}
}

// work returns what the end of the grace period delivers to containers.
func (g *savedGrace) work() work {
	return work{images: g.ContainerImages, refs: g.ContainerRefMetadata, resources: g.ContainerResources}
}

// passedImage is an instance of a container, as its node reported it.
type passedImage struct {
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID"`
}
