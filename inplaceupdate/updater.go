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

// Keys are the names of the annotations, labels and the condition that the package writes on Pods. The kit has no
// default names. No name may be used for two purposes.
type Keys struct {
	// StateAnnotation is the annotation with the progress of an update. Required.
	StateAnnotation string
	// GraceAnnotation is the annotation with the changes that wait for the end of a grace period. Required.
	GraceAnnotation string
	// LegacyStateAnnotation and LegacyGraceAnnotation are old names: they are read if the annotations with the current
	// names are missing, and are removed with the next patch. Optional.
	LegacyStateAnnotation, LegacyGraceAnnotation string
	// RuntimeMetaAnnotation is the annotation in which the node agent reports with which values containers were
	// started. Optional. If the name is empty, an update of env from metadata never completes.
	RuntimeMetaAnnotation string
	// Gate is the readiness gate that is closed while a Pod is updated. Optional. Only Pods with the gate in their spec
	// are affected. No other controller may write the gate: package inplaceupdate would overwrite the holders that
	// package podreadiness keeps in a gate's condition.
	Gate corev1.PodConditionType
	// Reserved are all other labels and annotations that the operator writes on its Pods, such as the revision label
	// and the keys of lifecycle.Keys. If a template has a reserved key, or an annotation named above, an update does
	// not change this key on a Pod: see Updater.ValidateTemplate and Updater.StripReserved. Target.Labels accepts only
	// reserved labels.
	Reserved []string
}

// Config says which changes may be made in place, and which names to use. New makes an Updater from a Config.
type Config struct {
	// Keys are the names used on Pods.
	Keys Keys
	// AllowResize allows changes of existing cpu and memory values, made by a resize (KEP-1287). If false, such changes
	// make an in-place update impossible.
	AllowResize bool
	// EnvFromMetadata says that if a label or annotation changes, every container and native sidecar that reads the key
	// through env must be restarted. The container's update completes only after a node agent has reported a restart
	// with the new value (package runtimemeta). OpenKruise's agent restarts and reports containers but not native
	// sidecars: an update of such a sidecar waits, with a reason. If EnvFromMetadata is false, the update changes the
	// metadata and waits for no restart.
	EnvFromMetadata bool
	// IgnoredEnv names env variables to ignore for EnvFromMetadata. The node agent must be configured to ignore the
	// same names.
	IgnoredEnv []string
	// Priority returns a container's launch priority. Containers of the highest priority are updated first. Containers
	// of the next priority are updated when all containers updated before are ready. Containers without a priority
	// belong to the first batch. Optional: if nil, all containers are in a single batch. Priority must be safe for
	// concurrent use, and its result may depend only on its argument.
	Priority func(*corev1.Container) (priority int, ok bool)
}

// Updater decides whether Pods can be updated in place, and what to write next, under a given configuration. Make an
// Updater with New. Its methods are pure and safe for concurrent use. No method modifies a Pod or template, except
// StripReserved.
type Updater struct{ config Config }

// New returns an Updater. The error is a reason.List with code InvalidConfig. The list names every key that is missing,
// is not a valid name of an annotation or condition, or is used twice.
func New(config Config) (*Updater, error) {
	if problems := config.Keys.problems(); len(problems) > 0 {
		return nil, problems
	}
	config.Keys.Reserved = slices.Clone(config.Keys.Reserved)
	config.IgnoredEnv = slices.Clone(config.IgnoredEnv)
	return &Updater{config: config}, nil
}

// Gate returns the readiness gate that is closed while a Pod is updated; empty if there is none.
func (u *Updater) Gate() corev1.PodConditionType { return u.config.Keys.Gate }

// ready returns an error if the Updater was not made by New: such an Updater would write annotations without a name.
func (u *Updater) ready() error {
	if u == nil || u.config.Keys.StateAnnotation == "" {
		return reason.Reason{Code: InvalidConfig, Detail: "the Updater was not made by New"}
	}
	return nil
}

// namedKey is a key and the name of its field in Keys.
type namedKey struct{ field, name string }

// annotations are the annotations that the package reads or writes. An annotation that is not configured has an empty
// name.
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
	// The API server accepts annotations in upper and lower case (ValidateAnnotations in
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

// withoutReserved removes the changes of reserved keys from the plan. withoutReserved modifies the plan's maps.
func (k *Keys) withoutReserved(p *Plan) {
	maps.DeleteFunc(p.Labels, func(key string, _ *string) bool { return k.reservesLabel(key) })
	maps.DeleteFunc(p.Annotations, func(key string, _ *string) bool { return k.reservesAnnotation(key) })
}

// ValidateTemplate returns an error for each reserved label of a template, then for each reserved annotation, each
// sorted by key. Reserved keys in a template have no effect, so the operator's webhook should refuse such a template.
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

// StripReserved removes reserved labels and annotations from a Pod made from a template, before the Pod is created.
// Call StripReserved before the operator adds its own keys. StripReserved modifies the metadata.
func (u *Updater) StripReserved(pod *metav1.ObjectMeta) {
	maps.DeleteFunc(pod.Labels, func(key, _ string) bool { return u.config.Keys.reservesLabel(key) })
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return u.config.Keys.reservesAnnotation(key) })
}
