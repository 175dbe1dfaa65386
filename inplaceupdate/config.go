package inplaceupdate

import (
	corev1 "k8s.io/api/core/v1"
)

// Keys are the names this package writes on Pods. The kit has no defaults for them. No annotation may have two uses.
type Keys struct {
	// StateAnnotation holds the progress of an update. Required.
	StateAnnotation string
	// GraceAnnotation holds the change to come while a grace period runs. Required.
	GraceAnnotation string
	// LegacyStateAnnotation and LegacyGraceAnnotation are read where the others are missing and removed on the next write.
	// Optional.
	LegacyStateAnnotation, LegacyGraceAnnotation string
	// RuntimeMetaAnnotation is where a node agent reports what containers were started with. Optional; without it an update
	// of env from metadata never completes.
	RuntimeMetaAnnotation string
	// Gate is the readiness gate that is closed while a Pod is updated. Optional; it takes effect on Pods that list it. No
	// other writer may use it: this package would overwrite the holders that package podreadiness keeps in a gate.
	Gate corev1.PodConditionType
	// Reserved are the other labels and annotations that the operator writes on its Pods, such as its revision label and those
	// of lifecycle.Keys. A template that has one of them, or an annotation named above, does not change it on a Pod: see
	// Updater.ValidateTemplate and Updater.StripReserved. Only labels that are reserved can be in Target.Labels.
	Reserved []string
}

// Config says what may be done in place and under which names. New makes an Updater of it.
type Config struct {
	// Keys are the names on Pods.
	Keys Keys
	// AllowResize lets changes of existing cpu and memory values be delivered by a resize (KEP-1287). Without it they block
	// the update.
	AllowResize bool
	// EnvFromMetadata makes a change of a label or annotation that a container reads through env count as a change of that
	// container: it completes only when a node agent reports that the container was restarted with the new value.
	// Without it, the metadata changes and nothing waits for it.
	EnvFromMetadata bool
	// IgnoredEnv names env variables that never count for EnvFromMetadata.
	IgnoredEnv []string
	// Priority returns a container's launch priority. Containers of the highest priority are updated first; those of the next
	// one follow when all before them are ready. Containers without a priority belong to the first batch. Optional; nil puts
	// all containers in one batch. It must be safe for concurrent use, and depend on its argument alone.
	Priority func(*corev1.Container) (priority int, ok bool)
}
