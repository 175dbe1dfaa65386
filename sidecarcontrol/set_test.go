package sidecarcontrol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

func TestNewSet(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*sidecarcontrol.Spec)
		want []string // the paths of the refused fields
	}{
		{"as it should be", func(*sidecarcontrol.Spec) {}, nil},
		{"no name", func(s *sidecarcontrol.Spec) { s.Name = "" }, []string{"name"}},
		{"a name that ends the list", func(s *sidecarcontrol.Spec) { s.Name = "a,b" }, []string{"name"}},
		{"a selector that is none", func(s *sidecarcontrol.Spec) {
			s.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, []string{"selector"}},
		{"two of one name", func(s *sidecarcontrol.Spec) { s.InitContainers = []sidecarcontrol.Sidecar{side("a")} }, []string{"containers[0].name"}},
		{"SC-65 one with the name of a hot one's container", func(s *sidecarcontrol.Spec) {
			s.Containers = append(s.Containers, side("mesh-2"), side("mesh", hot))
		}, []string{"containers[2].name"}},
		{"HU-14 no empty image", func(s *sidecarcontrol.Spec) { s.Containers[0].Hot = &sidecarcontrol.Hot{} }, []string{"containers[0].hot.emptyImage"}},
		{"HU-14 the same image", func(s *sidecarcontrol.Spec) { s.Containers[0].Hot = &sidecarcontrol.Hot{EmptyImage: "a:v1"} }, []string{"containers[0].hot.emptyImage"}},
		{"SC-43 a hot init container", func(s *sidecarcontrol.Spec) {
			s.InitContainers = []sidecarcontrol.Sidecar{native("n")}
			hot(&s.InitContainers[0])
		}, []string{"initContainers[0].hot"}},
		{"SC-29 a field that names no container", func(s *sidecarcontrol.Spec) {
			s.Containers[0].TransferEnv = []sidecarcontrol.TransferEnv{{ContainerFrom: "spec.nodeName"}}
		}, []string{"containers[0].transferEnv[0].containerFrom"}},
		{"an unknown policy", func(s *sidecarcontrol.Spec) {
			s.Annotations = []sidecarcontrol.AnnotationPatch{{Policy: "Sometimes"}}
		}, []string{"annotations[0].policy"}},
		{"space around an image", func(s *sidecarcontrol.Spec) { s.Containers[0].Image = "a:v1 " }, []string{"containers[0].image"}},
		{"space around an empty image", func(s *sidecarcontrol.Spec) {
			s.Containers[0].Hot = &sidecarcontrol.Hot{EmptyImage: " empty:v1"}
		}, []string{"containers[0].hot.emptyImage"}},
		{"a version of another name", func(s *sidecarcontrol.Spec) {
			s.Pin = &sidecarcontrol.Pin{Set: newSet(t, spec("one-v0", "a"))}
		}, []string{"pin.set"}},
		{"a share above all", func(s *sidecarcontrol.Spec) { s.Pin = &sidecarcontrol.Pin{Share: 1.5} }, []string{"pin.share"}},
		{"RP-14 an expression that is none", func(s *sidecarcontrol.Spec) {
			s.Containers[0].ResourcesPolicy = &sizing.Policy{
				Mode: sizing.Sum, Containers: ".*", Limits: sizing.Expressions{CPU: "cpu*"},
			}
		}, []string{"containers[0].resourcesPolicy.resourcesExpr.limits.cpu"}},
		{"RP-1 a policy for a plain init container", func(s *sidecarcontrol.Spec) {
			s.InitContainers = []sidecarcontrol.Sidecar{side("i", func(s *sidecarcontrol.Sidecar) {
				s.ResourcesPolicy = &sizing.Policy{
					Mode: sizing.Sum, Containers: ".*", Limits: sizing.Expressions{CPU: "cpu"},
				}
			})}
		}, []string{"initContainers[0].resourcesPolicy"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := spec("one", "a")
			tc.edit(&s)
			_, err := sidecarcontrol.NewSet(s)
			var got []string
			for _, why := range reason.From(err) {
				got = append(got, why.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want == nil) {
				t.Errorf("refused (-want +got), %v:\n%s", err, diff)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*sidecarcontrol.Keys)
		want []string
	}{
		{"as it should be", func(*sidecarcontrol.Keys) {}, nil},
		{"without hot upgrades", func(k *sidecarcontrol.Keys) { k.Hot = sidecarcontrol.HotKeys{} }, nil},
		{"one of the names for hot upgrades", func(k *sidecarcontrol.Keys) { k.Hot.VersionEnv = "" }, []string{"Keys.Hot.VersionEnv"}},
		{"one is missing", func(k *sidecarcontrol.Keys) { k.HashAnnotation = "" }, []string{"Keys.HashAnnotation"}},
		{"one is used twice", func(k *sidecarcontrol.Keys) { k.StateAnnotation = k.HashAnnotation }, []string{"Keys.StateAnnotation"}},
		{"no name of an annotation", func(k *sidecarcontrol.Keys) { k.InjectedAnnotation = "a/b/c" }, []string{"Keys.InjectedAnnotation"}},
		{"no name of an env variable", func(k *sidecarcontrol.Keys) { k.InjectedEnv = "=" }, []string{"Keys.InjectedEnv"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := keys()
			tc.edit(&k)
			_, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: k})
			var got []string
			for _, why := range reason.From(err) {
				got = append(got, why.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got), %v:\n%s", err, diff)
			}
		})
	}
	k := keys()
	k.Hot = sidecarcontrol.HotKeys{}
	c, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: k})
	if err != nil {
		t.Fatal(err)
	}
	set := newSet(t, sidecarcontrol.Spec{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}})
	if _, err := c.Inject(newPod("app"), []*sidecarcontrol.Set{set}, sidecarcontrol.Facts{Now: now}); err == nil {
		t.Error("a hot sidecar was injected without names for it")
	}
}

// TestSetIsNotShared: if later code changes the injected containers of a Pod, the set stays unchanged.
func TestSetIsNotShared(t *testing.T) {
	s := spec("one", "a")
	s.Containers[0].Env = append(make([]corev1.EnvVar, 0, 8), corev1.EnvVar{Name: "A"})
	s.Containers[0].VolumeMounts = append(make([]corev1.VolumeMount, 0, 8), corev1.VolumeMount{Name: "v", MountPath: "/v"})
	set := newSet(t, s)
	one, two := inject(t, newPod("app"), set), inject(t, newPod("app"), set)
	for i, pod := range []*corev1.Pod{one, two} {
		c := &pod.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: []string{"ONE", "TWO"}[i]})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: []string{"one", "two"}[i]})
		pod.Annotations["pod"] = []string{"one", "two"}[i]
	}
	if one.Spec.Containers[0].Env[2].Name != "ONE" || one.Spec.Containers[0].VolumeMounts[1].Name != "one" || one.Annotations["pod"] != "one" {
		t.Errorf("what was written to one Pod changed the other: %+v", one.Spec.Containers[0])
	}
}

// TestEqual: Equal compares the fields that Read and Upgrade use, and ignores fields that matter only for new Pods.
func TestEqual(t *testing.T) {
	base := spec("mesh", "proxy")
	base.InitContainers = []sidecarcontrol.Sidecar{native("dns")}
	for _, tc := range []struct {
		name   string
		change func(*sidecarcontrol.Spec)
		want   bool
	}{
		{"nothing", func(*sidecarcontrol.Spec) {}, true},
		{"Version", func(s *sidecarcontrol.Spec) { s.Version = "101" }, true},
		{"Revision", func(s *sidecarcontrol.Spec) { s.Revision = "mesh-2" }, true},
		{"Pin", func(s *sidecarcontrol.Spec) { s.Pin = &sidecarcontrol.Pin{Share: 1} }, true},
		{"Name", func(s *sidecarcontrol.Spec) { s.Name = "other" }, false},
		{"Hash", func(s *sidecarcontrol.Spec) { s.Hash = "h" }, false},
		{"how it is upgraded", func(s *sidecarcontrol.Spec) { s.Containers = []sidecarcontrol.Sidecar{side("proxy", hot)} }, false},
		{"a native sidecar", func(s *sidecarcontrol.Spec) { s.InitContainers = nil }, false},
		{"Annotations", func(s *sidecarcontrol.Spec) {
			s.Annotations = []sidecarcontrol.AnnotationPatch{{Annotations: map[string]string{"a": "b"}}}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other := base
			tc.change(&other)
			a, b := newSet(t, base), newSet(t, other)
			if got := [2]bool{a.Equal(b), b.Equal(a)}; got != [2]bool{tc.want, tc.want} {
				t.Errorf("got %v, want %v both ways", got, tc.want)
			}
		})
	}
	if newSet(t, base).Equal(nil) {
		t.Error("equals none")
	}
}

// TestSetIsACopy: later changes of the Spec do not change the Set.
func TestSetIsACopy(t *testing.T) {
	s := spec("one", "a")
	s.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	s.Volumes = []corev1.Volume{{Name: "v"}}
	s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	s.Annotations = []sidecarcontrol.AnnotationPatch{{Annotations: map[string]string{"x": "1"}}}
	set := newSet(t, s)
	want := inject(t, newPod("app"), set)
	s.Containers[0].Image, s.Containers[0].Name, s.Containers[0].Env[0].Value = "b:v2", "b", "2"
	s.Volumes[0].Name, s.Annotations[0].Annotations["x"] = "w", "2"
	if diff := cmp.Diff(want, inject(t, newPod("app"), set)); diff != "" {
		t.Errorf("injected afterwards (-want +got):\n%s", diff)
	}
}

// TestEnvFromFiles: a volume used only by env variables is injected, too.
func TestEnvFromFiles(t *testing.T) {
	s := spec("one", "a")
	s.Volumes = []corev1.Volume{{Name: "settings"}, {Name: "unused"}}
	s.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "settings", Path: "f", Key: "k"}}}}
	if pod := inject(t, newPod("app"), newSet(t, s)); len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].Name != "settings" {
		t.Errorf("volumes %v", pod.Spec.Volumes)
	}
}

// TestSharedPropagation: an unprivileged sidecar gets a mount with propagation Bidirectional as HostToContainer.
func TestSharedPropagation(t *testing.T) {
	for privileged, want := range map[bool]corev1.MountPropagationMode{false: corev1.MountPropagationHostToContainer, true: corev1.MountPropagationBidirectional} {
		s := spec("one", "a")
		s.Containers[0].ShareMounts = true
		s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		pod := newPod("app")
		both := corev1.MountPropagationBidirectional
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", MountPropagation: &both}}
		inject(t, pod, newSet(t, s))
		if got := *pod.Spec.Containers[0].VolumeMounts[0].MountPropagation; got != want || both != corev1.MountPropagationBidirectional {
			t.Errorf("privileged %v: %s, want %s", privileged, got, want)
		}
	}
}

// TestSharedVariables: in a shared mount, a path with env variables (subPathExpr) expands to the same value as in the
// application's container, even if the variables refer to other variables.
func TestSharedVariables(t *testing.T) {
	s := spec("one", "a")
	s.Containers[0].ShareMounts = true
	pod := newPod("app")
	app := &pod.Spec.Containers[0]
	app.Env = []corev1.EnvVar{
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "TEAM", Value: "x-$(POD)"},
		{Name: "OTHER", Value: "1"},
		{Name: "DIR", Value: "logs/$(TEAM)"},
		{Name: "LATER", Value: "$(DIR)"},
	}
	app.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: "$(DIR)/$(GONE)"}}
	inject(t, pod, newSet(t, s))
	var got []string
	for _, env := range pod.Spec.Containers[0].Env {
		got = append(got, env.Name)
	}
	if diff := cmp.Diff([]string{"IS_INJECTED", "POD", "TEAM", "DIR"}, got); diff != "" {
		t.Errorf("variables of the sidecar (-want +got):\n%s", diff)
	}
}
