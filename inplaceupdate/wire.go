package inplaceupdate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// savedState is the content of the state annotation: how far a Pod's update has come. The JSON is OpenKruise's
// (apps.kruise.io/inplace-update-state); SupersededImages, BatchResources, EnvByImage, Seen, SeenDigests and
// KnownImages are additions. OpenKruise ignores them.
type savedState struct {
	// Revision the Pod is updated to.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the update started.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`

	progress `json:",inline"`

	// ContainerBatchesRecord is the history of batches.
	ContainerBatchesRecord []savedBatch `json:"containerBatchesRecord,omitempty"`
}

// progress is the part of a savedState needed for completion. A decision without a write decodes only progress, because
// every event of a Pod causes a decision.
type progress struct {
	// LastContainerStatuses holds each container's record from before the change of its image, null before the first
	// change.
	LastContainerStatuses map[string]containerRecord `json:"lastContainerStatuses"`
	// UpdateEnvFromMetadata, UpdateResources and UpdateImages name the touched parts to check for completion.
	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`
	// NextContainerImages, NextContainerRefMetadata and NextContainerResources wait for a later batch.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]RefMetadata                 `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	// PreCheckBeforeNext is the condition for the next batch.
	PreCheckBeforeNext *preCheck `json:"preCheckBeforeNext,omitempty"`
	// SupersededImages holds, by container, the images of earlier updates incomplete at the start of the present update.
	// Running such an image does not prove the present update.
	SupersededImages map[string][]string `json:"supersededImages,omitempty"`
	// BatchResources are the current batch's resources for pods/resize, a separate request. If the request was never sent,
	// Next sends it again. Removed when the update is complete.
	BatchResources map[string]corev1.ResourceRequirements `json:"batchResources,omitempty"`
	// EnvByImage names the containers that get new env from metadata by the restart for their new image. If somebody takes
	// the image back there may be no restart, and then a node agent must report a restart.
	EnvByImage []string `json:"envByImage,omitempty"`
	// Seen holds, by container, since when the kubelet has left an instance alone if only time can tell whether the
	// instance runs the new image.
	Seen map[string]sighting `json:"seen,omitempty"`
	// SeenDigests holds, by container, instances seen while they could run the new image or a superseded image with an
	// unknown digest.
	SeenDigests map[string][]passedImage `json:"seenDigests,omitempty"`
	// KnownImages holds, by container, a few images with a known digest on the node, the newest last. The images outlive
	// an update, because the next update may go back to an earlier image.
	KnownImages map[string][]knownImage `json:"knownImages,omitempty"`
}

// knownImage is an image seen running in a container.
type knownImage struct {
	// Image as the spec names it.
	Image string `json:"image"`
	// ImageID is the digest reported by the node. ContainerID is the instance running the image for all of its life, empty
	// if the instance was possibly started for another name.
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID,omitempty"`
}

// sighting is an instance of a container and the time of the first report by a kubelet with the newest spec.
type sighting struct {
	ContainerID string      `json:"containerID"`
	At          metav1.Time `json:"at"`
}

// containerRecord is the container's image before the change.
type containerRecord struct {
	ImageID string `json:"imageID,omitempty"`
}

// preCheck names the containers required ready before the next batch.
type preCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// savedBatch records containers changed together.
type savedBatch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// savedGrace is the content of the grace annotation: the change to apply at the end of the grace period. The JSON is
// OpenKruise's (apps.kruise.io/inplace-update-grace). Keys added by other builds are ignored.
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

// next returns the work of the batches still to come.
func (p *progress) next() work {
	return work{images: p.NextContainerImages, refs: p.NextContainerRefMetadata, resources: p.NextContainerResources}
}

// work returns the containers' work due at the end of the grace period.
func (g *savedGrace) work() work {
	return work{images: g.ContainerImages, refs: g.ContainerRefMetadata, resources: g.ContainerResources}
}

// passedImage is an instance of a container in its node's report.
type passedImage struct {
	ImageID     string `json:"imageID"`
	ContainerID string `json:"containerID"`
}
