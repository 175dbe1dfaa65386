package inplaceupdate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/reason"
)

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
		list = append(list, reason.Reason{Code: InvalidConfig, Path: "Keys." + field, New: shorten(name), Detail: detail})
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
