package sidecarcontrol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// TestPlaces: each case has the positions of the sidecars among the Pod's own containers.
func TestPlaces(t *testing.T) {
	after := func(s *sidecarcontrol.Sidecar) { s.AfterApp = true }
	for _, tc := range []struct {
		name             string
		own, ownInit     []string
		sets             []sidecarcontrol.Spec
		want, wantOfInit []string
	}{
		{name: "SC-21 before and after", own: []string{"app"}, want: []string{"b", "app", "a"}, sets: []sidecarcontrol.Spec{
			{Name: "one", Containers: []sidecarcontrol.Sidecar{side("a", after), side("b")}},
		}},
		{
			name: "SC-23 sets by their names, sidecars as the set has them", own: []string{"app"}, want: []string{"z", "y", "a", "app"},
			sets: []sidecarcontrol.Spec{spec("two", "a"), spec("one", "z", "y")},
		},
		{
			name: "SC-20 a container of the name is replaced where it is", own: []string{"log", "app"}, want: []string{"b", "log", "app"},
			sets: []sidecarcontrol.Spec{spec("one", "log", "b")},
		},
		{
			name: "SC-22 init containers by name, behind the Pod's own", own: []string{"app"}, ownInit: []string{"setup"}, want: []string{"app"},
			wantOfInit: []string{"setup", "a", "b"}, sets: []sidecarcontrol.Spec{
				{Name: "one", InitContainers: []sidecarcontrol.Sidecar{side("b", after)}}, {Name: "two", InitContainers: []sidecarcontrol.Sidecar{side("a", after)}},
			},
		},
		{
			name: "SC-22 before the Pod's own", own: []string{"app"}, ownInit: []string{"setup"}, want: []string{"app"},
			wantOfInit: []string{"b", "setup"}, sets: []sidecarcontrol.Spec{{Name: "one", InitContainers: []sidecarcontrol.Sidecar{side("b")}}},
		},
		{name: "HU-1 a hot one twice", own: []string{"app"}, want: []string{"mesh-1", "mesh-2", "app"}, sets: []sidecarcontrol.Spec{
			{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}},
		}},
		{name: "SC-13 a paused set", own: []string{"app"}, want: []string{"app"}, sets: []sidecarcontrol.Spec{{Name: "one", Paused: true, Containers: []sidecarcontrol.Sidecar{side("a")}}}},
		{name: "SC-81 a set that another replaces", own: []string{"app"}, want: []string{"new", "app"}, sets: []sidecarcontrol.Spec{
			spec("base", "old"), {Name: "canary", Replaces: "base", Containers: []sidecarcontrol.Sidecar{side("new")}},
		}},
		{name: "SC-81 a paused one replaces nothing", own: []string{"app"}, want: []string{"old", "app"}, sets: []sidecarcontrol.Spec{
			spec("base", "old"), {Name: "canary", Replaces: "base", Paused: true, Containers: []sidecarcontrol.Sidecar{side("new")}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(tc.own...)
			for _, name := range tc.ownInit {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name})
			}
			var sets []*sidecarcontrol.Set
			for _, s := range tc.sets {
				sets = append(sets, newSet(t, s))
			}
			inject(t, pod, sets...)
			if diff := cmp.Diff(tc.want, names(pod.Spec.Containers)); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOfInit, names(pod.Spec.InitContainers)); diff != "" {
				t.Errorf("init containers (-want +got):\n%s", diff)
			}
		})
	}
}

func hot(s *sidecarcontrol.Sidecar) { s.Hot = &sidecarcontrol.Hot{EmptyImage: "empty:v1"} }

func sleeps(seconds int64) func(*sidecarcontrol.Sidecar) {
	return func(s *sidecarcontrol.Sidecar) {
		s.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
	}
}

// asks returns the sidecar with the given CPU request and CPU limit; an empty text adds none.
func asks(s sidecarcontrol.Sidecar, request, limit string) sidecarcontrol.Sidecar {
	for list, value := range map[*corev1.ResourceList]string{&s.Resources.Requests: request, &s.Resources.Limits: limit} {
		if value != "" {
			*list = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(value)}
		}
	}
	return s
}

func asking(set, request, limit string) sidecarcontrol.Spec {
	return sidecarcontrol.Spec{Name: set, Containers: []sidecarcontrol.Sidecar{asks(side("side"), request, limit)}}
}

// whole sets the Pod-level CPU limit or request (spec.resources); list says which. The Pod's own container requests
// 50m.
func whole(list, cpu string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
		if pod.Spec.Resources = (&corev1.ResourceRequirements{Limits: has}); list == "requests" {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: has}
		}
	}
}

func TestSortContainers(t *testing.T) {
	c, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: keys(), SortContainers: true})
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod("m")
	if _, err := c.Inject(pod, []*sidecarcontrol.Set{newSet(t, spec("one", "z", "b")), newSet(t, spec("two", "a"))}, sidecarcontrol.Facts{Now: now}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "z", "m"}, names(pod.Spec.Containers)); diff != "" {
		t.Errorf("SC-23 containers (-want +got):\n%s", diff)
	}
}

// TestContainer: sidecar "side" gets mounts, devices and env from the Pod's own container "app".
func TestContainer(t *testing.T) {
	env := func(pairs ...string) (out []corev1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	mount := func(volume, path string) corev1.VolumeMount { return corev1.VolumeMount{Name: volume, MountPath: path} }
	device := func(volume, path string) corev1.VolumeDevice {
		return corev1.VolumeDevice{Name: volume, DevicePath: path}
	}
	transfer := func(from sidecarcontrol.TransferEnv, names ...string) func(*sidecarcontrol.Sidecar) {
		return func(s *sidecarcontrol.Sidecar) {
			from.Names = names
			s.TransferEnv = append(s.TransferEnv, from)
		}
	}
	share := func(s *sidecarcontrol.Sidecar) { s.ShareMounts, s.ShareDevices = true, true }
	for _, tc := range []struct {
		name string
		side func(*sidecarcontrol.Sidecar)
		pod  func(*corev1.Pod)
		want corev1.Container
	}{
		{
			name: "SC-17 the mark, behind its own env", side: func(s *sidecarcontrol.Sidecar) { s.Env = env("A", "1") },
			want: corev1.Container{Env: env("A", "1", "IS_INJECTED", "true")},
		},
		{
			name: "SC-18 the first of a name stays", side: func(s *sidecarcontrol.Sidecar) {
				s.Env = env("A", "1", "A", "2")
				transfer(sidecarcontrol.TransferEnv{Container: "app"}, "A", "B")(s)
			}, pod: func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = env("A", "3", "B", "4") },
			want: corev1.Container{Env: env("A", "1", "IS_INJECTED", "true", "B", "4")},
		},
		{
			name: "SC-28 by label, sorted, missing ones left out", side: transfer(sidecarcontrol.TransferEnv{Container: "none", ContainerFrom: "metadata.labels['biz']"}, "B", "A", "C", "A"),
			pod: func(pod *corev1.Pod) {
				pod.Labels["biz"] = "app"
				pod.Spec.Containers[0].Env = env("B", "2", "A", "1")
			}, want: corev1.Container{Env: env("IS_INJECTED", "true", "A", "1", "B", "2")},
		},
		{
			name: "SC-28 with what a value refers to, before it", side: transfer(sidecarcontrol.TransferEnv{Container: "app"}, "A", "D"),
			pod: func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Env = env("X", "$(A)", "Y", "y", "B", "$(Y)/$(NONE)", "A", "$(B)-$(Z)", "Z", "z", "D", "$$(X) $(A) $ $(")
			},
			want: corev1.Container{Env: env("IS_INJECTED", "true", "Y", "y", "B", "$(Y)/$(NONE)", "A", "$(B)-$(Z)", "D", "$$(X) $(A) $ $(")},
		},
		{
			name: "SC-28 and the sidecar's own goes before that", side: func(s *sidecarcontrol.Sidecar) {
				s.Env = env("X", "own")
				transfer(sidecarcontrol.TransferEnv{Container: "app"}, "A")(s)
			},
			pod:  func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = env("X", "x", "A", "$(X)") },
			want: corev1.Container{Env: env("X", "own", "IS_INJECTED", "true", "A", "$(X)")},
		},
		{
			name: "SC-28 by annotation", side: transfer(sidecarcontrol.TransferEnv{ContainerFrom: "metadata.annotations['biz']"}, "A"),
			pod: func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{"biz": "app"}
				pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
			}, want: corev1.Container{Env: append(env("IS_INJECTED", "true"),
				corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}})},
		},
		{
			name: "SC-28 from a container that is not there", side: transfer(sidecarcontrol.TransferEnv{Container: "none"}, "A"),
			want: corev1.Container{Env: env("IS_INJECTED", "true")},
		},
		{
			name: "SC-28 not from init containers", side: transfer(sidecarcontrol.TransferEnv{Container: "init"}, "A"),
			pod: func(pod *corev1.Pod) {
				pod.Spec.InitContainers = []corev1.Container{{Name: "init", Env: env("A", "1")}}
			},
			want: corev1.Container{Env: env("IS_INJECTED", "true")},
		},
		{name: "SC-19 shared mounts and devices, but for paths and volumes that are taken", side: func(s *sidecarcontrol.Sidecar) {
			share(s)
			s.VolumeMounts, s.VolumeDevices = []corev1.VolumeMount{mount("own", "/a")}, []corev1.VolumeDevice{device("disk", "/dev/a")}
		}, pod: func(pod *corev1.Pod) {
			app := &pod.Spec.Containers[0]
			app.VolumeMounts = []corev1.VolumeMount{mount("x", "/a"), mount("x", "/dev/a"), mount("x", "/b"), mount("disk", "/d")}
			app.VolumeDevices = []corev1.VolumeDevice{
				device("d", "/dev/a"), device("e", "/b"), device("f", "/dev/c"), device("f", "/dev/d"), device("x", "/dev/x"), device("disk", "/dev/e"),
			}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "two", VolumeMounts: []corev1.VolumeMount{mount("y", "/b"), mount("y", "/c")}})
		}, want: corev1.Container{
			Env: env("IS_INJECTED", "true"), VolumeMounts: []corev1.VolumeMount{mount("own", "/a"), mount("x", "/b"), mount("y", "/c")},
			VolumeDevices: []corev1.VolumeDevice{device("disk", "/dev/a"), device("f", "/dev/c")},
		}},
		{name: "SC-26 not of init containers, not of injected ones", side: share, pod: func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: []corev1.VolumeMount{mount("x", "/a")}}}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name: "two", Env: env("IS_INJECTED", "true"), VolumeMounts: []corev1.VolumeMount{mount("x", "/b")},
			})
		}, want: corev1.Container{Env: env("IS_INJECTED", "true")}},
		{name: "SC-27 the env that a shared mount expands", side: share, pod: func(pod *corev1.Pod) {
			app := &pod.Spec.Containers[0]
			app.Env = env("POD", "p", "X.y", "z", "Q", "q")
			app.VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: "/a", SubPathExpr: "$(POD)/$(X.y)/$(NONE)/$(0bad)"}}
		}, want: corev1.Container{
			Env:          env("IS_INJECTED", "true", "POD", "p", "X.y", "z"),
			VolumeMounts: []corev1.VolumeMount{{Name: "x", MountPath: "/a", SubPathExpr: "$(POD)/$(X.y)/$(NONE)/$(0bad)"}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("app")
			if tc.pod != nil {
				tc.pod(pod)
			}
			set := newSet(t, sidecarcontrol.Spec{Name: "one", Containers: []sidecarcontrol.Sidecar{side("side", tc.side)}})
			inject(t, pod, set)
			tc.want.Name, tc.want.Image = "side", "side:v1"
			if diff := cmp.Diff(tc.want, pod.Spec.Containers[0]); diff != "" {
				t.Errorf("container (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyMounts: a Pod may have thousands of mounts, each with an env variable in its path, and all mounts are shared.
func TestManyMounts(t *testing.T) {
	const n = 20_000
	pod := newPod("app")
	app := &pod.Spec.Containers[0]
	for i := range n {
		name := fmt.Sprintf("N%d", i)
		app.Env = append(app.Env, corev1.EnvVar{Name: name, Value: "x"})
		app.VolumeMounts = append(app.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/" + name, SubPathExpr: "a/$(" + name + ")"})
		app.VolumeDevices = append(app.VolumeDevices, corev1.VolumeDevice{Name: name, DevicePath: "/dev/" + name})
	}
	s := spec("one", "side")
	s.Containers[0].ShareMounts, s.Containers[0].ShareDevices = true, true
	if _, err := newControl(t).Inject(pod, []*sidecarcontrol.Set{newSet(t, s)}, sidecarcontrol.Facts{Now: now}); err != nil {
		t.Fatal(err)
	}
	side := podstate.Container(pod, "side")
	if got := []int{len(side.VolumeMounts), len(side.VolumeDevices), len(side.Env)}; !slices.Equal(got, []int{n, n, n + 1}) {
		t.Errorf("mounts, devices and env: %v", got)
	}
}

// TestVolumesAndSecrets: an injection adds the volumes and pull secrets that sidecars need.
func TestVolumesAndSecrets(t *testing.T) {
	volume := func(name, path string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
	}
	mounting := func(names ...string) sidecarcontrol.Sidecar {
		return side(strings.Join(names, "-"), func(s *sidecarcontrol.Sidecar) {
			for _, name := range names {
				s.VolumeMounts = append(s.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
			}
		})
	}
	pod := newPod("app")
	pod.Spec.Volumes = []corev1.Volume{volume("a", "/own")}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}}
	inject(t, pod,
		newSet(t, sidecarcontrol.Spec{
			Name: "one", Containers: []sidecarcontrol.Sidecar{mounting("a", "b")}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "y"}, {Name: "x"}},
			Volumes: []corev1.Volume{volume("a", "/other"), volume("b", "/b"), volume("unused", "/u")},
		}),
		newSet(t, sidecarcontrol.Spec{
			Name: "two", Containers: []sidecarcontrol.Sidecar{mounting("b")}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "y"}, {Name: "z"}},
			Volumes: []corev1.Volume{volume("b", "/b")},
		}))
	want := corev1.PodSpec{
		Volumes:          []corev1.Volume{volume("a", "/own"), volume("b", "/b")},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "x"}, {Name: "y"}, {Name: "z"}},
	}
	if diff := cmp.Diff(want, corev1.PodSpec{Volumes: pod.Spec.Volumes, ImagePullSecrets: pod.Spec.ImagePullSecrets}); diff != "" {
		t.Errorf("SC-24 SC-25 (-want +got):\n%s", diff)
	}
}

// TestRecords: an injection records the sidecars in the Pod's annotations.
func TestRecords(t *testing.T) {
	one := spec("one", "b", "a")
	one.InitContainers = []sidecarcontrol.Sidecar{native("n"), side("plain")}
	one.Hash, one.HashWithoutImages, one.Revision = "h1", "w1", "one-1"
	two := spec("two", "c")
	two.Hash, two.HashWithoutImages = "h2", "w2"
	pod := newPod("app")
	pod.Annotations = map[string]string{hashKey: `{"gone":{"hash":"x","more":1}}`, plainKey: `{"old":"hash"}`, injectedKey: "zero,one"}
	inject(t, pod, newSet(t, two), newSet(t, one))
	const at = `{"updateTimestamp":"2026-07-01T10:00:00Z",`
	want := map[string]string{
		hashKey: `{"gone":{"hash":"x","more":1},"one":` + at + `"hash":"h1","sidecarSetName":"one","sidecarList":["a","b","n"],"controllerRevision":"one-1"},` +
			`"two":` + at + `"hash":"h2","sidecarSetName":"two","sidecarList":["c"]}}`,
		plainKey: `{"old":"hash","one":` + at + `"hash":"w1","sidecarSetName":"one","sidecarList":["a","b","n"]},` +
			`"two":` + at + `"hash":"w2","sidecarSetName":"two","sidecarList":["c"]}}`,
		injectedKey: "one,two,zero",
	}
	if diff := cmp.Diff(want, pod.Annotations); diff != "" {
		t.Errorf("SC-16 SC-40 annotations (-want +got):\n%s", diff)
	}
}

func TestHotAnnotations(t *testing.T) {
	pod := inject(t, newPod("app"), newSet(t, sidecarcontrol.Spec{Name: "one", Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}}))
	got := map[string]string{}
	for key, value := range pod.Annotations {
		if key == workingKey || strings.HasPrefix(key, "version") {
			got[key] = value
		}
	}
	want := map[string]string{
		versionKey + "mesh-1": "1", altKey + "mesh-1": "0", versionKey + "mesh-2": "0", altKey + "mesh-2": "1", workingKey: `{"mesh":"mesh-1"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("HU-2 annotations (-want +got):\n%s", diff)
	}
	ref := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + key + "']"}}}
	}
	containers := []corev1.Container{
		{Name: "mesh-1", Image: "mesh:v1", Env: []corev1.EnvVar{{Name: "IS_INJECTED", Value: "true"}, ref("VERSION", versionKey+"mesh-1"), ref("VERSION_ALT", altKey+"mesh-1")}},
		{Name: "mesh-2", Image: "empty:v1", Env: []corev1.EnvVar{{Name: "IS_INJECTED", Value: "true"}, ref("VERSION", versionKey+"mesh-2"), ref("VERSION_ALT", altKey+"mesh-2")}},
	}
	if diff := cmp.Diff(containers, pod.Spec.Containers[:2]); diff != "" {
		t.Errorf("HU-1 HU-3 containers (-want +got):\n%s", diff)
	}
}

func TestAnnotationPatches(t *testing.T) {
	for _, tc := range []struct {
		name, was, value, want string
		policy                 sidecarcontrol.PatchPolicy
		err                    bool
	}{
		{name: "SC-54 retain", was: "a", value: "b", want: "a"},
		{name: "SC-54 retain, absent", value: "b", want: "b", policy: sidecarcontrol.Retain},
		{name: "SC-54 overwrite", was: "a", value: "b", want: "b", policy: sidecarcontrol.Overwrite},
		{name: "SC-54 merge", was: `{"log":1}`, value: `{"mesh":2}`, want: `{"log":1,"mesh":2}`, policy: sidecarcontrol.MergePatchJSON},
		{name: "SC-54 merge, absent", value: `{"mesh":2}`, want: `{"mesh":2}`, policy: sidecarcontrol.MergePatchJSON},
		{name: "SC-54 merge into what is no JSON", was: `{`, value: `{"mesh":2}`, policy: sidecarcontrol.MergePatchJSON, err: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("app")
			if tc.was != "" {
				pod.Annotations = map[string]string{"oom-score": tc.was}
			}
			s := spec("one", "a")
			s.Annotations = []sidecarcontrol.AnnotationPatch{{Annotations: map[string]string{"oom-score": tc.value}, Policy: tc.policy}}
			_, err := newControl(t).Inject(pod, []*sidecarcontrol.Set{newSet(t, s)}, sidecarcontrol.Facts{Now: now})
			if tc.err {
				if !errors.Is(err, sidecarcontrol.InvalidPatch) || len(pod.Spec.Containers) != 1 {
					t.Errorf("error %v, containers %v", err, names(pod.Spec.Containers))
				}
				return
			}
			if err != nil || pod.Annotations["oom-score"] != tc.want {
				t.Errorf("got %q (%v), want %q", pod.Annotations["oom-score"], err, tc.want)
			}
		})
	}
}

// TestRefused: a Pod gets all sidecars or none.
func TestRefused(t *testing.T) {
	port := func(host, own int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: host, ContainerPort: own, Protocol: corev1.ProtocolTCP}}
		}
	}
	onHost := func(edit func(*corev1.Pod)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { edit(pod); pod.Spec.HostNetwork = true }
	}
	ports := func(host, own int32, edits ...func(*sidecarcontrol.Sidecar)) sidecarcontrol.Sidecar {
		return side("side", append(edits, func(s *sidecarcontrol.Sidecar) {
			s.Ports = []corev1.ContainerPort{{HostPort: host, ContainerPort: own}}
		})...)
	}
	volumes := func(name, path string) sidecarcontrol.Spec {
		s := sidecarcontrol.Spec{Name: name, Containers: []sidecarcontrol.Sidecar{side(name, func(s *sidecarcontrol.Sidecar) {
			s.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		})}}
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}}
		return s
	}
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		sets []sidecarcontrol.Spec
		want string
	}{
		{
			name: "two sets with a container of one name", sets: []sidecarcontrol.Spec{spec("one", "a"), spec("two", "a")},
			want: "SetsConflict spec.containers[a]",
		},
		{
			name: "two sets with different volumes of one name", sets: []sidecarcontrol.Spec{volumes("one", "/a"), volumes("two", "/b")},
			want: "SetsConflict spec.volumes[v]",
		},
		{
			name: "a hot sidecar beside one of its name", sets: []sidecarcontrol.Spec{spec("one", "mesh-1"), {Name: "two", Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}}},
			want: "SetsConflict spec.containers[mesh-1]",
		},
		{
			name: "an init container of the name", pod: func(pod *corev1.Pod) { pod.Spec.InitContainers = []corev1.Container{{Name: "a"}} },
			sets: []sidecarcontrol.Spec{spec("one", "a")}, want: "NameTaken spec.containers[a]",
		},
		{
			name: "SC-16 a record that is no JSON", pod: func(pod *corev1.Pod) { pod.Annotations = map[string]string{hashKey: "{"} },
			sets: []sidecarcontrol.Spec{spec("one", "a")}, want: "UnreadableRecord metadata.annotations[" + hashKey + "]",
		},
		{
			name: "a host port of the Pod", pod: port(8080, 80), sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{ports(8080, 90)}}},
			want: "HostPortTaken spec.containers[app].ports[0]",
		},
		{
			name: "a port of a Pod in its Node's network", pod: onHost(port(0, 80)), sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{ports(0, 80)}}},
			want: "HostPortTaken spec.containers[app].ports[0]",
		},
		{
			name: "another host port there", pod: onHost(func(*corev1.Pod) {}), sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{ports(8080, 80)}}},
			want: "HostPortTaken spec.containers[side].ports[0]",
		},
		{
			name: "a host port of both of a hot sidecar", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{ports(8080, 80, hot)}}},
			want: "HostPortTaken spec.containers[side-2].ports[0]",
		},
		{
			name: "a device of a volume that the Pod has as something else", pod: func(pod *corev1.Pod) { pod.Spec.Volumes = []corev1.Volume{{Name: "v"}} },
			sets: []sidecarcontrol.Spec{{
				Name: "one", Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
				Containers: []sidecarcontrol.Sidecar{side("side", func(s *sidecarcontrol.Sidecar) {
					s.VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/a"}}
				})},
			}},
			want: "NoDevice spec.volumes[v]",
		},
		{
			name: "a longer sleep than the grace period", pod: func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10) },
			sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("side", sleeps(15))}}},
			want: "PodForbids spec.terminationGracePeriodSeconds",
		},
		{
			name: "a longer sleep than the usual grace period", sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("side", sleeps(31))}}},
			want: "PodForbids spec.terminationGracePeriodSeconds",
		},
		{
			name: "a resize that restarts, in a Pod that never does", pod: func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever },
			sets: []sidecarcontrol.Spec{{Name: "one", Containers: []sidecarcontrol.Sidecar{side("side", func(s *sidecarcontrol.Sidecar) {
				s.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
			})}}},
			want: "PodForbids spec.restartPolicy",
		},
		{
			name: "more requests than the Pod has as a whole", pod: whole("requests", "150m"), sets: []sidecarcontrol.Spec{asking("one", "110m", "")},
			want: "PodResourcesExceeded spec.resources.requests[cpu]",
		},
		{
			name: "limits count where there are no requests", pod: whole("requests", "150m"), sets: []sidecarcontrol.Spec{asking("one", "", "110m")},
			want: "PodResourcesExceeded spec.resources.requests[cpu]",
		},
		{
			name: "an init container counts with the native sidecars before it", pod: whole("requests", "150m"),
			sets: []sidecarcontrol.Spec{{Name: "one", InitContainers: []sidecarcontrol.Sidecar{asks(native("n"), "60m", ""), asks(side("setup"), "100m", "")}}},
			want: "PodResourcesExceeded spec.resources.requests[cpu]",
		},
		{
			name: "a limit above that of the Pod as a whole", pod: whole("limits", "1"), sets: []sidecarcontrol.Spec{asking("one", "10m", "1100m")},
			want: "PodResourcesExceeded spec.resources.limits[cpu]",
		},
		{name: "SR-8 a pinned version that is gone", sets: []sidecarcontrol.Spec{{Name: "one", Pin: &sidecarcontrol.Pin{Share: 1}}}, want: "PinnedSetMissing "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("app")
			if tc.pod != nil {
				tc.pod(pod)
			}
			before := pod.DeepCopy()
			var sets []*sidecarcontrol.Set
			for _, s := range tc.sets {
				sets = append(sets, newSet(t, s))
			}
			_, err := newControl(t).Inject(pod, sets, sidecarcontrol.Facts{Now: now})
			var got string
			for _, why := range reason.From(err) {
				got = string(why.Code) + " " + why.Path
			}
			if got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the Pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestPins: each case has the expected fraction of Pods, out of 2,000, that get the pinned version of a set.
func TestPins(t *testing.T) {
	old := newSet(t, spec("one", "old"))
	for _, tc := range []struct {
		name string
		pin  sidecarcontrol.Pin
		pod  string
		low  int
		high int
	}{
		{"SR-9 always", sidecarcontrol.Pin{Set: old, Share: 1}, "canary", 2000, 2000},
		{"SR-10 nine of ten", sidecarcontrol.Pin{Set: old, Share: 0.9}, "canary", 1740, 1860},
		{"SR-10 a partition that is a number", sidecarcontrol.Pin{Set: old}, "canary", 0, 0},
		{"SR-11 selected for the newest", sidecarcontrol.Pin{Set: old, Selector: selector("version", "canary")}, "canary", 0, 0},
		{"SR-11 not selected", sidecarcontrol.Pin{Set: old, Selector: selector("version", "canary")}, "stable", 2000, 2000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := spec("one", "new")
			s.Pin = &tc.pin
			set, pinned := newSet(t, s), 0
			for i := range 2000 {
				pod := newPod("app")
				pod.Labels["version"] = tc.pod
				if _, err := newControl(t).Inject(pod, []*sidecarcontrol.Set{set}, sidecarcontrol.Facts{Now: now, Seed: uint64(i)}); err != nil {
					t.Fatal(err)
				}
				if pod.Spec.Containers[0].Name == "old" {
					pinned++
				}
			}
			if pinned < tc.low || pinned > tc.high {
				t.Errorf("%d Pods got the pinned version, want %d to %d", pinned, tc.low, tc.high)
			}
		})
	}
}

// TestNotInjected: each case is a Pod that gets no sidecars.
func TestNotInjected(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*corev1.Pod)
	}{
		{"SC-10 ended", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }},
		{"SC-10 being deleted", func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("app")
			tc.edit(pod)
			before := pod.DeepCopy()
			inject(t, pod, newSet(t, spec("one", "a")))
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
	pod := newPod("app")
	before := pod.DeepCopy()
	if inject(t, pod); !cmp.Equal(before, pod) {
		t.Error("SC-15 a Pod that no set matches was changed")
	}
}

// TestReplaced: a sidecar replaces a container of the same name, and Replaced returns the container's path.
func TestReplaced(t *testing.T) {
	s := spec("one", "a", "b")
	s.InitContainers = []sidecarcontrol.Sidecar{{Container: corev1.Container{Name: "setup", Image: "setup:v1"}}, {Container: corev1.Container{Name: "other", Image: "setup:v1"}}}
	c, set := newControl(t), newSet(t, s)
	pod := newPod("app", "a")
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "own:v1"}, {Name: "own", Image: "own:v1"}}
	once := pod.DeepCopy()
	inject(t, once, set)
	if diff := cmp.Diff([]string{"spec.initContainers[setup]", "spec.containers[a]"}, c.Replaced(pod, once)); diff != "" {
		t.Errorf("SC-20 (-want +got):\n%s", diff)
	}
	twice := once.DeepCopy()
	if inject(t, twice, set); len(c.Replaced(once, twice)) > 0 {
		t.Errorf("SC-20 sidecars that were there: %v", c.Replaced(once, twice))
	}
}

// TestZeroValues: zero values are refused or have no effect.
func TestZeroValues(t *testing.T) {
	c, set, pod := newControl(t), newSet(t, spec("one", "a")), newPod("app")
	for want, inject := range map[reason.Code]func() ([]*sidecarcontrol.Set, error){
		sidecarcontrol.InvalidConfig: func() ([]*sidecarcontrol.Set, error) {
			return (&sidecarcontrol.Control{}).Inject(pod, []*sidecarcontrol.Set{set}, sidecarcontrol.Facts{})
		},
		sidecarcontrol.InvalidSet: func() ([]*sidecarcontrol.Set, error) {
			return c.Inject(pod, []*sidecarcontrol.Set{{}}, sidecarcontrol.Facts{})
		},
	} {
		before := pod.DeepCopy()
		if _, err := inject(); !errors.Is(err, want) || !cmp.Equal(before, pod) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if s := (&sidecarcontrol.Control{}).Read(pod, set, now); s.Injected {
		t.Error("a Control without names finds sidecars")
	}
	if (&sidecarcontrol.Set{}).Matches(pod.Labels, nil) {
		t.Error("a set without a selector matches")
	}
	var x sidecarcontrol.Index
	x.Put(&sidecarcontrol.Set{})
	if x.Delete("one"); x.Len() != 0 || len(x.Match(pod, nil)) != 0 {
		t.Error("something is in an empty index")
	}
	if x.Put(set); x.Len() != 1 {
		t.Error("a set is not in the index that it was put into")
	}
}

// TestHash compares HashOf with hashes written by OpenKruise.
func TestHash(t *testing.T) {
	const input = `{"containers":[{"name":"container1","image":"test-image","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}`
	if got, want := sidecarcontrol.HashOf([]byte(input)), "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78"; got != want {
		t.Errorf("SC-72 hash %s, want %s", got, want)
	}
	one, image, env := spec("one", "a"), spec("one", "a"), spec("one", "a")
	image.Containers[0].Image, env.Containers[0].Env = "a:v2", []corev1.EnvVar{{Name: "A"}}
	hashes := func(s sidecarcontrol.Spec) [2]string {
		raw := newSet(t, s)
		pod := inject(t, newPod("app"), raw)
		var plain map[string]struct{ Hash string }
		if err := json.Unmarshal([]byte(pod.Annotations[plainKey]), &plain); err != nil {
			t.Fatal(err)
		}
		return [2]string{raw.Hash(), plain["one"].Hash}
	}
	a, b, c := hashes(one), hashes(image), hashes(env)
	if a[0] == b[0] || a[1] != b[1] || a[0] == c[0] || a[1] == c[1] {
		t.Errorf("SC-71 hashes %v, of another image %v, of another env %v", a, b, c)
	}
}
