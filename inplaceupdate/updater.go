package inplaceupdate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/reason"
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
	// RuntimeMetaAnnotation carries the node agent's report about the values with which containers were started.
	// Optional. Without a name here an update of env from metadata never completes.
	RuntimeMetaAnnotation string
	// Gate is the readiness gate to close while a Pod is updated. Optional. Gate takes effect only on Pods with the
	// gate in their spec. No other writer may use the gate: Package inplaceupdate would overwrite the holders kept in a
	// gate by package podreadiness.
	Gate corev1.PodConditionType
	// Reserved are the remaining labels and annotations written by the operator on its Pods, such as the revision label
	// and the keys of lifecycle.Keys. If a template contains a reserved key, or an annotation named above, the template
	// does not change the key on a Pod: see Updater.ValidateTemplate and Updater.StripReserved. Target.Labels accepts
	// only reserved labels.
	Reserved []string
}

// Config says what may be done in place and under which names. New makes an Updater of it.
type Config struct {
	// Keys are the names on Pods.
	Keys Keys
	// AllowResize delivers changes of existing cpu and memory values by a resize (KEP-1287). If false, such changes
	// block the update.
	AllowResize bool
	// EnvFromMetadata counts a changed label or annotation as a change of every container and native sidecar with env
	// from the key. The container's update completes only after a node agent reports a restart with the new value
	// (package runtimemeta). OpenKruise's agent does so for containers, and not for native sidecars: such an update
	// waits, with a reason. If false, the metadata changes and nothing waits.
	EnvFromMetadata bool
	// IgnoredEnv names env variables to ignore for EnvFromMetadata. The node agent has to ignore the same names.
	IgnoredEnv []string
	// Priority returns a container's launch priority. Containers of the highest priority are updated first. Containers
	// of the next priority follow when all earlier containers are ready. Containers without a priority belong to the
	// first batch. Optional: nil puts all containers in a single batch. Priority must be safe for concurrent use and
	// depend on its argument alone.
	Priority func(*corev1.Container) (priority int, ok bool)
}

// Updater decides about updates in place under a single configuration. Make an Updater with New. Its methods are pure
// and safe for concurrent use. No method modifies a Pod or template, except StripReserved.
type Updater struct{ config Config }

// New returns an Updater. The error is a reason.List with code InvalidConfig. The list names every key that is missing,
// is no name of an annotation or condition, or is used twice.
func New(config Config) (*Updater, error) {
	if problems := config.Keys.problems(); len(problems) > 0 {
		return nil, problems
	}
	config.Keys.Reserved = slices.Clone(config.Keys.Reserved)
	config.IgnoredEnv = slices.Clone(config.IgnoredEnv)
	return &Updater{config: config}, nil
}

// Gate returns the readiness gate to close while a Pod is updated, empty for none.
func (u *Updater) Gate() corev1.PodConditionType { return u.config.Keys.Gate }

// ready returns an error for an Updater not made by New, because such an Updater would write annotations without a
// name.
func (u *Updater) ready() error {
	if u == nil || u.config.Keys.StateAnnotation == "" {
		return reason.Reason{Code: InvalidConfig, Detail: "the Updater was not made by New"}
	}
	return nil
}

// namedKey is a key and its field.
type namedKey struct{ field, name string }

// annotations are the annotations read or written by the package. An unconfigured annotation has no name.
func (k *Keys) annotations() []namedKey {
	return []namedKey{
		{"StateAnnotation", k.StateAnnotation},
		{"GraceAnnotation", k.GraceAnnotation},
		{"LegacyStateAnnotation", k.LegacyStateAnnotation},
		{"LegacyGraceAnnotation", k.LegacyGraceAnnotation},
		{"RuntimeMetaAnnotation", k.RuntimeMetaAnnotation},
	}
}

func (k *Keys) problems() reason.List {
	var list reason.List
	add := func(field, name, detail string) {
		list = append(list,
			reason.Reason{Code: InvalidConfig, Path: "Keys." + field, New: shorten(name), Detail: detail})
	}
	// The API server takes annotations in upper and lower case (ValidateAnnotations in
	// k8s.io/apimachinery/pkg/api/validation).
	check := func(field, name, checked string) {
		if faults := validation.IsQualifiedName(checked); len(faults) > 0 {
			add(field, name, strings.Join(faults, "; "))
		}
	}
	usedBy := map[string]string{}
	for _, key := range k.annotations() {
		other, used := usedBy[key.name]
		switch {
		case key.name == "" && (key.field == "StateAnnotation" || key.field == "GraceAnnotation"):
			add(key.field, "", "is required")
		case key.name == "":
		case used:
			add(key.field, key.name, "is Keys."+other+" already")
		default:
			usedBy[key.name] = key.field
			check(key.field, key.name, strings.ToLower(key.name))
		}
	}
	if k.Gate != "" {
		check("Gate", string(k.Gate), string(k.Gate))
	}
	for i, name := range k.Reserved {
		check(fmt.Sprintf("Reserved[%d]", i), name, strings.ToLower(name))
	}
	return list
}

func (k *Keys) reservesLabel(key string) bool { return slices.Contains(k.Reserved, key) }

func (k *Keys) reservesAnnotation(key string) bool {
	switch key {
	case "":
		return false
	case k.StateAnnotation, k.GraceAnnotation, k.LegacyStateAnnotation, k.LegacyGraceAnnotation,
		k.RuntimeMetaAnnotation:
		return true
	}
	return slices.Contains(k.Reserved, key)
}

// withoutReserved removes the changes of the operator's own keys. The maps belong to the plan.
func (k *Keys) withoutReserved(p *Plan) {
	maps.DeleteFunc(p.Labels, func(key string, _ *string) bool { return k.reservesLabel(key) })
	maps.DeleteFunc(p.Annotations, func(key string, _ *string) bool { return k.reservesAnnotation(key) })
}

// ValidateTemplate names the labels, then the annotations, of a template reserved for the operator, sorted. Reserved
// keys have no effect, so the operator's admission should refuse such a template.
func (u *Updater) ValidateTemplate(template *corev1.PodTemplateSpec) reason.List {
	var list reason.List
	add := func(kind string, values map[string]string, reserved func(string) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if reserved(key) {
				list = append(list, reason.Reason{
					Code: ReservedKey, Path: "metadata." + kind + "[" + key + "]", New: shorten(values[key]),
					Detail: "is written on Pods by their owner", Remedy: "remove it from the template",
				})
			}
		}
	}
	add("labels", template.Labels, u.config.Keys.reservesLabel)
	add("annotations", template.Annotations, u.config.Keys.reservesAnnotation)
	return list
}

// StripReserved removes the operator's own labels and annotations from a Pod made from a template, before its creation.
// Call StripReserved before the operator adds its own keys. StripReserved modifies the metadata.
func (u *Updater) StripReserved(pod *metav1.ObjectMeta) {
	maps.DeleteFunc(pod.Labels, func(key, _ string) bool { return u.config.Keys.reservesLabel(key) })
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return u.config.Keys.reservesAnnotation(key) })
}
