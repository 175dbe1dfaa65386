package apps

// Keys on SidecarSets, and on the Pods that they were injected into.
const (
	// AnnotationSidecarSetHash is, on a SidecarSet and its revisions, the hash of the sidecars. On a Pod it is JSON, by SidecarSet: what was
	// injected or upgraded to last.
	AnnotationSidecarSetHash = "kruise.io/sidecarset-hash"
	// AnnotationSidecarSetHashWithoutImage is the same without images. Only a Pod whose entry equals the SidecarSet's can be upgraded in
	// place.
	AnnotationSidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"
	// AnnotationSidecarSetInjected lists, on a Pod, the SidecarSets that were injected, sorted, with commas.
	AnnotationSidecarSetInjected = "kruise.io/sidecarset-injected-list"
	// AnnotationSidecarSetInPlaceState is the progress of upgrades on a Pod: JSON, by SidecarSet.
	AnnotationSidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"
	// AnnotationSidecarSetWorking says, on a Pod, which of the two containers of a hot upgrade works: JSON, by sidecar.
	AnnotationSidecarSetWorking = "kruise.io/sidecarset-working-hotupgrade-container"
	// AnnotationSidecarSetVersionPrefix and AnnotationSidecarSetVersionAltPrefix begin annotations on a Pod that end in the name of a
	// container of a hot upgrade: its version, and that of its twin. "1" is the first, "0" an idle one.
	AnnotationSidecarSetVersionPrefix    = "version.sidecarset.kruise.io/"
	AnnotationSidecarSetVersionAltPrefix = "versionalt.sidecarset.kruise.io/"
	// LabelSidecarSetName is, on a ControllerRevision, the SidecarSet that it is of.
	LabelSidecarSetName = "kruise.io/sidecarset-name"
	// LabelSidecarSetCustomVersion is, on a ControllerRevision, the version that the user has called it. On a v1alpha1 SidecarSet it is how
	// that version spells spec.customVersion.
	LabelSidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"
	// AnnotationSidecarSetCanary, with the value "true", and AnnotationSidecarSetBase, with the name of another SidecarSet, make a SidecarSet
	// stand in for that one in the Pods that it matches.
	AnnotationSidecarSetCanary = "apps.kruise.io/sidecarset-canary"
	AnnotationSidecarSetBase   = "apps.kruise.io/sidecarset-base"
	// EnvSidecarInjected, with the value "true", marks containers that were injected.
	EnvSidecarInjected = "IS_INJECTED"
	// ConditionSidecarSetUpgradable says, on a Pod, whether its sidecars can be upgraded in place. Its message is JSON, by SidecarSet.
	ConditionSidecarSetUpgradable = "SidecarSetUpgradable"
)

// Events about SidecarSets.
const (
	// EventNotUpgradablePods says, on a SidecarSet, that Pods have to be recreated to get the newest sidecars.
	EventNotUpgradablePods = "NotUpgradablePods"
	// EventPodsDropped says, on a SidecarSet, that Pods have its sidecars and nobody upgrades them: it does not select them any more, or has gained a
	// sidecar that they lack.
	EventPodsDropped = "PodsDropped"
	// EventUpgradeHeldUp is a Warning on a SidecarSet: Pods whose sidecars do not become ready use maxUnavailable up.
	EventUpgradeHeldUp = "UpgradeHeldUp"
	// EventPodsRefused is a Warning on a SidecarSet because of which new Pods are refused: it wants something that another one has, or the
	// revision is gone that they are to get.
	EventPodsRefused = "PodsRefused"
	// EventInvalidSidecarSet is a Warning on a SidecarSet that makes no sense: its Pods are left alone.
	EventInvalidSidecarSet = "InvalidSidecarSet"
	// EventResetContainerSucceed and EventResetContainerFailed say, on a Pod, that a hot upgrade has ended, or could not be.
	EventResetContainerSucceed = "ResetContainerSucceed"
	EventResetContainerFailed  = "ResetContainerFailed"
)

// What limits the annotations that a SidecarSet adds to Pods.
const (
	// ConfigurationName is the ConfigMap in the manager's namespace.
	ConfigurationName = "kruise-configuration"
	// ConfigurationAnnotationRules is its key with the rules, as JSON.
	ConfigurationAnnotationRules = "SidecarSet_PatchPodMetadata_WhiteList"
)
