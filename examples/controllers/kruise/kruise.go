// Package kruise answers "under which names does OpenKruise keep what the kit keeps?": it fills the kit's Keys and Configs
// with the wire format of apps.kruise.io, once for all controllers.
package kruise

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/revision"
)

// AnnotationHashVersion marks the revisions whose hashes follow this kit's recipes.
const AnnotationHashVersion = "workloadkit.io/hash-version"

// RevisionKeys are those of CloneSet and StatefulSet revisions.
func RevisionKeys() revision.Keys {
	return revision.Keys{HashLabel: apps.LabelRevisionHash, HashVersionAnnotation: AnnotationHashVersion}
}

// InPlace returns the configuration of in-place updates under the given feature gates. resizeInSpec is for API servers
// without pods/resize.
func InPlace(gates map[apps.Gate]bool, resizeInSpec bool) inplaceupdate.Config {
	return inplaceupdate.Config{
		Keys: inplaceupdate.Keys{
			StateAnnotation:       apps.AnnotationInPlaceUpdateState,
			GraceAnnotation:       apps.AnnotationInPlaceUpdateGrace,
			LegacyStateAnnotation: apps.AnnotationInPlaceUpdateStateLegacy,
			LegacyGraceAnnotation: apps.AnnotationInPlaceUpdateGraceLegacy,
			RuntimeMetaAnnotation: apps.AnnotationRuntimeContainersMeta,
			Gate:                  apps.ConditionInPlaceUpdateReady,
			Reserved:              slices.Concat(apps.ReservedPodLabels(), apps.ReservedPodAnnotations()),
		},
		Resources:       gates[apps.GateInPlaceWorkloadVerticalScaling],
		ResizeInSpec:    resizeInSpec,
		EnvFromMetadata: gates[apps.GateInPlaceUpdateEnvFromMetadata],
		IgnoredEnv:      []string{apps.EnvSidecarSetVersion, apps.EnvSidecarSetVersionAlt},
		Priority:        LaunchPriority,
	}
}

// LaunchPriority reads a container's launch priority from the barrier that the Pod webhook gave it: an env variable that
// waits for the key p_<priority> of a ConfigMap.
func LaunchPriority(container *corev1.Container) (priority int, ok bool) {
	for i := range container.Env {
		env := &container.Env[i]
		if env.Name != apps.EnvContainerBarrier || env.ValueFrom == nil || env.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		digits, found := strings.CutPrefix(env.ValueFrom.ConfigMapKeyRef.Key, apps.ContainerBarrierKeyPrefix)
		if !found {
			return 0, false
		}
		priority, err := strconv.Atoi(digits)
		return priority, err == nil
	}
	return 0, false
}

// Lifecycle returns the state machine for an owner's hooks; nil stands for none.
func Lifecycle(spec *pub.Lifecycle) lifecycle.Machine {
	machine, err := lifecycle.New(lifecycle.Keys{State: apps.LabelLifecycleState, Timestamp: apps.AnnotationLifecycleTimestamp})
	if err != nil {
		panic(err) // the names are constants
	}
	if spec == nil {
		return machine
	}
	return machine.With(lifecycle.Hooks{PreDelete: hook(spec.PreDelete), InPlaceUpdate: hook(spec.InPlaceUpdate), PreNormal: hook(spec.PreNormal)})
}

func hook(h *pub.LifecycleHook) *lifecycle.Hook {
	if h == nil {
		return nil
	}
	return &lifecycle.Hook{Labels: h.LabelsHandler, Finalizers: h.FinalizersHandler, MarkNotReady: h.MarkPodNotReady}
}

// Writer returns the writer of the shared readiness gate that stands for a hook.
func Writer(kind lifecycle.Kind) podreadiness.Writer {
	key := apps.NotReadyKeyPreDelete
	if kind == lifecycle.InPlaceUpdate {
		key = apps.NotReadyKeyPreUpdate
	}
	return podreadiness.Writer{UserAgent: apps.NotReadyUserAgentLifecycle, Key: key}
}

// HasResizeSubresource reports whether an API server of this version takes resources through pods/resize: 1.32 and later.
// Suffixes such as "+gke.1" do not matter; a version that cannot be read counts as older.
func HasResizeSubresource(gitVersion string) bool {
	v, err := version.ParseGeneric(gitVersion)
	return err == nil && !v.LessThan(version.MajorMinor(1, 32))
}
