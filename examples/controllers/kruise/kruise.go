// Package kruise answers "under which names does OpenKruise keep what the kit keeps?": it fills the kit's Keys and Configs
// with the wire format of apps.kruise.io, once for all controllers.
package kruise

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/launchorder"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/revision"
)

// AnnotationHashVersion marks the revisions whose hashes follow this kit's recipes.
const AnnotationHashVersion = "workloadkit.io/hash-version"

// AnnotationClaimTemplates holds, on a revision, the claim templates that its Pods are made with.
const AnnotationClaimTemplates = "workloadkit.io/claim-templates"

// RevisionKeys are those of revisions that carry their hash in a label: [apps.LabelRevisionHash] with CloneSet and StatefulSet,
// [apps.LabelRevision] with DaemonSet.
func RevisionKeys(hashLabel string) revision.Keys {
	return revision.Keys{HashLabel: hashLabel, HashVersionAnnotation: AnnotationHashVersion, ClaimTemplatesAnnotation: AnnotationClaimTemplates}
}

// InPlace returns what updates Pods in place under the given feature gates. labels are those that the controller of a kind writes.
func InPlace(gates map[apps.Gate]bool, labels []string) (*inplaceupdate.Updater, error) {
	order, err := LaunchOrder()
	if err != nil {
		return nil, err
	}
	return inplaceupdate.New(inplaceupdate.Config{
		Keys: inplaceupdate.Keys{
			StateAnnotation:       apps.AnnotationInPlaceUpdateState,
			GraceAnnotation:       apps.AnnotationInPlaceUpdateGrace,
			LegacyStateAnnotation: apps.AnnotationInPlaceUpdateStateLegacy,
			LegacyGraceAnnotation: apps.AnnotationInPlaceUpdateGraceLegacy,
			RuntimeMetaAnnotation: apps.AnnotationRuntimeContainersMeta,
			Gate:                  apps.ConditionInPlaceUpdateReady,
			Reserved:              slices.Concat(labels, apps.ReservedPodAnnotations()),
		},
		AllowResize:     gates[apps.GateInPlaceWorkloadVerticalScaling],
		EnvFromMetadata: gates[apps.GateInPlaceUpdateEnvFromMetadata],
		IgnoredEnv:      []string{apps.EnvSidecarSetVersion, apps.EnvSidecarSetVersionAlt},
		Priority:        order.Priority,
	})
}

// LaunchOrder returns what has containers start one after another. The webhook of Pods puts its barriers in, and the controller of launch
// priorities opens them.
func LaunchOrder() (*launchorder.Order, error) {
	return launchorder.New(launchorder.Keys{
		OrderedAnnotation:   apps.AnnotationLaunchPriority,
		OrderedValue:        apps.LaunchPriorityOrdered,
		CompletedAnnotation: apps.AnnotationLaunchPriorityCompleted,
		PriorityEnv:         apps.EnvContainerPriority,
		BarrierEnv:          apps.EnvContainerBarrier,
		KeyPrefix:           apps.ContainerBarrierKeyPrefix,
		NameSuffix:          apps.ContainerBarrierNameSuffix,
	})
}

// PodControl says under which names controllers keep what they know on their Pods. kind has the fields that kinds differ in: whether
// revision labels hold whole names, labels for the hash and for the wish to delete a Pod, how Pods begin.
func PodControl(updater *inplaceupdate.Updater, kind podcontrol.Config) (podcontrol.Config, error) {
	var err error
	kind.Lifecycle, err = lifecycle.New(lifecycle.Keys{State: apps.LabelLifecycleState, Timestamp: apps.AnnotationLifecycleTimestamp})
	kind.InPlace, kind.RevisionLabel = updater, apps.LabelRevision
	kind.HookGate, kind.Holder = apps.ConditionKruisePodReady, Holder
	return kind, err
}

// Rules returns what an owner wants for its Pods. The policy is one of the three of OpenKruise; any other recreates.
func Rules(policy string, hooks *pub.Lifecycle, strategy *pub.InPlaceUpdateStrategy) podcontrol.Rules {
	out := podcontrol.Rules{Hooks: Hooks(hooks), Policy: podcontrol.Recreate}
	switch policy {
	case "InPlaceIfPossible":
		out.Policy = podcontrol.InPlaceIfPossible
	case "InPlaceOnly":
		out.Policy = podcontrol.InPlaceOnly
	}
	if strategy != nil {
		out.GracePeriod = time.Duration(max(strategy.GracePeriodSeconds, 0)) * time.Second
	}
	return out
}

// Hooks returns an owner's hooks; nil stands for none.
func Hooks(spec *pub.Lifecycle) lifecycle.Hooks {
	if spec == nil {
		return lifecycle.Hooks{}
	}
	return lifecycle.Hooks{PreDelete: hook(spec.PreDelete), InPlaceUpdate: hook(spec.InPlaceUpdate), PreNormal: hook(spec.PreNormal)}
}

func hook(h *pub.LifecycleHook) *lifecycle.Hook {
	if h == nil {
		return nil
	}
	return &lifecycle.Hook{Labels: h.LabelsHandler, Finalizers: h.FinalizersHandler, MarkNotReady: h.MarkPodNotReady}
}

// Holder returns the holder of the shared readiness gate that stands for a hook.
func Holder(kind lifecycle.Kind) podreadiness.Holder {
	key := apps.NotReadyKeyPreDelete
	if kind == lifecycle.InPlaceUpdate {
		key = apps.NotReadyKeyPreUpdate
	}
	return podreadiness.Holder{UserAgent: apps.NotReadyUserAgentLifecycle, Key: key}
}

// HasResizeSubresource reports whether an API server of this version takes resources through pods/resize: 1.32 and later.
// Suffixes such as "+gke.1" do not matter; a version that cannot be read counts as older.
func HasResizeSubresource(gitVersion string) bool {
	v, err := version.ParseGeneric(gitVersion)
	return err == nil && !v.LessThan(version.MajorMinor(1, 32))
}
