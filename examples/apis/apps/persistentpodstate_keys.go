package apps

// Keys of PersistentPodStates.
const (
	// AnnotationGeneratePersistentPodState on a workload, with the value "true", has a PersistentPodState of its name made for it. Written by users.
	AnnotationGeneratePersistentPodState = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredPersistentTopology on such a workload names labels of Nodes, with commas, that are required. Written by users.
	AnnotationRequiredPersistentTopology = "kruise.io/required-persistent-topology"
	// AnnotationPreferredPersistentTopology on such a workload names labels of Nodes, with commas, that are preferred. Written by users.
	AnnotationPreferredPersistentTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPersistentPodAnnotations on such a workload names annotations of Pods, with commas, that are recorded. Written by users.
	AnnotationPersistentPodAnnotations = "kruise.io/persistent-pod-annotations"
	// AnnotationInjectedPersistentPodState on a Pod names the PersistentPodState that had a say in where it runs. Written at admission.
	AnnotationInjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"
)

// ConfigurationStatefulSetLikes is the key of the ConfigMap [ConfigurationName] that lists further kinds whose Pods PersistentPodStates may be about.
const ConfigurationStatefulSetLikes = "PPS_Watch_Custom_Workload_WhiteList"

// Events of PersistentPodStates, and of workloads that have them generated.
const (
	// EventInvalidPersistentPodState says that a spec makes no sense, or that nobody knows its target: nothing is recorded.
	EventInvalidPersistentPodState = "InvalidPersistentPodState"
	// EventPodStatesDoNotFit says that there is no room for more records.
	EventPodStatesDoNotFit = "PodStatesDoNotFit"
	// EventTopologyGone says that a Pod waits for a Node of a topology that no Node has any more.
	EventTopologyGone = "TopologyGone"
	// EventNodeSelectorReplaced says that a Pod asked for another topology than the recorded one, and got that.
	EventNodeSelectorReplaced = "NodeSelectorReplaced"
	// EventPersistentPodStateNotGenerated says why a workload has no PersistentPodState although its annotations ask for one.
	EventPersistentPodStateNotGenerated = "PersistentPodStateNotGenerated"
)
