package pub

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SidecarContainer is a container that a SidecarSet injects. The JSON of these containers is hashed: a new field must be left out of it where
// it is not set, and fields keep their order.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SidecarContainer struct {
	// +kubebuilder:validation:Schemaless
	corev1.Container `json:",inline"`
	// PodInjectPolicy places the container before or behind the Pod's own. Default BeforeAppContainer, for init containers
	// AfterAppContainer.
	// +optional
	PodInjectPolicy PodInjectPolicy `json:"podInjectPolicy,omitempty"`
	// UpgradeStrategy says how the container is upgraded in Pods that run.
	// +optional
	UpgradeStrategy SidecarUpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// ShareVolumePolicy copies the volume mounts of the Pod's own containers. Default disabled.
	// +optional
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`
	// ShareVolumeDevicePolicy copies their volume devices. Unset stands for disabled.
	// +optional
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`
	// TransferEnv copies env variables of the Pod's own containers.
	// +optional
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`
	// ResourcesPolicy computes the resources from those of the Pod's own containers when the Pod is created. It excludes resources.
	// +optional
	ResourcesPolicy *SidecarResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// PodInjectPolicy says where an injected container goes.
type PodInjectPolicy string

const (
	// BeforeAppContainer puts it before the Pod's own containers.
	BeforeAppContainer PodInjectPolicy = "BeforeAppContainer"
	// AfterAppContainer puts it behind them.
	AfterAppContainer PodInjectPolicy = "AfterAppContainer"
)

// SidecarUpgradeType is how a container is upgraded.
type SidecarUpgradeType string

const (
	// SidecarColdUpgrade restarts the container with the new image.
	SidecarColdUpgrade SidecarUpgradeType = "ColdUpgrade"
	// SidecarHotUpgrade starts the new image in a second container before the old one ends.
	SidecarHotUpgrade SidecarUpgradeType = "HotUpgrade"
)

// SidecarUpgradeStrategy says how a container is upgraded.
type SidecarUpgradeStrategy struct {
	// UpgradeType is ColdUpgrade or HotUpgrade. It cannot change. Default ColdUpgrade.
	// +optional
	UpgradeType SidecarUpgradeType `json:"upgradeType,omitempty"`
	// HotUpgradeEmptyImage is what the idle one of the two containers runs. HotUpgrade needs it.
	// +optional
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// ShareVolumePolicyType says whether something is shared.
type ShareVolumePolicyType string

const (
	// ShareVolumePolicyEnabled shares.
	ShareVolumePolicyEnabled ShareVolumePolicyType = "enabled"
	// ShareVolumePolicyDisabled does not.
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
	// SourceContainerName is the container.
	// +optional
	SourceContainerName string `json:"sourceContainerName,omitempty"`
	// SourceContainerNameFrom reads the container's name from the Pod, and goes before SourceContainerName.
	// +optional
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`
	// EnvName is a variable.
	// +optional
	EnvName string `json:"envName,omitempty"`
	// EnvNames are more of them.
	// +optional
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource says where in the Pod a container's name is.
type SourceContainerNameSource struct {
	// FieldRef is metadata.labels['key'] or metadata.annotations['key'].
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// TargetContainersMode says how the resources of several containers become one number.
type TargetContainersMode string

const (
	// TargetContainersSum adds them.
	TargetContainersSum TargetContainersMode = "sum"
	// TargetContainersMax takes the largest.
	TargetContainersMax TargetContainersMode = "max"
)

// SidecarResourcesPolicy computes resources.
type SidecarResourcesPolicy struct {
	// TargetContainersMode is sum or max.
	// +kubebuilder:validation:Enum=sum;max
	TargetContainersMode TargetContainersMode `json:"targetContainersMode"`
	// TargetContainersNameRegex selects the Pod's containers by their names. Default .*
	// +optional
	// +kubebuilder:default=".*"
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`
	// ResourcesExpr are the expressions.
	ResourcesExpr SidecarResourcesExpr `json:"resourcesExpr"`
}

// SidecarResourcesExpr are expressions of limits and requests, in which cpu and memory stand for what the Pod's containers have.
type SidecarResourcesExpr struct {
	// Limits are computed from limits.
	// +optional
	Limits *SidecarResourceExprs `json:"limits,omitempty"`
	// Requests are computed from requests.
	// +optional
	Requests *SidecarResourceExprs `json:"requests,omitempty"`
}

// SidecarResourceExprs are the expressions of one list of resources. An empty one sets nothing.
type SidecarResourceExprs struct {
	// CPU is the expression of cpu, max(cpu*50%, 50m) for example.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Memory is the expression of memory.
	// +optional
	Memory string `json:"memory,omitempty"`
}

// SidecarSetUpdateStrategyType says whether Pods that run are upgraded.
type SidecarSetUpdateStrategyType string

const (
	// SidecarSetNotUpdate leaves them as they are.
	SidecarSetNotUpdate SidecarSetUpdateStrategyType = "NotUpdate"
	// SidecarSetRollingUpdate upgrades them step by step.
	SidecarSetRollingUpdate SidecarSetUpdateStrategyType = "RollingUpdate"
)

// SidecarSetUpdateStrategy says how Pods that run are upgraded. Percentages are of the Pods that have the sidecars.
type SidecarSetUpdateStrategy struct {
	// Type is NotUpdate or RollingUpdate. Default RollingUpdate.
	// +optional
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`
	// Paused stops new upgrades; hot upgrades that have begun are ended. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Selector selects the Pods to upgrade. Unset selects all. It excludes a partition.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is how many Pods stay as they are: an integer, or a percentage rounded up. Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many Pods may be out of service for upgrades: an integer, or a percentage rounded up. Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PriorityStrategy orders Pods.
	// +optional
	PriorityStrategy *PriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads Pods with these labels over the rollout.
	// +optional
	ScatterStrategy []ScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetInjectionStrategy says what new Pods get.
type SidecarSetInjectionStrategy struct {
	// Paused keeps the sidecars from being injected. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Revision has new Pods get an older revision.
	// +optional
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevisionPolicy says how strictly a revision is kept to.
type SidecarSetInjectRevisionPolicy string

const (
	// InjectRevisionAlways gives all new Pods the revision.
	InjectRevisionAlways SidecarSetInjectRevisionPolicy = "Always"
	// InjectRevisionPartial gives it to those that would not be upgraded anyway: that updateStrategy.selector does not select, or as many
	// as a partition in percent says.
	InjectRevisionPartial SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetInjectRevision names a revision.
type SidecarSetInjectRevision struct {
	// RevisionName is the ControllerRevision. It goes before CustomVersion.
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

// SidecarSetPatchPolicy says what becomes of an annotation that the Pod has already.
type SidecarSetPatchPolicy string

const (
	// SidecarSetRetain leaves it.
	SidecarSetRetain SidecarSetPatchPolicy = "Retain"
	// SidecarSetOverwrite replaces it.
	SidecarSetOverwrite SidecarSetPatchPolicy = "Overwrite"
	// SidecarSetMergePatchJSON merges the two as JSON (RFC 7386).
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

// SidecarSetStatus is what the controller observed.
type SidecarSetStatus struct {
	// ObservedGeneration is the generation this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// MatchedPods are those that have the sidecars.
	MatchedPods int32 `json:"matchedPods"`
	// UpdatedPods have the newest ones.
	UpdatedPods int32 `json:"updatedPods"`
	// ReadyPods serve.
	ReadyPods int32 `json:"readyPods"`
	// UpdatedReadyPods serve with the newest ones.
	// +optional
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`
	// LatestRevision is the name of the newest ControllerRevision.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`
	// CollisionCount is how many hash collisions revision names had.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
}
