package runtimemeta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// Source says whether a variable's value comes from a label or an annotation.
type Source uint8

// These are the sources of variables.
const (
	Labels Source = iota
	Annotations
)

// Variable is an env variable whose value is a label or annotation of the Pod.
type Variable struct {
	// Name is the name of the variable.
	Name string
	// Source and Key name the label or annotation.
	Source Source
	Key    string
	// hidden says that a later variable of the container has the same name, so the process gets only the later value.
	hidden bool
}

// Value returns the value that the variable would have if the container started now: empty for a missing key.
func (v Variable) Value(pod *corev1.Pod) string {
	if v.Source == Annotations {
		return pod.Annotations[v.Key]
	}
	return pod.Labels[v.Key]
}

// Variables iterates over the variables of a container whose value is a label or annotation, without the ignored names,
// in the order of the spec.
func Variables(c *corev1.Container, ignored []string) iter.Seq[Variable] {
	return func(yield func(Variable) bool) {
		for i := range c.Env {
			v, ok := variable(&c.Env[i])
			if !ok || slices.Contains(ignored, v.Name) {
				continue
			}
			v.hidden = slices.ContainsFunc(c.Env[i+1:], func(e corev1.EnvVar) bool { return e.Name == v.Name })
			if !yield(v) {
				return
			}
		}
	}
}

// variable returns an env entry as a Variable. ok is false for an entry whose value does not come from a label or
// annotation.
func variable(env *corev1.EnvVar) (v Variable, ok bool) {
	if env.Value != "" || env.ValueFrom == nil || env.ValueFrom.FieldRef == nil {
		return Variable{}, false
	}
	v.Name = env.Name
	key, ok := strings.CutSuffix(env.ValueFrom.FieldRef.FieldPath, "']")
	if !ok {
		return Variable{}, false
	}
	if v.Key, ok = strings.CutPrefix(key, "metadata.labels['"); ok {
		return v, true
	}
	v.Source = Annotations
	v.Key, ok = strings.CutPrefix(key, "metadata.annotations['")
	return v, ok
}

// ReadsMetadata reports whether a container has variables with labels or annotations as values.
func ReadsMetadata(c *corev1.Container, ignored []string) bool {
	for range Variables(c, ignored) {
		return true
	}
	return false
}

// Environment holds the environment variables with which a container was started. The values may be secret, so an
// Environment never prints values. The zero value means that the environment was not read.
type Environment struct {
	list []string
	read bool
}

// EnvironmentOf returns the environment with the given variables, each as "NAME=value". EnvironmentOf does not copy the
// list.
func EnvironmentOf(list []string) Environment { return Environment{list: list, read: true} }

// IsRead reports whether the environment was read.
func (e Environment) IsRead() bool { return e.read }

// String returns only the number of variables.
func (e Environment) String() string {
	if !e.read {
		return "not read"
	}
	return fmt.Sprintf("%d variables", len(e.list))
}

// GoString returns the same text as String, so that the verb %#v prints no values.
func (e Environment) GoString() string { return e.String() }

// value returns the value of a variable, empty for a missing variable. If a variable occurs several times, the last
// entry counts.
func (e Environment) value(name string) string {
	for _, entry := range slices.Backward(e.list) {
		if rest, ok := strings.CutPrefix(entry, name); ok && strings.HasPrefix(rest, "=") {
			return rest[1:]
		}
	}
	return ""
}

// ExpectedHash returns the hash that a container would have if started now, with the Pod's present labels and
// annotations. OpenKruise computes the same hash, also for containers without such variables.
func ExpectedHash(pod *corev1.Pod, c *corev1.Container, ignored []string) uint64 {
	return hashOf(c, ignored, func(v Variable) string { return v.Value(pod) })
}

// CurrentHash returns the hash of a running container with the given environment, or 0 if the environment was not read.
// A variable hidden by a later variable of the same name is hashed with the Pod's present value, because no process
// reads the hidden variable.
func CurrentHash(pod *corev1.Pod, c *corev1.Container, env Environment, ignored []string) uint64 {
	if !env.read {
		return 0
	}
	return hashOf(c, ignored, func(v Variable) string {
		if v.hidden {
			return v.Value(pod)
		}
		return env.value(v.Name)
	})
}

func hashOf(c *corev1.Container, ignored []string, value func(Variable) string) uint64 {
	var env []corev1.EnvVar // a nil slice is hashed as JSON null
	for v := range Variables(c, ignored) {
		env = append(env, corev1.EnvVar{Name: v.Name, Value: value(v)})
	}
	slices.SortStableFunc(env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return deepHash(env)
}

// PlainHashes returns the two forms of the kubelet's hash of a container: short covers name and image (since Kubernetes
// 1.31), full covers the whole container (before 1.31).
func PlainHashes(c *corev1.Container) (short, full uint64) {
	return deepHash(map[string]string{"name": c.Name, "image": c.Image}), deepHash(c)
}

// deepHash computes a hash as the kubelet does: FNV-32a over the printed form of the JSON.
func deepHash(v any) uint64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0 // 0 means an unknown hash; a hash of 0 is rare, and only delays the caller
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash(raw))
	return uint64(h.Sum32())
}
