package apps

// Keys of PersistentPodStates.
const (
	// AnnotationGeneratePersistentPodState on a workload, with the value "true", makes the controller generate a
	// PersistentPodState of the workload's name. Written by users.
	AnnotationGeneratePersistentPodState = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredPersistentTopology on such a workload names the required labels of Nodes, separated by commas.
	// Written by users.
	AnnotationRequiredPersistentTopology = "kruise.io/required-persistent-topology"
	// AnnotationPreferredPersistentTopology on such a workload names the preferred labels of Nodes, separated by
	// commas. Written by users.
	AnnotationPreferredPersistentTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPersistentPodAnnotations on such a workload names the recorded annotations of Pods, separated by
	// commas. Written by users.
	AnnotationPersistentPodAnnotations = "kruise.io/persistent-pod-annotations"
	// AnnotationInjectedPersistentPodState on a Pod names the PersistentPodState that influenced the Pod's Node.
	// Written at admission.
	AnnotationInjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"
)

// ConfigurationStatefulSetLikes is the key of the ConfigMap [ConfigurationName] with further kinds of targets for
// PersistentPodStates.
const ConfigurationStatefulSetLikes = "PPS_Watch_Custom_Workload_WhiteList"

// Events of PersistentPodStates, and of workloads with generated PersistentPodStates.
const (
	// EventInvalidPersistentPodState says that a spec is invalid, or that the kind of the target is unknown: nothing is
	// recorded.
	EventInvalidPersistentPodState = "InvalidPersistentPodState"
	// EventPodStatesDoNotFit says that there is no room for more records.
	EventPodStatesDoNotFit = "PodStatesDoNotFit"
	// EventTopologyGone says that a Pod waits for a Node of a topology without any Node left.
	EventTopologyGone = "TopologyGone"
	// EventNodeSelectorReplaced says that a Pod asked for another topology than the recorded topology, and got the
	// recorded topology.
	EventNodeSelectorReplaced = "NodeSelectorReplaced"
	// EventPersistentPodStateNotGenerated says why a workload has no PersistentPodState although its annotations ask
	// for generation.
	EventPersistentPodStateNotGenerated = "PersistentPodStateNotGenerated"
)
