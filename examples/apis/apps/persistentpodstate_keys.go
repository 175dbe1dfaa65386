package apps

// These are the keys of PersistentPodStates.
const (
	// AnnotationGeneratePersistentPodState on a workload, with the value "true", makes the controller create a
	// PersistentPodState with the workload's name. The value is written by users.
	AnnotationGeneratePersistentPodState = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredPersistentTopology on such a workload names Node labels, separated by commas: a recreated Pod
	// must run on a Node with the recorded values. The value is written by users.
	AnnotationRequiredPersistentTopology = "kruise.io/required-persistent-topology"
	// AnnotationPreferredPersistentTopology on such a workload names Node labels, separated by commas: a recreated Pod
	// prefers a Node with the recorded values. The value is written by users.
	AnnotationPreferredPersistentTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPersistentPodAnnotations on such a workload names annotations of Pods, separated by commas: a recreated
	// Pod gets the recorded values. The value is written by users.
	AnnotationPersistentPodAnnotations = "kruise.io/persistent-pod-annotations"
	// AnnotationInjectedPersistentPodState on a Pod names the PersistentPodState that influences where the Pod runs.
	// The value is written at admission.
	AnnotationInjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"
)

// ConfigurationStatefulSetLikes is a key of the ConfigMap [ConfigurationName]. The value lists the kinds of targets
// for PersistentPodStates besides StatefulSets.
const ConfigurationStatefulSetLikes = "PPS_Watch_Custom_Workload_WhiteList"

// These are the events of PersistentPodStates, and of workloads with generated PersistentPodStates.
const (
	// EventInvalidPersistentPodState says that nothing is recorded, because a spec is invalid or the kind of the target
	// is unknown.
	EventInvalidPersistentPodState = "InvalidPersistentPodState"
	// EventPodStatesDoNotFit says that the object is too large for further records.
	EventPodStatesDoNotFit = "PodStatesDoNotFit"
	// EventTopologyGone says that a Pod cannot be scheduled, because no Node has the recorded topology any more.
	EventTopologyGone = "TopologyGone"
	// EventNodeSelectorReplaced says that a Pod's own nodeSelector contradicted the recorded topology, and that the
	// recorded topology has replaced the contradicting values.
	EventNodeSelectorReplaced = "NodeSelectorReplaced"
	// EventPersistentPodStateNotGenerated says why the controller has created no PersistentPodState although a
	// workload's annotations request one.
	EventPersistentPodStateNotGenerated = "PersistentPodStateNotGenerated"
)
