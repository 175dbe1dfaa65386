// Package kruise configures the packages of this library for controllers of apps.kruise.io: with the labels,
// annotations and other names that OpenKruise uses.
package kruise

import (
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/fanout"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/launchorder"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/revision"
)

// PerPass is the largest number of write requests that a reconciliation makes for an object. Functions that decide
// which writes to make return at most PerPass elements in a list.
const PerPass = fanout.PerPass

// RevisionKeys returns the keys of revisions whose hash is in the given label: [apps.LabelRevisionHash] for CloneSet
// and StatefulSet, [apps.LabelRevision] for DaemonSet.
func RevisionKeys(hashLabel string) revision.Keys {
	return revision.Keys{HashLabel: hashLabel, HashVersionAnnotation: apps.AnnotationHashVersion, ClaimTemplatesAnnotation: apps.AnnotationClaimTemplates}
}

// Collisions returns the number of hash collisions in a status. If the count is missing, the result is zero, because
// OpenKruise's first hash uses a count of zero.
func Collisions(count *int32) *int32 {
	if count == nil {
		return new(int32)
	}
	return count
}

// InPlace returns the Updater that updates Pods in place, as the feature gates allow. labels are the labels that the
// kind's controller writes onto Pods.
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

// LaunchOrder returns the Order that starts the containers of a Pod one after the other. The Pod webhook adds
// barriers, which are references to a missing key of a ConfigMap that keep containers from starting, and the launch
// priority controller opens the barriers.
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

// PodControl returns kind with the names of the labels and annotations in which controllers store data on Pods. kind
// contains the values that differ between kinds: whether revision labels contain whole names, the label for the hash,
// the label with which users request the deletion of a Pod, and the initial lifecycle state of Pods.
func PodControl(updater *inplaceupdate.Updater, kind podcontrol.Config) (podcontrol.Config, error) {
	var err error
	kind.Lifecycle, err = lifecycle.New(lifecycle.Keys{State: apps.LabelLifecycleState, Timestamp: apps.AnnotationLifecycleTimestamp})
	kind.InPlace, kind.RevisionLabel = updater, apps.LabelRevision
	kind.HookGate, kind.Holder = apps.ConditionKruisePodReady, Holder
	return kind, err
}

// Rules returns the rules by which an owner's Pods are updated. policy is the name of an update policy of OpenKruise,
// such as InPlaceIfPossible. An unknown name means that Pods are recreated.
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

// Hooks returns the lifecycle hooks in an owner's spec. A nil spec means no hooks.
func Hooks(spec *pub.Lifecycle) lifecycle.Hooks {
	if spec == nil {
		return lifecycle.Hooks{}
	}
	return lifecycle.Hooks{PreDelete: hook(spec.PreDelete), InPlaceUpdate: hook(spec.InPlaceUpdate), PreNormal: hook(spec.PreNormal)}
}

// hook returns nil for a hook that never makes a Pod wait.
func hook(h *pub.LifecycleHook) *lifecycle.Hook {
	if h == nil || len(h.LabelsHandler)+len(h.FinalizersHandler) == 0 {
		return nil
	}
	return &lifecycle.Hook{Labels: h.LabelsHandler, Finalizers: h.FinalizersHandler, MarkNotReady: h.MarkPodNotReady, Unstamped: true}
}

// Holder returns the entry with which a lifecycle hook keeps the readiness gate KruisePodReady of a Pod closed.
// Several clients may have such an entry at the same time.
func Holder(kind lifecycle.HookName) podreadiness.Holder {
	key := apps.NotReadyKeyPreDelete
	if kind == lifecycle.InPlaceUpdate {
		key = apps.NotReadyKeyPreUpdate
	}
	return podreadiness.Holder{UserAgent: apps.NotReadyUserAgentLifecycle, Key: key}
}
