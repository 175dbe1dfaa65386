package sidecarcontrol

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/reason"
)

// Keys are the names of annotations, env variables and the condition that the package uses on Pods. The kit has no
// default names. No two names may be the same.
type Keys struct {
	// HashAnnotation holds, for each set, the hash of the sidecars injected or upgraded last.
	// HashWithoutImagesAnnotation holds the hash without images: a Pod can be upgraded in place only if this hash
	// equals the set's hash without images. Both are required.
	HashAnnotation, HashWithoutImagesAnnotation string
	// InjectedAnnotation lists the names of the sets in a Pod, separated by commas. Required.
	InjectedAnnotation string
	// StateAnnotation holds, for each set, the progress of an upgrade. Required.
	StateAnnotation string
	// RuntimeMetaAnnotation carries the node agent's report about started containers, as for inplaceupdate.Keys. Optional.
	RuntimeMetaAnnotation string
	// InjectedEnv is the env variable that marks an injected container with "true". Required.
	InjectedEnv string
	// Condition is the Pod condition that says, for each set, whether the sidecars can be upgraded in place. Optional:
	// if empty, no condition is written.
	Condition corev1.PodConditionType
	// Hot are the names used for hot upgrades. Optional: if not set, Inject refuses a set with a hot sidecar.
	Hot HotKeys
}

// HotKeys are the names used for hot upgrades; set all or none.
type HotKeys struct {
	// WorkingAnnotation maps each hot sidecar to the name of its working container.
	WorkingAnnotation string
	// VersionPrefix and VersionAltPrefix are prefixes of annotation names that end in a container's name; the
	// annotations hold the version of the container and the version of its twin. The version "0" means that the
	// container is idle.
	VersionPrefix, VersionAltPrefix string
	// VersionEnv and VersionAltEnv are the env variables by which a container reads both annotations.
	VersionEnv, VersionAltEnv string
}

// Config says how sidecars are injected. New makes a Control from a Config.
type Config struct {
	Keys Keys
	// SortContainers sorts the injected containers of all sets by name. If false, the containers are in the order of the
	// sets' names, and within a set in the order of the set.
	SortContainers bool
}

// Control injects and upgrades sidecars under a single configuration. Make a Control with New. A Control is safe for
// concurrent use. Its methods are pure: the same arguments give the same result.
type Control struct {
	keys    Keys
	sort    bool
	updater *inplaceupdate.Updater
}

// InvalidConfig means that a key is missing, has an invalid name, or has a name that is used twice. InvalidConfig means
// a bug in the calling program.
const InvalidConfig reason.Code = "InvalidConfig"

// New returns a Control. The error is a reason.List with code InvalidConfig and names every problem.
func New(config Config) (*Control, error) {
	k := config.Keys
	problems := k.problems()
	if len(problems) > 0 {
		return nil, problems
	}
	updater, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: k.StateAnnotation, RuntimeMetaAnnotation: k.RuntimeMetaAnnotation,
		GraceAnnotation: k.StateAnnotation + noGrace,
	}})
	if err != nil {
		return nil, fmt.Errorf("sidecarcontrol: %w", err)
	}
	return &Control{keys: k, sort: config.SortContainers, updater: updater}, nil
}

// noGrace is the suffix of a name for the grace annotation that inplaceupdate requires. Upgrades of sidecars have no
// grace period, so no Pod ever has the annotation.
const noGrace = "-grace"

// problems lists what is invalid in the names. All names must differ.
func (k *Keys) problems() (problems reason.List) {
	seen := map[string]string{}
	check := func(path, name string, required bool, illegal []string) {
		wrong := ""
		switch other := seen[name]; {
		case name == "" && required:
			wrong = "is required"
		case name == "":
			return
		case other != "":
			wrong = "is " + other + " already"
		case len(illegal) > 0:
			wrong = strings.Join(illegal, "; ")
		}
		if seen[name] = path; wrong != "" {
			problems = append(problems, reason.Reason{Code: InvalidConfig, Path: "Keys." + path, New: name, Detail: wrong})
		}
	}
	annotation := func(path, name string, required bool) {
		check(path, name, required, validation.IsQualifiedName(strings.ToLower(name)))
	}
	env := func(path, name string, required bool) { check(path, name, required, validation.IsEnvVarName(name)) }
	annotation("HashAnnotation", k.HashAnnotation, true)
	annotation("HashWithoutImagesAnnotation", k.HashWithoutImagesAnnotation, true)
	annotation("InjectedAnnotation", k.InjectedAnnotation, true)
	annotation("StateAnnotation", k.StateAnnotation, true)
	annotation("RuntimeMetaAnnotation", k.RuntimeMetaAnnotation, false)
	env("InjectedEnv", k.InjectedEnv, true)
	check("Condition", string(k.Condition), false, validation.IsQualifiedName(string(k.Condition)))
	hot := k.Hot != HotKeys{}
	annotation("Hot.WorkingAnnotation", k.Hot.WorkingAnnotation, hot)
	annotation("Hot.VersionPrefix", k.Hot.VersionPrefix+suffixed(k.Hot.VersionPrefix), hot)
	annotation("Hot.VersionAltPrefix", k.Hot.VersionAltPrefix+suffixed(k.Hot.VersionAltPrefix), hot)
	env("Hot.VersionEnv", k.Hot.VersionEnv, hot)
	env("Hot.VersionAltEnv", k.Hot.VersionAltEnv, hot)
	return problems
}

// suffixed adds a suffix to a prefix, so that the result can be checked as a name.
func suffixed(prefix string) string {
	if prefix == "" {
		return ""
	}
	return "x"
}
