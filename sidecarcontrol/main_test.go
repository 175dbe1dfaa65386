package sidecarcontrol_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

var now = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

const (
	hashKey      = "sidecars.example.com/hash"
	plainKey     = "sidecars.example.com/hash-without-images"
	injectedKey  = "sidecars.example.com/injected"
	stateKey     = "sidecars.example.com/state"
	workingKey   = "sidecars.example.com/working"
	versionKey   = "version.example.com/"
	altKey       = "versionalt.example.com/"
	conditionKey = corev1.PodConditionType("SidecarsUpgradable")
)

func keys() sidecarcontrol.Keys {
	return sidecarcontrol.Keys{
		HashAnnotation: hashKey, HashWithoutImagesAnnotation: plainKey, InjectedAnnotation: injectedKey, StateAnnotation: stateKey,
		InjectedEnv: "IS_INJECTED", Condition: conditionKey,
		Hot: sidecarcontrol.HotKeys{
			WorkingAnnotation: workingKey, VersionPrefix: versionKey, VersionAltPrefix: altKey, VersionEnv: "VERSION", VersionAltEnv: "VERSION_ALT",
		},
	}
}

func newControl(t testing.TB) *sidecarcontrol.Control {
	t.Helper()
	c, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: keys()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// spec returns a set of sidecars with the given names, without hot upgrades. Each sidecar has the image <name>:v1.
func spec(name string, sidecars ...string) sidecarcontrol.Spec {
	s := sidecarcontrol.Spec{Name: name, Selector: selector("app", "web"), Version: "100"}
	for _, sidecar := range sidecars {
		s.Containers = append(s.Containers, side(sidecar))
	}
	return s
}

func side(name string, edits ...func(*sidecarcontrol.Sidecar)) sidecarcontrol.Sidecar {
	s := sidecarcontrol.Sidecar{Container: corev1.Container{Name: name, Image: name + ":v1"}}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func native(name string) sidecarcontrol.Sidecar {
	return side(name, func(s *sidecarcontrol.Sidecar) { s.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways) })
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func newSet(t testing.TB, s sidecarcontrol.Spec) *sidecarcontrol.Set {
	t.Helper()
	set, err := sidecarcontrol.NewSet(s)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// newPod returns a Pod with containers of the given names. Each container has the image <name>:v1.
func newPod(containers ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}}}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name + ":v1"})
	}
	return pod
}

func inject(t testing.TB, pod *corev1.Pod, sets ...*sidecarcontrol.Set) *corev1.Pod {
	t.Helper()
	if _, err := newControl(t).Inject(pod, sets, sidecarcontrol.Facts{Now: now}); err != nil {
		t.Fatal(err)
	}
	return pod
}

func names(containers []corev1.Container) (out []string) {
	for i := range containers {
		out = append(out, containers[i].Name)
	}
	return out
}

// failed returns an arbitrary reason, for errors of test steps.
func failed() reason.Reason { return reason.Reason{Code: sidecarcontrol.NotUpgradable} }

func errEnded() error { return inplaceupdate.ContainerEnded }
