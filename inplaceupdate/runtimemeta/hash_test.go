package runtimemeta_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
)

// These are hashes reported by OpenKruise 1.9 for real Pods: the hash of a container without env from metadata, and
// the hash of a container whose variable CFG has the annotation's value "three".
const (
	openKruiseEmpty = 86995377
	openKruiseThree = 1181583253
)

// ignored returns the variables that OpenKruise's agent ignores.
func ignored() []string { return []string{"SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"} }

func newPod(containers ...corev1.Container) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers, NodeName: "n1"}}
	pod.Namespace, pod.Name, pod.UID = "default", "web-0", "u1"
	return pod
}

func container(name string, env ...corev1.EnvVar) corev1.Container {
	return corev1.Container{Name: name, Image: "example.test/" + name + ":v3", Env: env}
}

func sidecar(name string, env ...corev1.EnvVar) corev1.Container {
	c := container(name, env...)
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func fromLabel(name, key string) corev1.EnvVar { return fromField(name, "metadata.labels['"+key+"']") }

func fromAnnotation(name, key string) corev1.EnvVar {
	return fromField(name, "metadata.annotations['"+key+"']")
}

// hash is a second implementation of the kubelet's hash of a JSON text: FNV-32a over the kubelet's printed form of
// the bytes: a list of numbers after the type.
func hash(json string) uint64 {
	h := fnv.New32a()
	fmt.Fprintf(h, "([]uint8)%v", []byte(json))
	return uint64(h.Sum32())
}

// TestHashes: the expected hash comes from the Pod, the current hash from the environment, and both have the same form.
func TestHashes(t *testing.T) {
	secret := corev1.EnvVar{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}
	literal := fromLabel("L", "zone")
	literal.Value = "literal"
	for _, tc := range []struct {
		name     string
		env      []corev1.EnvVar
		runs     []string
		expected string
		current  string
	}{
		{"ND-43 none", []corev1.EnvVar{secret, {Name: "A", Value: "1"}}, []string{"A=1", "PASSWORD=p"}, `null`, `null`},
		{"ND-43 a label", []corev1.EnvVar{fromLabel("Z", "zone")}, []string{"Z=a"}, `[{"name":"Z","value":"b"}]`, `[{"name":"Z","value":"a"}]`},
		{"ND-43 an annotation", []corev1.EnvVar{fromAnnotation("C", "cfg")}, []string{"C=2"}, `[{"name":"C","value":"2"}]`, `[{"name":"C","value":"2"}]`},
		{"ND-43 sorted by name", []corev1.EnvVar{fromLabel("Z", "zone"), fromAnnotation("A", "cfg")}, []string{"Z=b", "A=2"}, `[{"name":"A","value":"2"},{"name":"Z","value":"b"}]`, `[{"name":"A","value":"2"},{"name":"Z","value":"b"}]`},
		{"ND-43 an empty value is omitted", []corev1.EnvVar{fromLabel("N", "none")}, []string{"N="}, `[{"name":"N"}]`, `[{"name":"N"}]`},
		{"ND-43 a missing value is empty", []corev1.EnvVar{fromLabel("N", "none")}, []string{"NONE=1", "N"}, `[{"name":"N"}]`, `[{"name":"N"}]`},
		{"ND-43 ignored names", []corev1.EnvVar{fromAnnotation("SIDECARSET_VERSION", "cfg"), fromAnnotation("SIDECARSET_VERSION_ALT", "cfg"), fromLabel("Z", "zone")}, []string{"SIDECARSET_VERSION=9", "Z=b"}, `[{"name":"Z","value":"b"}]`, `[{"name":"Z","value":"b"}]`},
		{"ND-43 a literal value", []corev1.EnvVar{literal}, []string{"L=literal"}, `null`, `null`},
		{"ND-43 other fields", []corev1.EnvVar{fromField("N", "metadata.name"), fromField("L", "metadata.labels"), fromField("B", "metadata.labels['zone"), fromField("S", "status.podIP['x']")}, []string{"N=web-0"}, `null`, `null`},
		{"ND-43 a key with quotes", []corev1.EnvVar{fromLabel("Q", "a']b")}, []string{"Q=q"}, `[{"name":"Q","value":"quoted"}]`, `[{"name":"Q","value":"q"}]`},
		{"ND-72 a value with lines and equal signs", []corev1.EnvVar{fromAnnotation("C", "lines")}, []string{"C=x=1\nZ=9"}, `[{"name":"C","value":"x=1\nZ=9"}]`, `[{"name":"C","value":"x=1\nZ=9"}]`},
		{"ND-72 the last entry counts", []corev1.EnvVar{fromLabel("Z", "zone")}, []string{"Z=image", "Z=b"}, `[{"name":"Z","value":"b"}]`, `[{"name":"Z","value":"b"}]`},
		{"ND-45 a hidden variable restarts nothing", []corev1.EnvVar{fromAnnotation("Z", "cfg"), fromLabel("Z", "zone")}, []string{"Z=b"}, `[{"name":"Z","value":"2"},{"name":"Z","value":"b"}]`, `[{"name":"Z","value":"2"},{"name":"Z","value":"b"}]`},
		{"ND-45 a variable hidden by a literal", []corev1.EnvVar{fromLabel("Z", "zone"), {Name: "Z", Value: "c"}}, []string{"Z=c"}, `[{"name":"Z","value":"b"}]`, `[{"name":"Z","value":"b"}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := container("app", tc.env...)
			pod := newPod(c)
			pod.Labels = map[string]string{"zone": "b", "a']b": "quoted"}
			pod.Annotations = map[string]string{"cfg": "2", "lines": "x=1\nZ=9"}
			got := []uint64{runtimemeta.ExpectedHash(pod, &c, ignored()), runtimemeta.CurrentHash(pod, &c, runtimemeta.EnvironmentOf(tc.runs), ignored())}
			if diff := cmp.Diff([]uint64{hash(tc.expected), hash(tc.current)}, got); diff != "" {
				t.Errorf("hashes of %s and %s (-want +got):\n%s", tc.expected, tc.current, diff)
			}
			if want := tc.expected != "null"; runtimemeta.ReadsMetadata(&c, ignored()) != want {
				t.Errorf("reads metadata: %v", !want)
			}
			if unread := runtimemeta.CurrentHash(pod, &c, runtimemeta.Environment{}, ignored()); unread != 0 {
				t.Errorf("hash of an environment not read: %d", unread)
			}
		})
	}
}

// TestHashesOfOpenKruise compares the hashes with reports written by OpenKruise 1.9 for Kubernetes 1.36.
func TestHashesOfOpenKruise(t *testing.T) {
	c := container("app", corev1.EnvVar{Name: "A", Value: "1"}, fromAnnotation("CFG", "app-config"))
	none := container("app")
	pod := newPod(c)
	pod.Annotations = map[string]string{"app-config": "three"}
	short, _ := runtimemeta.PlainHashes(&c)
	got := map[string]uint64{
		"ND-43 expected": runtimemeta.ExpectedHash(pod, &c, nil),
		"ND-43 current":  runtimemeta.CurrentHash(pod, &c, runtimemeta.EnvironmentOf([]string{"PATH=/bin", "CFG=three", "A=1"}), nil),
		"ND-43 no env":   runtimemeta.ExpectedHash(pod, &none, nil),
		"ND-42 plain":    short,
	}
	want := map[string]uint64{"ND-43 expected": openKruiseThree, "ND-43 current": openKruiseThree, "ND-43 no env": openKruiseEmpty, "ND-42 plain": 3272088423}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hashes (-OpenKruise +got):\n%s", diff)
	}
}

// TestPlainHashes compares the hash of kubelets since 1.31 with a value from the kubelet's own tests
// (TestHashContainer of Kubernetes 1.36).
func TestPlainHashes(t *testing.T) {
	c := corev1.Container{Name: "test_container", Image: "foo/image:v1"}
	short, full := runtimemeta.PlainHashes(&c)
	if want := hash(`{"name":"test_container","image":"foo/image:v1","resources":{}}`); short != 0x8e45cbd0 || full != want {
		t.Errorf("hashes %#x %#x, want 0x8e45cbd0 %#x", short, full, want)
	}
}

// TestVariables: Variables keeps the order of the spec, and a loop over the variables may stop early.
func TestVariables(t *testing.T) {
	c := container("app", fromLabel("Z", "zone"), fromAnnotation("A", "cfg"), fromLabel("SIDECARSET_VERSION", "x"))
	var names []string
	for v := range runtimemeta.Variables(&c, ignored()) {
		names = append(names, fmt.Sprint(v.Name, v.Source, v.Key))
	}
	if diff := cmp.Diff([]string{"Z0zone", "A1cfg"}, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	for v := range runtimemeta.Variables(&c, nil) {
		if v.Name != "Z" {
			t.Errorf("went on to %s", v.Name)
		}
		break
	}
}

// TestEnvironmentIsSecret: no way to print an environment shows a value.
func TestEnvironmentIsSecret(t *testing.T) {
	instance := runtimemeta.Instance{ID: "containerd://1", Env: runtimemeta.EnvironmentOf([]string{"PASSWORD=hunter2"})}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, instance); strings.Contains(got, "hunter2") || !strings.Contains(got, "1 variables") {
			t.Errorf("ND-72 %s prints %s", format, got)
		}
		if got := fmt.Sprintf(format, runtimemeta.Environment{}); got != "not read" {
			t.Errorf("%s prints %s", format, got)
		}
	}
}

// TestEnvironmentIsNotModified: computing a hash does not modify the caller's list.
func TestEnvironmentIsNotModified(t *testing.T) {
	list := []string{"Z=1", "A=2"}
	before := slices.Clone(list)
	c := container("app", fromLabel("Z", "zone"), fromLabel("A", "a"))
	runtimemeta.CurrentHash(newPod(c), &c, runtimemeta.EnvironmentOf(list), nil)
	if diff := cmp.Diff(before, list); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
