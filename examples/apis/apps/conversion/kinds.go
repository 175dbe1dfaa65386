package conversion

import (
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// kinds are all kinds with two versions. The list is never modified.
var kinds = [...]*kind{
	table[v1alpha1.AdvancedCronJob, v1beta1.AdvancedCronJob](apps.Group, kind{
		moves: []move{betaOnly("spec.template.imageListPullJobTemplate")},
		takes: hasImages,
	}),
	table[v1alpha1.BroadcastJob, v1beta1.BroadcastJob](apps.Group, kind{}),
	table[v1alpha1.CloneSet, v1beta1.CloneSet](apps.Group, kind{
		always: []path{steps("spec.scaleStrategy"), strategy()},
		moves: []move{
			opposite("spec.scaleStrategy.disablePVCReuse", "spec.scaleStrategy.enablePVCReuse"),
			shown(label(apps.LabelExcludePreparingDelete), "spec.scaleStrategy.excludePreparingDelete", flag()),
			nested(),
			preDownload(apps.AnnotationImagePreDownloadParallelism, "Parallelism", count()),
			preDownload(apps.AnnotationImagePreDownloadTimeoutSeconds, "TimeoutSeconds", number(math.MinInt32)),
			preDownload(apps.AnnotationImagePreDownloadMinUpdatedReadyPods, "MinUpdatedReadyPods", number(math.MinInt32)),
		},
		when: [2][]path{
			alpha: {steps("spec.updateStrategy.type")},
			beta:  {steps("spec.updateStrategy.type"), steps("spec.updateStrategy.rollingUpdate.podUpdatePolicy")},
		},
		depends: []string{"updateStrategy"},
	}),
	table[v1alpha1.ContainerRecreateRequest, v1beta1.ContainerRecreateRequest](apps.Group, kind{
		moves: []move{
			betaOnly("status.containerStatusSnapshot", "status.conditions"),
			moved(annotation(apps.AnnotationRequestSyncContainerStatuses), "status.containerStatusSnapshot", snapshot()).
				while(begun, beta),
			moved(annotation(apps.AnnotationRequestUnreadyAcquired), "status.conditions", grace()).while(begun, beta),
		},
		takes: hasTimes,
	}),
	table[v1alpha1.DaemonSet, v1beta1.DaemonSet](apps.Group, kind{
		moves: []move{
			betaOnly("spec.scaleStrategy"),
			shown(annotation(apps.AnnotationProgressiveCreate), "spec.scaleStrategy.partitionedScaling", flag()),
			replaced("spec.updateStrategy.rollingUpdate.rollingUpdateType", v1alpha1.SurgingRollingUpdateType,
				v1beta1.StandardRollingUpdateType),
			renamed("status", "daemonSetHash", "updateRevision"),
		},
		when:    [2][]path{{steps("spec.updateStrategy.type")}, {steps("spec.updateStrategy.type")}},
		depends: []string{"updateStrategy"},
	}),
	table[v1alpha1.ImageListPullJob, v1beta1.ImageListPullJob](apps.Group, kind{}),
	table[v1alpha1.ImagePullJob, v1beta1.ImagePullJob](apps.Group, kind{}),
	table[v1alpha1.NodeImage, v1beta1.NodeImage](apps.Group, kind{moves: []move{secretModes()}}),
	table[v1alpha1.PersistentPodState, v1beta1.PersistentPodState](apps.Group, kind{moves: []move{
		renamed("spec.requiredPersistentTopology", "nodeTopologyKeys", "keys"),
		renamed("spec.preferredPersistentTopology.preference", "nodeTopologyKeys", "keys"),
	}}),
	table[policyv1alpha1.PodUnavailableBudget, policyv1beta1.PodUnavailableBudget](policy.Group, kind{moves: []move{
		betaOnly("spec.ignoredPodSelector", "spec.protectOperations", "spec.protectTotalReplicas"),
		shown(annotation(policy.AnnotationProtectOperations), "spec.protectOperations", operations()),
		shown(annotation(policy.AnnotationProtectTotalReplicas), "spec.protectTotalReplicas", number(1)),
	}}),
	table[v1alpha1.ResourceDistribution, v1beta1.ResourceDistribution](apps.Group, kind{moves: []move{
		renamed("spec.targets", "namespaceLabelSelector", "namespaceSelector"),
		renamed("status.conditions", "failedNamespace", "failedNamespaces"),
	}}),
	table[v1alpha1.SidecarSet, v1beta1.SidecarSet](apps.Group, kind{
		moves: []move{
			namespaced("spec.namespace", "spec.namespaceSelector"),
			betaOnly("spec.customVersion"),
			moved(label(apps.LabelSidecarSetCustomVersion), "spec.customVersion", word()),
			withdrawn("spec.namespace", "spec.strategy"),
		},
		when:    [2][]path{alpha: {steps("spec.namespaceSelector")}},
		depends: []string{"namespace", "namespaceSelector"},
	}),
	table[v1alpha1.StatefulSet, v1beta1.StatefulSet](apps.Group, kind{moves: []move{
		betaOnly("spec.lifecycle", "spec.ordinals", "spec.persistentVolumeClaimRetentionPolicy", "spec.reserveOrdinals",
			"spec.scaleStrategy", "spec.volumeClaimUpdateStrategy"),
	}}),
	table[v1alpha1.UnitedDeployment, v1beta1.UnitedDeployment](apps.Group, kind{
		settle: settleStrategy,
		moves:  []move{templateStrategy(), templateReuse(), subsetStatuses()},
		when: [2][]path{
			alpha: {templateSpec("updateStrategy.type")},
			beta:  {templateSpec("updateStrategy.type"), templateSpec("updateStrategy.rollingUpdate.podUpdatePolicy")},
		},
		depends: []string{"template"},
	}),
	table[v1alpha1.WorkloadSpread, v1beta1.WorkloadSpread](apps.Group, kind{moves: []move{
		renamed("spec.subsets", "requiredNodeSelectorTerm", "requiredNodeSelector"),
		renamed("spec.subsets", "preferredNodeSelectorTerms", "preferredNodeSelector"),
		subsetConditions(),
	}}),
}

// preDownload returns the move of a field about the download of a CloneSet's images. In v1alpha1 the value is in an
// annotation of its own.
func preDownload(key, name string, c codec) move {
	const fields = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownload"
	return shown(annotation(key), fields+name, c).while(rolls, alpha, beta)
}

// hasImages reports whether a template of ImageListPullJobs has the fields that the schema requires, and no values of
// other types.
func hasImages(_ object, template any) bool {
	in, _ := template.(object)
	spec, has := in["spec"].(object)
	if !has {
		return true
	}
	var read v1beta1.ImageListPullJobSpec
	err := utiljson.Unmarshal(encoded(spec), &read)
	return err == nil && len(read.Undecodable) == 0 && spec["images"] != nil && spec["completionPolicy"] != nil
}

// secretModes returns the move of the modes of pull secrets in a NodeImage, which v1alpha1 does not have.
func secretModes() move {
	images := steps("spec.images")
	remove := func(o object) {
		all, _ := get(o, images).(object)
		for name := range all {
			at := path{name, "pullSecrets"}
			secrets, _ := get(all, at).([]any)
			if len(secrets) == 0 {
				continue
			}
			without := make([]any, len(secrets))
			for i, secret := range secrets {
				if in, isObject := secret.(object); isObject {
					secret = maps.Clone(in)
					delete(secret.(object), "mode")
				}
				without[i] = secret
			}
			put(all, at, without)
		}
	}
	return move{to: [2]func(object){alpha: remove}, places: [2][]path{{images}, {images}}}
}

// begun reports whether the status of a request has a phase. In v1beta1 a status must have a phase, so conversion adds
// nothing to a status without a phase.
func begun(o object) bool { return text(o, steps("status.phase")) != "" }

// hasTimes reports whether a request has begun and each of its conditions has a time.
func hasTimes(o object, value any) bool {
	timeless := func(c metav1.Condition) bool { return c.LastTransitionTime.IsZero() }
	return begun(o) && !slices.ContainsFunc(conditions(value), timeless)
}

// subsetConditions returns the move of the conditions of a WorkloadSpread's subsets. In v1beta1 a condition must have a
// reason, a message and a time, and may have a generation, a field that v1alpha1 lacks.
func subsetConditions() move {
	everywhere := func(visit func(object)) func(object) {
		return func(o object) {
			each(o, steps("status.subsetStatuses.conditions"), visit)
			each(o, steps("status.versionedSubsetStatuses"), func(versions object) {
				for version := range versions {
					each(versions, path{version, "conditions"}, visit)
				}
			})
		}
	}
	fill := func(condition object, field, value string) {
		if present := get(condition, path{field}); present == nil || present == "" {
			condition[field] = value
		}
	}
	return move{to: [2]func(object){
		alpha: everywhere(func(condition object) { delete(condition, "observedGeneration") }),
		beta: everywhere(func(condition object) {
			fill(condition, "reason", "Unknown")
			fill(condition, "message", "")
			fill(condition, "lastTransitionTime", "1970-01-01T00:00:00Z")
		}),
	}}
}
