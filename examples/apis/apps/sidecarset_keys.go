package apps

// Keys on SidecarSets, and on injected Pods.
const (
	// AnnotationSidecarSetHash is, on a SidecarSet and its revisions, the hash of the sidecars. On a Pod the value is
	// JSON, by SidecarSet: the state of the last injection or upgrade.
	AnnotationSidecarSetHash = "kruise.io/sidecarset-hash"
	// AnnotationSidecarSetHashWithoutImage is the same without images. Only a Pod whose entry equals the SidecarSet's
	// can be upgraded in place.
	AnnotationSidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"
	// AnnotationSidecarSetInjected lists, on a Pod, the injected SidecarSets, sorted, separated by commas.
	AnnotationSidecarSetInjected = "kruise.io/sidecarset-injected-list"
	// AnnotationSidecarSetInPlaceState is the progress of upgrades on a Pod: JSON, by SidecarSet.
	AnnotationSidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"
	// AnnotationSidecarSetWorking names, on a Pod, the working container of a hot upgrade's two containers: JSON, by
	// sidecar.
	AnnotationSidecarSetWorking = "kruise.io/sidecarset-working-hotupgrade-container"
	// AnnotationSidecarSetVersionPrefix and AnnotationSidecarSetVersionAltPrefix begin annotations on a Pod ending in
	// the name of a container of a hot upgrade: the container's version, and its twin's version. "1" is the first, "0"
	// means idle.
	AnnotationSidecarSetVersionPrefix    = "version.sidecarset.kruise.io/"
	AnnotationSidecarSetVersionAltPrefix = "versionalt.sidecarset.kruise.io/"
	// LabelSidecarSetName is, on a ControllerRevision, the name of the SidecarSet.
	LabelSidecarSetName = "kruise.io/sidecarset-name"
	// LabelSidecarSetCustomVersion is, on a ControllerRevision, the user's name for the version. On a v1alpha1
	// SidecarSet the label is v1alpha1's spelling of spec.customVersion.
	LabelSidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"
	// AnnotationSidecarSetCanary, with the value "true", and AnnotationSidecarSetBase, with the name of another
	// SidecarSet, make a SidecarSet stand in for the named SidecarSet in its selected Pods.
	AnnotationSidecarSetCanary = "apps.kruise.io/sidecarset-canary"
	AnnotationSidecarSetBase   = "apps.kruise.io/sidecarset-base"
	// EnvSidecarInjected, with the value "true", marks injected containers.
	EnvSidecarInjected = "IS_INJECTED"
	// ConditionSidecarSetUpgradable says, on a Pod, whether its sidecars can be upgraded in place. Its message is JSON,
	// by SidecarSet.
	ConditionSidecarSetUpgradable = "SidecarSetUpgradable"
)

// Events about SidecarSets.
const (
	// EventNotUpgradablePods says, on a SidecarSet, that Pods have to be recreated to get the newest sidecars.
	EventNotUpgradablePods = "NotUpgradablePods"
	// EventPodsDropped says, on a SidecarSet, that Pods have its sidecars and get no upgrades: the SidecarSet does not
	// select the Pods any more, or has gained a sidecar missing in the Pods.
	EventPodsDropped = "PodsDropped"
	// EventUpgradeHeldUp is a Warning on a SidecarSet: Pods whose sidecars do not become ready use maxUnavailable up.
	EventUpgradeHeldUp = "UpgradeHeldUp"
	// EventPodsRefused is a Warning on a SidecarSet that causes the refusal of new Pods: the SidecarSet conflicts with
	// another SidecarSet, or the revision for the Pods is gone.
	EventPodsRefused = "PodsRefused"
	// EventInvalidSidecarSet is a Warning on an invalid SidecarSet: its Pods are left alone.
	EventInvalidSidecarSet = "InvalidSidecarSet"
	// EventResetContainerSucceed and EventResetContainerFailed say, on a Pod, that a hot upgrade has ended, or could
	// not be ended.
	EventResetContainerSucceed = "ResetContainerSucceed"
	EventResetContainerFailed  = "ResetContainerFailed"
)

// Configuration that limits the annotations added by SidecarSets to Pods.
const (
	// ConfigurationName is the name of the ConfigMap with settings for all users, in the manager's namespace.
	ConfigurationName = "kruise-configuration"
	// ConfigurationAnnotationRules is the ConfigMap's key with the rules, as JSON.
	ConfigurationAnnotationRules = "SidecarSet_PatchPodMetadata_WhiteList"
)
