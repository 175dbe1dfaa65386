package apps

// These are the keys on SidecarSets, and on injected Pods.
const (
	// AnnotationSidecarSetHash is, on a SidecarSet and its revisions, the hash of the sidecars. On a Pod the value is a
	// JSON object with an entry for each SidecarSet: the state of the last injection or upgrade.
	AnnotationSidecarSetHash = "kruise.io/sidecarset-hash"
	// AnnotationSidecarSetHashWithoutImage contains the hash of the sidecars without images, in the same format as
	// AnnotationSidecarSetHash. A Pod can be upgraded in place only if the hash on the Pod equals the hash on the
	// SidecarSet.
	AnnotationSidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"
	// AnnotationSidecarSetInjected lists, on a Pod, the injected SidecarSets, sorted and separated by commas.
	AnnotationSidecarSetInjected = "kruise.io/sidecarset-injected-list"
	// AnnotationSidecarSetInPlaceState is, on a Pod, the progress of upgrades: a JSON object with an entry for each
	// SidecarSet.
	AnnotationSidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"
	// AnnotationSidecarSetWorking on a Pod says which of the two containers that a hot upgrade needs does the work: a
	// JSON object with an entry for each sidecar.
	AnnotationSidecarSetWorking = "kruise.io/sidecarset-working-hotupgrade-container"
	// AnnotationSidecarSetVersionPrefix and AnnotationSidecarSetVersionAltPrefix are prefixes of annotations on a Pod.
	// The prefix is followed by the name of one of the two containers that a hot upgrade needs. The value is the
	// version of this container, or, with the second prefix, of the second container. "1" is the first version, and "0"
	// means that the container does no work.
	AnnotationSidecarSetVersionPrefix    = "version.sidecarset.kruise.io/"
	AnnotationSidecarSetVersionAltPrefix = "versionalt.sidecarset.kruise.io/"
	// LabelSidecarSetName is, on a ControllerRevision, the name of the SidecarSet.
	LabelSidecarSetName = "kruise.io/sidecarset-name"
	// LabelSidecarSetCustomVersion is, on a ControllerRevision, the user's name for the version. On a v1alpha1
	// SidecarSet the label stands for spec.customVersion.
	LabelSidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"
	// AnnotationSidecarSetCanary, with the value "true", makes a SidecarSet replace another SidecarSet, its base, in
	// the Pods that it selects. AnnotationSidecarSetBase is the name of the base.
	AnnotationSidecarSetCanary = "apps.kruise.io/sidecarset-canary"
	AnnotationSidecarSetBase   = "apps.kruise.io/sidecarset-base"
	// EnvSidecarInjected, with the value "true", marks injected containers.
	EnvSidecarInjected = "IS_INJECTED"
	// ConditionSidecarSetUpgradable says, on a Pod, whether the Pod's sidecars can be upgraded in place. The message is
	// a JSON object with an entry for each SidecarSet.
	ConditionSidecarSetUpgradable = "SidecarSetUpgradable"
)

// These are the events about SidecarSets.
const (
	// EventNotUpgradablePods says, on a SidecarSet, that Pods must be recreated to get the newest sidecars.
	EventNotUpgradablePods = "NotUpgradablePods"
	// EventPodsDropped says, on a SidecarSet, that Pods with sidecars of the SidecarSet get no upgrades, because the
	// SidecarSet does not select the Pods any more, or has a new sidecar that the Pods do not contain.
	EventPodsDropped = "PodsDropped"
	// EventUpgradeHeldUp is a Warning on a SidecarSet: no further Pod is upgraded, because the Pods whose sidecars do
	// not become ready are as many as maxUnavailable allows.
	EventUpgradeHeldUp = "UpgradeHeldUp"
	// EventPodsRefused is a Warning on a SidecarSet: new Pods are refused, because the SidecarSet conflicts with
	// another SidecarSet, or the revision for the Pods is missing.
	EventPodsRefused = "PodsRefused"
	// EventInvalidSidecarSet is a Warning: the SidecarSet is invalid, so its Pods stay unchanged.
	EventInvalidSidecarSet = "InvalidSidecarSet"
	// EventResetContainerSucceed and EventResetContainerFailed say, on a Pod, that a hot upgrade has ended, or that
	// ending the hot upgrade has failed.
	EventResetContainerSucceed = "ResetContainerSucceed"
	EventResetContainerFailed  = "ResetContainerFailed"
)

// These names are about the configuration that says which annotations SidecarSets may add to Pods.
const (
	// ConfigurationName is the name of the ConfigMap with settings for all users, in the manager's namespace.
	ConfigurationName = "kruise-configuration"
	// ConfigurationAnnotationRules is a key of this ConfigMap. The value contains the rules as JSON.
	ConfigurationAnnotationRules = "SidecarSet_PatchPodMetadata_WhiteList"
)
