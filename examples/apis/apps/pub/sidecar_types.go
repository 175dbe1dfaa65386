package pub

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SidecarContainer is a container injected by a SidecarSet. The JSON of these containers is hashed, so a new field must
// be omitted from the JSON if it is unset, and the fields must keep their order.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SidecarContainer struct {
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`
	// PodInjectPolicy says whether the container is placed before or after the Pod's own containers. The default is
	// BeforeAppContainer; for init containers, AfterAppContainer.
	// +optional
	PodInjectPolicy PodInjectPolicy `json:"podInjectPolicy,omitempty"`
	// UpgradeStrategy says how the container is upgraded in running Pods.
	// +optional
	UpgradeStrategy SidecarUpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// ShareVolumePolicy says whether the container gets the volume mounts of the Pod's own containers. The default is
	// disabled.
	// +optional
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`
	// ShareVolumeDevicePolicy says whether the container gets the volume devices of the Pod's own containers. If
	// unset, no volume devices are shared.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`
	// TransferEnv lists environment variables to copy from the Pod's own containers.
	// +optional
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`
	// ResourcesPolicy says how the container's resources are computed, when a Pod is created, from the resources of the
	// Pod's own containers. If ResourcesPolicy is set, the field resources must not be set.
	// +optional
	ResourcesPolicy *SidecarResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// PodInjectPolicy says where in a Pod an injected container is placed.
type PodInjectPolicy string

const (
	// BeforeAppContainer places the container before the Pod's own containers.
	BeforeAppContainer PodInjectPolicy = "BeforeAppContainer"
	// AfterAppContainer places the container after the Pod's own containers.
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
	// UpgradeType is ColdUpgrade or HotUpgrade, and is immutable. The default is ColdUpgrade.
	// +optional
	UpgradeType SidecarUpgradeType `json:"upgradeType,omitempty"`
	// HotUpgradeEmptyImage is the image of the idle container: with the type HotUpgrade a sidecar has two containers,
	// and only one of the two works at a time. The type HotUpgrade requires the field.
	// +optional
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// ShareVolumePolicyType says whether volume mounts or volume devices are shared.
type ShareVolumePolicyType string

const (
	// ShareVolumePolicyEnabled means that volume mounts or volume devices are shared.
	ShareVolumePolicyEnabled ShareVolumePolicyType = "enabled"
	// ShareVolumePolicyDisabled means that nothing is shared.
	ShareVolumePolicyDisabled ShareVolumePolicyType = "disabled"
)

// ShareVolumePolicy says whether volume mounts or volume devices are shared.
type ShareVolumePolicy struct {
	// Type is enabled or disabled.
	// +optional
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// TransferEnvVar names environment variables of one of the Pod's own containers.
type TransferEnvVar struct {
	// SourceContainerName is the name of the container from which the variables are copied.
	// +optional
	SourceContainerName string `json:"sourceContainerName,omitempty"`
	// SourceContainerNameFrom says where in the Pod the container's name is found, and takes precedence over
	// SourceContainerName.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`
	// EnvName is the name of a variable.
	// +optional
	EnvName string `json:"envName,omitempty"`
	// EnvNames are the names of further variables.
	// +optional
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource says where in the Pod a container's name is found.
type SourceContainerNameSource struct {
	// FieldRef refers to a label or annotation: metadata.labels['key'] or metadata.annotations['key'].
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// TargetContainersMode says how the resources of several containers are combined to a single number.
type TargetContainersMode string

const (
	// TargetContainersSum means the sum of all containers.
	TargetContainersSum TargetContainersMode = "sum"
	// TargetContainersMax means the largest number of all containers.
	TargetContainersMax TargetContainersMode = "max"
)

// SidecarResourcesPolicy says how to compute resources.
type SidecarResourcesPolicy struct {
	// TargetContainersMode is sum or max.
	// +kubebuilder:validation:Enum=sum;max
	TargetContainersMode TargetContainersMode `json:"targetContainersMode"`
	// TargetContainersNameRegex selects the Pod's containers by their names. The default is ".*", all containers.
	// +optional
	// +kubebuilder:default=".*"
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`
	// ResourcesExpr contains the expressions for the container's resources.
	ResourcesExpr SidecarResourcesExpr `json:"resourcesExpr"`
}

// SidecarResourcesExpr contains the expressions for limits and requests. In an expression, cpu and memory stand for the
// resources of the Pod's containers.
type SidecarResourcesExpr struct {
	// Limits are computed from the limits of the Pod's containers.
	// +optional
	Limits *SidecarResourceExprs `json:"limits,omitempty"`
	// Requests are computed from the requests of the Pod's containers.
	// +optional
	Requests *SidecarResourceExprs `json:"requests,omitempty"`
}

// SidecarResourceExprs are the expressions for a list of resources. If an expression is empty, the resource is not set.
type SidecarResourceExprs struct {
	// CPU is the expression for cpu, for example max(cpu*50%, 50m).
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Memory is the expression for memory.
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

// SidecarSetUpdateStrategy says how sidecars in running Pods are upgraded. Percentages are percentages of the Pods that
// have the sidecars.
type SidecarSetUpdateStrategy struct {
	// Type is NotUpdate or RollingUpdate. The default is RollingUpdate.
	// +optional
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`
	// If Paused is true, no upgrades are started; hot upgrades that have begun are finished. The default is false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Selector selects the Pods to upgrade. If unset, all Pods are selected. Selector and Partition must not be set
	// together.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is the number of Pods that are not upgraded: an integer, or a percentage rounded up. The default is 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be unavailable because of upgrades: an integer, or a percentage rounded up.
	// The default is 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PriorityStrategy orders the Pods to upgrade.
	// +optional
	PriorityStrategy *PriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads the upgrades of Pods with certain labels over the whole rollout.
	// +optional
	ScatterStrategy []ScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetInjectionStrategy says how new Pods get sidecars.
type SidecarSetInjectionStrategy struct {
	// If Paused is true, the sidecars are not injected. The default is false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Revision says which new Pods get the sidecars of an older revision.
	// +optional
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevisionPolicy says which new Pods get the revision.
type SidecarSetInjectRevisionPolicy string

const (
	// InjectRevisionAlways means that all new Pods get the revision.
	InjectRevisionAlways SidecarSetInjectRevisionPolicy = "Always"
	// InjectRevisionPartial means that only Pods that would not be upgraded anyway get the revision: Pods that
	// updateStrategy.selector does not select, or, if the partition is a percentage, this percentage of the new Pods.
	InjectRevisionPartial SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetInjectRevision says which new Pods get the sidecars of an older revision.
type SidecarSetInjectRevision struct {
	// RevisionName is the name of the ControllerRevision, and takes precedence over CustomVersion.
	// +optional
	RevisionName *string `json:"revisionName,omitempty"`
	// CustomVersion is the version name in a label of the ControllerRevision.
	// +optional
	CustomVersion *string `json:"customVersion,omitempty"`
	// Policy is Always or Partial. The default is Always.
	// +optional
	// +kubebuilder:validation:Enum=Always;Partial
	// +kubebuilder:default=Always
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetPatchPolicy says what to do if the Pod has the annotation already.
type SidecarSetPatchPolicy string

const (
	// SidecarSetRetain keeps the value on the Pod.
	SidecarSetRetain SidecarSetPatchPolicy = "Retain"
	// SidecarSetOverwrite replaces the value on the Pod.
	SidecarSetOverwrite SidecarSetPatchPolicy = "Overwrite"
	// SidecarSetMergePatchJSON merges the two values as JSON (RFC 7386).
	SidecarSetMergePatchJSON SidecarSetPatchPolicy = "MergePatchJson"
)

// SidecarSetPatchPodMetadata adds annotations to Pods.
type SidecarSetPatchPodMetadata struct {
	// Annotations are the annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// PatchPolicy is Retain, Overwrite or MergePatchJson. The default is Retain.
	// +optional
	PatchPolicy SidecarSetPatchPolicy `json:"patchPolicy,omitempty"`
}

// SidecarSetStatus is the state of a SidecarSet as observed by the controller.
type SidecarSetStatus struct {
	// ObservedGeneration is the generation of the spec to which the status refers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// MatchedPods is the number of Pods that have the sidecars.
	MatchedPods int32 `json:"matchedPods"`
	// UpdatedPods is the number of Pods that have the newest sidecars.
	UpdatedPods int32 `json:"updatedPods"`
	// ReadyPods is the number of Pods that have the sidecars and are in service.
	ReadyPods int32 `json:"readyPods"`
	// UpdatedReadyPods is the number of Pods that have the newest sidecars and are in service.
	// +optional
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`
	// LatestRevision is the name of the newest ControllerRevision.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`
	// CollisionCount is the number of hash collisions that names of revisions have had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
}
