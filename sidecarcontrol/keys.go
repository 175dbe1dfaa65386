package sidecarcontrol

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/reason"
)

// Keys are the names that this package writes on Pods. The kit has no defaults for them. No two may be the same.
type Keys struct {
	// HashAnnotation holds, by set, what was injected last. HashWithoutImagesAnnotation holds the same without images: only a Pod whose
	// entry equals the set's can be upgraded in place. Both are required.
	HashAnnotation, HashWithoutImagesAnnotation string
	// InjectedAnnotation lists the names of the sets in a Pod, with commas. Required.
	InjectedAnnotation string
	// StateAnnotation holds, by set, the progress of an upgrade. Required.
	StateAnnotation string
	// RuntimeMetaAnnotation is where a node agent reports what containers were started with, as for inplaceupdate.Keys. Optional.
	RuntimeMetaAnnotation string
	// InjectedEnv is the env variable that marks an injected container with "true". Required.
	InjectedEnv string
	// Condition says of a Pod, by set, whether its sidecars can be upgraded in place. Optional: nothing is written without it.
	Condition corev1.PodConditionType
	// Hot are the names for hot upgrades. Optional: without them a set with a hot sidecar is refused.
	Hot HotKeys
}

// HotKeys are the names for hot upgrades, all or none of them.
type HotKeys struct {
	// WorkingAnnotation says, by sidecar, which of its two containers works.
	WorkingAnnotation string
	// VersionPrefix and VersionAltPrefix begin annotations that end in a container's name: the version that it runs, and the one that its
	// twin runs. "0" stands for an idle container.
	VersionPrefix, VersionAltPrefix string
	// VersionEnv and VersionAltEnv are the env variables by which a container reads these two annotations.
	VersionEnv, VersionAltEnv string
}

// Config says how sidecars are injected. New makes a Control of it.
type Config struct {
	Keys Keys
	// SortContainers has the injected containers of all sets in the order of their names. Without it they are in the order of the sets'
	// names, and within a set in the order of the set.
	SortContainers bool
}

// Control injects and upgrades sidecars under one configuration. Make it with New. It is safe for concurrent use, and its methods are
// pure: the same arguments give the same answer.
type Control struct {
	keys    Keys
	sort    bool
	updater *inplaceupdate.Updater
}

// InvalidConfig means that a key is missing, is no legal name or is used twice. It is an error of the program.
const InvalidConfig reason.Code = "InvalidConfig"

// New returns a Control. The error is a reason.List with code InvalidConfig that names every problem.
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

// noGrace makes the name of an annotation that inplaceupdate wants and that upgrades of sidecars, which know no grace period, never have.
const noGrace = "-grace"

// uses are the names that have to differ, with what is wrong with each.
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

// suffixed completes a prefix to a name that can be checked.
func suffixed(prefix string) string {
	if prefix == "" {
		return ""
	}
	return "x"
}
