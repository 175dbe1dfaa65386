package inplaceupdate

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// Keys are the names this package writes on Pods. The kit has no defaults for them.
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
	// Gate is the readiness gate that is closed while a Pod is updated. Optional; it takes effect on Pods that list it. It must
	// be this package's alone: writers that share a gate by package podreadiness would be lost from it.
	Gate corev1.PodConditionType
	// Reserved are the other labels and annotations that the operator writes on its Pods, such as its revision label and those
	// of lifecycle.Keys. A template
	// that has one of them, or an annotation named above, does not change it on a Pod: see ValidateTemplate and StripReserved.
	Reserved []string
}

// Config says what may be done in place and under which names. It is a plain value without state; its methods are pure and
// safe for concurrent use.
type Config struct {
	Keys Keys
	// Resources lets changes of existing cpu and memory values be delivered by a resize (KEP-1287). Off, they block.
	Resources bool
	// EnvFromMetadata makes a change of a label or annotation that a container reads through env count as a change of that
	// container: it completes only when a node agent reports that the container was restarted with the new value.
	// Off, the metadata changes and nothing waits for it.
	EnvFromMetadata bool
	// IgnoredEnv names env variables that never count for EnvFromMetadata.
	IgnoredEnv []string
	// Priority returns a container's launch priority. Optional; containers without one belong to the first batch.
	Priority func(*corev1.Container) (priority int, ok bool)
}

// Validate returns an error when a required key is missing.
func (c *Config) Validate() error {
	if c.Keys.StateAnnotation == "" {
		return errors.New("inplaceupdate: Keys.StateAnnotation is required")
	}
	if c.Keys.GraceAnnotation == "" {
		return errors.New("inplaceupdate: Keys.GraceAnnotation is required")
	}
	return nil
}
