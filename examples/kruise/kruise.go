// Package kruise answers "under which names does OpenKruise keep the kit's data?". The package configures the kit with
// the labels, annotations and other names of apps.kruise.io, once for all controllers.
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

// PerPass limits the requests for an object in a pass. Deciding code cuts its lists at PerPass, without importing
// package fanout.
const PerPass = fanout.PerPass

// RevisionKeys are the keys of revisions with the hash in a label: [apps.LabelRevisionHash] for CloneSet and
// StatefulSet, [apps.LabelRevision] for DaemonSet.
func RevisionKeys(hashLabel string) revision.Keys {
	return revision.Keys{HashLabel: hashLabel, HashVersionAnnotation: apps.AnnotationHashVersion, ClaimTemplatesAnnotation: apps.AnnotationClaimTemplates}
}

// Collisions returns the count of hash collisions in a status. If the count is missing, the result is zero, because
// OpenKruise's first hash uses a count of zero.
func Collisions(count *int32) *int32 {
	if count == nil {
		return new(int32)
	}
	return count
}

// InPlace returns the Updater for updates in place under the feature gates. labels are the labels that the controller
// of a kind writes.
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

// LaunchOrder returns the Order for starting containers one after the other. The Pod webhook adds the barriers, and the
// launch priority controller opens them.
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

// PodControl adds the names of the labels and annotations under which controllers keep their data on Pods. kind
// contains what differs between kinds: whether revision labels hold whole names, the labels for the hash and for the
// request to delete a Pod, and the initial state of Pods.
func PodControl(updater *inplaceupdate.Updater, kind podcontrol.Config) (podcontrol.Config, error) {
	var err error
	kind.Lifecycle, err = lifecycle.New(lifecycle.Keys{State: apps.LabelLifecycleState, Timestamp: apps.AnnotationLifecycleTimestamp})
	kind.InPlace, kind.RevisionLabel = updater, apps.LabelRevision
	kind.HookGate, kind.Holder = apps.ConditionKruisePodReady, Holder
	return kind, err
}

// Rules returns an owner's rules for its Pods. policy is a policy of OpenKruise; any unknown policy means that Pods are
// recreated.
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

// Hooks returns an owner's hooks. A nil spec means no hooks.
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

// Holder returns the name by which a hook holds the shared readiness gate closed.
func Holder(kind lifecycle.HookName) podreadiness.Holder {
	key := apps.NotReadyKeyPreDelete
	if kind == lifecycle.InPlaceUpdate {
		key = apps.NotReadyKeyPreUpdate
	}
	return podreadiness.Holder{UserAgent: apps.NotReadyUserAgentLifecycle, Key: key}
}
