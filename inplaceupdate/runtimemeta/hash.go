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

// Source is the part of a Pod's metadata with the value of a variable.
type Source uint8

// The parts of the metadata.
const (
	Labels Source = iota
	Annotations
)

// Variable is an env variable with a label or annotation of the Pod as its value.
type Variable struct {
	// Name of the variable.
	Name string
	// Source and Key say where the value comes from.
	Source Source
	Key    string
	// hidden says that a later variable of the container has the same name: the process sees the later value alone.
	hidden bool
}

// Value returns the value of the variable for a start of the container now: empty for a missing key.
func (v Variable) Value(pod *corev1.Pod) string {
	if v.Source == Annotations {
		return pod.Annotations[v.Key]
	}
	return pod.Labels[v.Key]
}

// Variables iterates over the variables of a container with a label or annotation as their value, without the ignored
// names, in the order of the spec.
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

// variable reads an env entry. ok is false for an entry with another source.
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

// ReadsMetadata reports whether a container has such variables.
func ReadsMetadata(c *corev1.Container, ignored []string) bool {
	for range Variables(c, ignored) {
		return true
	}
	return false
}

// Environment is the environment of a container at its start. The values may be secret, so an Environment prints none.
// The zero value stands for an environment not read.
type Environment struct {
	list []string
	read bool
}

// EnvironmentOf returns the environment with the given variables, each as "NAME=value". The list is not copied.
func EnvironmentOf(list []string) Environment { return Environment{list: list, read: true} }

// IsRead reports whether the environment was read.
func (e Environment) IsRead() bool { return e.read }

// String says how many variables there are.
func (e Environment) String() string {
	if !e.read {
		return "not read"
	}
	return fmt.Sprintf("%d variables", len(e.list))
}

// GoString is String.
func (e Environment) GoString() string { return e.String() }

// value returns the value of a variable, empty for a missing variable. The last of several entries counts.
func (e Environment) value(name string) string {
	for _, entry := range slices.Backward(e.list) {
		if rest, ok := strings.CutPrefix(entry, name); ok && strings.HasPrefix(rest, "=") {
			return rest[1:]
		}
	}
	return ""
}

// ExpectedHash returns the hash of a container started now, with the Pod's present labels and annotations. The hash is
// OpenKruise's, for containers without such variables too.
func ExpectedHash(pod *corev1.Pod, c *corev1.Container, ignored []string) uint64 {
	return hashOf(c, ignored, func(v Variable) string { return v.Value(pod) })
}

// CurrentHash returns the hash of a running container with the given environment, 0 for an environment not read. A
// variable hidden by a later variable of the same name counts with the present value: no process sees the old value.
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
	var env []corev1.EnvVar // nil is written as null, and hashed so
	for v := range Variables(c, ignored) {
		env = append(env, corev1.EnvVar{Name: v.Name, Value: value(v)})
	}
	slices.SortStableFunc(env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return deepHash(env)
}

// PlainHashes returns the kubelet's hash of a container in both forms: of name and image since Kubernetes 1.31, of the
// whole container before.
func PlainHashes(c *corev1.Container) (short, full uint64) {
	return deepHash(map[string]string{"name": c.Name, "image": c.Image}), deepHash(c)
}

// deepHash is the kubelet's way to hash: FNV-32a over the printed form of the JSON.
func deepHash(v any) uint64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0 // hardly the hash of any container; the caller waits then, which is safe
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash(raw))
	return uint64(h.Sum32())
}
