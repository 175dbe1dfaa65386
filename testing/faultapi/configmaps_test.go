package faultapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// config returns an act that replaces the ConfigMap by a ConfigMap with the given keys, or deletes the ConfigMap if
// keys is nil.
func config(keys ...string) act {
	return func(c *cluster) bool {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.pod.Namespace, Name: "settings"}}
		c.must(client.IgnoreNotFound(c.user.Delete(c.t.Context(), object.DeepCopy())))
		if keys == nil {
			return true
		}
		object.Data = map[string]string{}
		for _, key := range keys {
			object.Data[key] = "x"
		}
		c.must(c.user.Create(c.t.Context(), object))
		return true
	}
}

// refers returns a change that adds a variable with a value from a ConfigMap.
func refers(optional *bool) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "a", Optional: optional,
		}}}}
	}
}

// TestKeysOfConfigMaps: a container starts when the keys for its variables exist, and keeps running without the keys.
func TestKeysOfConfigMaps(t *testing.T) {
	const (
		waits = "app app:v1 false/0 CreateContainerConfigError, True, False, Pending"
		runs  = "app app:v1 true/0, True, True, Running"
	)
	for _, tc := range []struct {
		name     string
		optional *bool
		do       []act
		want     string
	}{
		{"no ConfigMap", nil, []act{run, report}, waits},
		{"another key", nil, []act{config("b"), run, report}, waits},
		{"the key", nil, []act{config("a", "b"), run, ready, report}, runs},
		{"the key comes later", nil, []act{run, report, config("a"), run, ready, report}, runs},
		{"a key that need not be there", ptr.To(true), []act{run, ready, report}, runs},
		{"a key that goes", nil, []act{config("a"), run, ready, config(), run, report}, runs},
		{"a crash without the key", nil, []act{config("a"), run, config(), crash, report}, "app app:v1 false/0 CreateContainerConfigError, True, False, Running"},
		{"a crash, and the key comes back", nil, []act{config("a"), run, config(), crash, config("a"), run, ready, report}, "app app:v1 true/1, True, True, Running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, refers(tc.optional))
			for _, do := range append([]act{schedule, observe}, tc.do...) {
				do(c)
			}
			if diff := cmp.Diff(tc.want, describeAll(c)); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
}
