package conversion

import (
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// kinds are all kinds with two versions. Nothing changes the list.
var kinds = [...]*kind{
	advancedCronJob(), broadcastJob(), cloneSet(), containerRecreateRequest(), daemonSet(), persistentPodState(), podUnavailableBudget(),
	resourceDistribution(), sidecarSet(), statefulSet(),
}

func advancedCronJob() *kind {
	return table[v1alpha1.AdvancedCronJob, v1beta1.AdvancedCronJob](kind{
		group: apps.Group,
		moves: []move{betaOnly("spec.template.imageListPullJobTemplate").taking(hasImages)},
	})
}

// hasImages reports whether a template of ImageListPullJobs has the fields required by the schema.
func hasImages(_ object, template any) bool {
	spec, has := parent(object{"template": template}, steps("template.spec.images")), false
	for _, required := range []string{"images", "completionPolicy"} {
		if _, has = spec[required]; !has {
			break
		}
	}
	return spec == nil || has
}

func broadcastJob() *kind {
	return table[v1alpha1.BroadcastJob, v1beta1.BroadcastJob](kind{group: apps.Group})
}

func cloneSet() *kind {
	const images = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownload"
	return table[v1alpha1.CloneSet, v1beta1.CloneSet](kind{
		group:  apps.Group,
		always: []path{steps("spec.scaleStrategy"), strategy()},
		moves: []move{
			opposite("spec.scaleStrategy.disablePVCReuse", "spec.scaleStrategy.enablePVCReuse"),
			shown(label(apps.LabelExcludePreparingDelete), "spec.scaleStrategy.excludePreparingDelete", flag()),
			nested(),
			shown(annotation(apps.AnnotationImagePreDownloadParallelism), images+"Parallelism", count()).while(rolls, alpha, beta),
			shown(annotation(apps.AnnotationImagePreDownloadTimeoutSeconds), images+"TimeoutSeconds", number(math.MinInt32)).while(rolls, alpha, beta),
			shown(annotation(apps.AnnotationImagePreDownloadMinUpdatedReadyPods), images+"MinUpdatedReadyPods", number(math.MinInt32)).while(rolls, alpha, beta),
		},
		when: [2][]path{
			alpha: {steps("spec.updateStrategy.type")},
			beta:  {steps("spec.updateStrategy.type"), steps("spec.updateStrategy.rollingUpdate.podUpdatePolicy")},
		},
		depends: []string{"updateStrategy"},
	})
}

func containerRecreateRequest() *kind {
	const containers, waiting = "status.containerStatusSnapshot", "status.conditions"
	return table[v1alpha1.ContainerRecreateRequest, v1beta1.ContainerRecreateRequest](kind{
		group: apps.Group,
		moves: []move{
			betaOnly(containers).taking(hasPhase),
			betaOnly(waiting).taking(hasTimes),
			moved(annotation(apps.AnnotationRequestSyncContainerStatuses), containers, snapshot()).while(begun, beta),
			moved(annotation(apps.AnnotationRequestUnreadyAcquired), waiting, grace()).while(begun, beta),
		},
		reads: []path{steps("status.phase")},
	})
}

// begun reports whether a request has a phase. A v1beta1 status must have a phase: conversion adds nothing to a status
// without a phase.
func begun(o object) bool { return text(o, steps("status.phase")) != "" }

func hasPhase(o object, _ any) bool { return begun(o) }

// hasTimes reports whether all conditions have a time.
func hasTimes(o object, value any) bool {
	return begun(o) && !slices.ContainsFunc(conditions(value), func(c metav1.Condition) bool { return c.LastTransitionTime.IsZero() })
}

func daemonSet() *kind {
	updateType := []path{steps("spec.updateStrategy.type")}
	return table[v1alpha1.DaemonSet, v1beta1.DaemonSet](kind{
		group: apps.Group,
		moves: []move{
			betaOnly("spec.scaleStrategy"),
			shown(annotation(apps.AnnotationProgressiveCreate), "spec.scaleStrategy.partitionedScaling", flag()),
			replaced("spec.updateStrategy.rollingUpdate.rollingUpdateType", string(v1alpha1.SurgingRollingUpdateType), string(v1beta1.StandardRollingUpdateType)),
			renamed("status", "daemonSetHash", "updateRevision"),
		},
		when:    [2][]path{updateType, updateType},
		depends: []string{"updateStrategy"},
	})
}

func persistentPodState() *kind {
	return table[v1alpha1.PersistentPodState, v1beta1.PersistentPodState](kind{
		group: apps.Group,
		moves: []move{
			renamed("spec.requiredPersistentTopology", "nodeTopologyKeys", "keys"),
			renamed("spec.preferredPersistentTopology.preference", "nodeTopologyKeys", "keys"),
		},
	})
}

func podUnavailableBudget() *kind {
	const operationsField, replicas = "spec.protectOperations", "spec.protectTotalReplicas"
	return table[policyv1alpha1.PodUnavailableBudget, policyv1beta1.PodUnavailableBudget](kind{
		group: policy.Group,
		moves: []move{
			betaOnly("spec.ignoredPodSelector"),
			betaOnly(operationsField),
			betaOnly(replicas),
			shown(annotation(policy.AnnotationProtectOperations), operationsField, operations()),
			shown(annotation(policy.AnnotationProtectTotalReplicas), replicas, number(1)),
		},
	})
}

func resourceDistribution() *kind {
	return table[v1alpha1.ResourceDistribution, v1beta1.ResourceDistribution](kind{
		group: apps.Group,
		moves: []move{
			renamed("spec.targets", "namespaceLabelSelector", "namespaceSelector"),
			renamed("status.conditions", "failedNamespace", "failedNamespaces"),
		},
	})
}

func sidecarSet() *kind {
	return table[v1alpha1.SidecarSet, v1beta1.SidecarSet](kind{
		group: apps.Group,
		moves: []move{
			namespaced("spec.namespace", "spec.namespaceSelector"),
			betaOnly("spec.customVersion"),
			moved(label(apps.LabelSidecarSetCustomVersion), "spec.customVersion", word()),
			withdrawn("spec.strategy"),
		},
		when:    [2][]path{alpha: {steps("spec.namespaceSelector")}},
		depends: []string{"namespace", "namespaceSelector"},
	})
}

func statefulSet() *kind {
	k := kind{group: apps.Group}
	for _, name := range StatefulSetFieldsOfV1beta1() {
		k.moves = append(k.moves, betaOnly("spec."+name))
	}
	return table[v1alpha1.StatefulSet, v1beta1.StatefulSet](k)
}

// StatefulSetFieldsOfV1beta1 returns the fields of a StatefulSet's spec missing in v1alpha1, sorted.
func StatefulSetFieldsOfV1beta1() []string {
	return []string{
		"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy", "volumeClaimUpdateStrategy",
	}
}
