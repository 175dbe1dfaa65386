package inplaceupdate

import (
	corev1 "k8s.io/api/core/v1"
)

// Keys are the names under which the package writes on Pods. The kit has no default names. No annotation may have two
// uses.
type Keys struct {
	// StateAnnotation holds the progress of an update. Required.
	StateAnnotation string
	// GraceAnnotation holds the change to come while a grace period runs. Required.
	GraceAnnotation string
	// LegacyStateAnnotation and LegacyGraceAnnotation are read if the new names are missing, and removed on the next
	// write. Optional.
	LegacyStateAnnotation, LegacyGraceAnnotation string
	// RuntimeMetaAnnotation carries the node agent's report about the values with which containers were started. Optional.
	// Without a name here an update of env from metadata never completes.
	RuntimeMetaAnnotation string
	// Gate is the readiness gate to close while a Pod is updated. Optional. Gate takes effect only on Pods with the gate
	// in their spec. No other writer may use the gate: Package inplaceupdate would overwrite the holders kept in a gate by
	// package podreadiness.
	Gate corev1.PodConditionType
	// Reserved are the remaining labels and annotations written by the operator on its Pods, such as the revision label
	// and the keys of lifecycle.Keys. If a template contains a reserved key, or an annotation named above, the template
	// does not change the key on a Pod: see Updater.ValidateTemplate and Updater.StripReserved. Target.Labels accepts only
	// reserved labels.
	Reserved []string
}

// Config says what may be done in place and under which names. New makes an Updater of it.
type Config struct {
	// Keys are the names on Pods.
	Keys Keys
	// AllowResize delivers changes of existing cpu and memory values by a resize (KEP-1287). If false, such changes block
	// the update.
	AllowResize bool
	// EnvFromMetadata counts a changed label or annotation as a change of every container with env from the key. The
	// container's update completes only after a node agent reports a restart with the new value. If false, the metadata
	// changes and nothing waits.
	EnvFromMetadata bool
	// IgnoredEnv names env variables to ignore for EnvFromMetadata.
	IgnoredEnv []string
	// Priority returns a container's launch priority. Containers of the highest priority are updated first. Containers of
	// the next priority follow when all earlier containers are ready. Containers without a priority belong to the first
	// batch. Optional: nil puts all containers in a single batch. Priority must be safe for concurrent use and depend on
	// its argument alone.
	Priority func(*corev1.Container) (priority int, ok bool)
}
