package pub

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SidecarContainer is a container injected by a SidecarSet. The JSON of these containers is hashed: the JSON must omit
// a new field that is unset, and fields keep their order.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SidecarContainer struct {
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`
	// PodInjectPolicy places the container before or behind the Pod's own containers. Default BeforeAppContainer, for
	// init containers AfterAppContainer.
	// +optional
	PodInjectPolicy PodInjectPolicy `json:"podInjectPolicy,omitempty"`
	// UpgradeStrategy says how the container is upgraded in running Pods.
	// +optional
	UpgradeStrategy SidecarUpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// ShareVolumePolicy copies the volume mounts of the Pod's own containers. Default disabled.
	// +optional
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`
	// ShareVolumeDevicePolicy copies the volume devices of the Pod's own containers. Unset stands for disabled.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`
	// TransferEnv copies env variables of the Pod's own containers.
	// +optional
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`
	// ResourcesPolicy computes the resources from those of the Pod's own containers when the Pod is created.
	// ResourcesPolicy excludes the field resources.
	// +optional
	ResourcesPolicy *SidecarResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// PodInjectPolicy says where an injected container goes.
type PodInjectPolicy string

const (
	// BeforeAppContainer puts the container before the Pod's own containers.
	BeforeAppContainer PodInjectPolicy = "BeforeAppContainer"
	// AfterAppContainer puts the container behind the Pod's own containers.
	AfterAppContainer PodInjectPolicy = "AfterAppContainer"
)

// SidecarUpgradeType is how a container is upgraded.
type SidecarUpgradeType string

const (
	// SidecarColdUpgrade restarts the container with the new image.
	SidecarColdUpgrade SidecarUpgradeType = "ColdUpgrade"
	// SidecarHotUpgrade starts the new image in a second container before the old container ends.
	SidecarHotUpgrade SidecarUpgradeType = "HotUpgrade"
)

// SidecarUpgradeStrategy says how a container is upgraded.
type SidecarUpgradeStrategy struct {
	// UpgradeType is ColdUpgrade or HotUpgrade, and cannot change. Default ColdUpgrade.
	// +optional
	UpgradeType SidecarUpgradeType `json:"upgradeType,omitempty"`
	// HotUpgradeEmptyImage is the image of the idle one of the two containers. HotUpgrade needs such an image.
	// +optional
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// ShareVolumePolicyType says whether mounts or devices are shared.
type ShareVolumePolicyType string

const (
	// ShareVolumePolicyEnabled shares mounts or devices.
	ShareVolumePolicyEnabled ShareVolumePolicyType = "enabled"
	// ShareVolumePolicyDisabled shares nothing.
	ShareVolumePolicyDisabled ShareVolumePolicyType = "disabled"
)

// ShareVolumePolicy says whether mounts or devices are shared.
type ShareVolumePolicy struct {
	// Type is enabled or disabled.
	// +optional
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// TransferEnvVar names env variables of one of the Pod's own containers.
type TransferEnvVar struct {
	// SourceContainerName is the name of the container.
	// +optional
	SourceContainerName string `json:"sourceContainerName,omitempty"`
	// SourceContainerNameFrom reads the container's name from the Pod, and takes precedence over SourceContainerName.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`
	// EnvName is the name of a variable.
	// +optional
	EnvName string `json:"envName,omitempty"`
	// EnvNames are the names of further variables.
	// +optional
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource says where in the Pod a container's name is.
type SourceContainerNameSource struct {
	// FieldRef is metadata.labels['key'] or metadata.annotations['key'].
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// TargetContainersMode says how the resources of several containers become a single number.
type TargetContainersMode string

const (
	// TargetContainersSum adds the numbers of all containers.
	TargetContainersSum TargetContainersMode = "sum"
	// TargetContainersMax takes the largest number.
	TargetContainersMax TargetContainersMode = "max"
)

// SidecarResourcesPolicy says how to compute resources.
type SidecarResourcesPolicy struct {
	// TargetContainersMode is sum or max.
	// +kubebuilder:validation:Enum=sum;max
	TargetContainersMode TargetContainersMode `json:"targetContainersMode"`
	// TargetContainersNameRegex selects the Pod's containers by their names. Default .*
	// +optional
	// +kubebuilder:default=".*"
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`
	// ResourcesExpr holds the expressions.
	ResourcesExpr SidecarResourcesExpr `json:"resourcesExpr"`
}

// SidecarResourcesExpr holds the expressions of limits and requests. In an expression, cpu and memory stand for the
// resources of the Pod's containers.
type SidecarResourcesExpr struct {
	// Limits are computed from limits.
	// +optional
	Limits *SidecarResourceExprs `json:"limits,omitempty"`
	// Requests are computed from requests.
	// +optional
	Requests *SidecarResourceExprs `json:"requests,omitempty"`
}

// SidecarResourceExprs are the expressions of one list of resources. An empty expression sets nothing.
type SidecarResourceExprs struct {
	// CPU is the expression of cpu, max(cpu*50%, 50m) for example.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Memory is the expression of memory.
	// +optional
	Memory string `json:"memory,omitempty"`
}

// SidecarSetUpdateStrategyType says whether running Pods are upgraded.
type SidecarSetUpdateStrategyType string

const (
	// SidecarSetNotUpdate leaves running Pods unchanged.
	SidecarSetNotUpdate SidecarSetUpdateStrategyType = "NotUpdate"
	// SidecarSetRollingUpdate upgrades running Pods step by step.
	SidecarSetRollingUpdate SidecarSetUpdateStrategyType = "RollingUpdate"
)

// SidecarSetUpdateStrategy says how running Pods are upgraded. Percentages are of the Pods with the sidecars.
type SidecarSetUpdateStrategy struct {
	// Type is NotUpdate or RollingUpdate. Default RollingUpdate.
	// +optional
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`
	// Paused stops new upgrades; hot upgrades already begun are finished. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Selector selects the Pods to upgrade. Unset selects all Pods. A selector excludes a partition.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is how many Pods are not upgraded: an integer, or a percentage rounded up. Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be out of service for upgrades: an integer, or a percentage rounded up.
	// Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PriorityStrategy orders Pods.
	// +optional
	PriorityStrategy *PriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads Pods with certain labels over the rollout.
	// +optional
	ScatterStrategy []ScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetInjectionStrategy says how new Pods get sidecars.
type SidecarSetInjectionStrategy struct {
	// Paused keeps the sidecars from being injected. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Revision gives new Pods an older revision.
	// +optional
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevisionPolicy says how strictly a revision is kept to.
type SidecarSetInjectRevisionPolicy string

const (
	// InjectRevisionAlways gives all new Pods the revision.
	InjectRevisionAlways SidecarSetInjectRevisionPolicy = "Always"
	// InjectRevisionPartial gives the revision only to Pods left out of upgrades anyway: to Pods not selected by
	// updateStrategy.selector, or to the share of Pods given by a partition in percent.
	InjectRevisionPartial SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetInjectRevision names a revision.
type SidecarSetInjectRevision struct {
	// RevisionName is the name of the ControllerRevision, and takes precedence over CustomVersion.
	// +optional
	RevisionName *string `json:"revisionName,omitempty"`
	// CustomVersion is the version label of the ControllerRevision.
	// +optional
	CustomVersion *string `json:"customVersion,omitempty"`
	// Policy is Always or Partial. Default Always.
	// +optional
	// +kubebuilder:validation:Enum=Always;Partial
	// +kubebuilder:default=Always
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetPatchPolicy says how to treat an annotation already on the Pod.
type SidecarSetPatchPolicy string

const (
	// SidecarSetRetain keeps the annotation.
	SidecarSetRetain SidecarSetPatchPolicy = "Retain"
	// SidecarSetOverwrite replaces the annotation.
	SidecarSetOverwrite SidecarSetPatchPolicy = "Overwrite"
	// SidecarSetMergePatchJSON merges the two values as JSON (RFC 7386).
	SidecarSetMergePatchJSON SidecarSetPatchPolicy = "MergePatchJson"
)

// SidecarSetPatchPodMetadata adds annotations to Pods.
type SidecarSetPatchPodMetadata struct {
	// Annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// PatchPolicy is Retain, Overwrite or MergePatchJson. Default Retain.
	// +optional
	PatchPolicy SidecarSetPatchPolicy `json:"patchPolicy,omitempty"`
}

// SidecarSetStatus is the state of a SidecarSet as observed by the controller.
type SidecarSetStatus struct {
	// ObservedGeneration is the generation of the spec reflected in the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// MatchedPods is the number of Pods with the sidecars.
	MatchedPods int32 `json:"matchedPods"`
	// UpdatedPods is the number of Pods with the newest sidecars.
	UpdatedPods int32 `json:"updatedPods"`
	// ReadyPods is the number of serving Pods.
	ReadyPods int32 `json:"readyPods"`
	// UpdatedReadyPods is the number of serving Pods with the newest sidecars.
	// +optional
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`
	// LatestRevision is the name of the newest ControllerRevision.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`
	// CollisionCount is how many hash collisions revision names had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
}
