package inplaceupdate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
)

// kubeletHash is a second implementation of the kubelet's hash: FNV-32a over the kubelet's printed form of the JSON
// bytes: a list of numbers after the type.
func kubeletHash(t testing.TB, v any) uint64 {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "([]uint8)%v", raw)
	return uint64(h.Sum32())
}

// TestKubeletHash compares kubeletHash with a value from the kubelet's own tests (Kubernetes 1.36,
// TestHashContainer).
func TestKubeletHash(t *testing.T) {
	got := kubeletHash(t, map[string]string{"name": "test_container", "image": "foo/image:v1"})
	if got != 0x8e45cbd0 {
		t.Errorf("hash %#x, want 0x8e45cbd0", got)
	}
}

// agentEntry is an entry of a node agent's report.
type agentEntry struct {
	Name         string `json:"name"`
	ContainerID  string `json:"containerID"`
	RestartCount int32  `json:"restartCount"`
	CreatedAt    int64  `json:"createdAt,omitempty"`
	Hashes       struct {
		Plain uint64 `json:"plainHash"`
		Env   uint64 `json:"extractedEnvFromMetadataHash"`
	} `json:"hashes"`
}

// observe returns the entry for a container running with its present spec and metadata.
func observe(t testing.TB, pod *corev1.Pod, name string) agentEntry {
	t.Helper()
	c := podstate.Container(pod, name)
	r := agentEntry{Name: name, ContainerID: podstate.ContainerStatus(pod, name).ContainerID}
	r.Hashes.Plain = kubeletHash(t, map[string]string{"name": c.Name, "image": c.Image})
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value,omitempty"`
	}
	var env []pair
	for _, e := range c.Env {
		if e.Value != "" || e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		kind, key, ok := strings.Cut(strings.TrimSuffix(e.ValueFrom.FieldRef.FieldPath, "']"), "['")
		if ok {
			env = append(env, pair{e.Name, map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations}[kind][key]})
		}
	}
	slices.SortFunc(env, func(a, b pair) int { return strings.Compare(a.Name, b.Name) })
	r.Hashes.Env = kubeletHash(t, env)
	return r
}

// report writes the annotation in which the node agent reports all containers; edits change the reported entries.
func report(t testing.TB, pod *corev1.Pod, edits ...func([]agentEntry) []agentEntry) {
	t.Helper()
	var all []agentEntry
	for i := range pod.Spec.Containers {
		all = append(all, observe(t, pod, pod.Spec.Containers[i].Name))
	}
	for _, edit := range edits {
		all = edit(all)
	}
	raw, err := json.Marshal(map[string]any{"containers": all})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[metaKey] = string(raw)
}

// oldStatus sets the Pod's status to the report of a node that still runs the instance from before the update, and
// closes the gate.
func oldStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for _, condition := range []corev1.PodConditionType{gate, corev1.PodReady} {
		podstate.Condition(pod, condition).Status = corev1.ConditionFalse
	}
	status := &pod.Status.ContainerStatuses[0]
	status.ImageID, status.Image = "sha256:1", "app:v1"
	return status
}

// early0 is the creation time of the next instance, in seconds since 1970.
const early0 = 1_782_900_000

// early makes the agent report an instance newer than the instance in the given status.
func early(reported *corev1.ContainerStatus) func([]agentEntry) []agentEntry {
	return func(r []agentEntry) []agentEntry {
		r[0].ContainerID, r[0].RestartCount, r[0].CreatedAt = "next", reported.RestartCount+1, early0
		return r
	}
}

const stateHead = `{"revision":"2","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":`

// TestCompletionOfImages: the Pod's spec has app:v2. The state annotation says that container app ran sha256:1 before
// the update.
func TestCompletionOfImages(t *testing.T) {
	wrongPlain := func(r []agentEntry) []agentEntry { r[0].Hashes.Plain++; return r }
	for _, tc := range []struct {
		name string
		edit func(*testing.T, *corev1.Pod)
		want []string
	}{
		{"U-23 another image ID", func(_ *testing.T, pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Image = "sha256:2" }, nil},
		{"U-23 the old image ID", func(_ *testing.T, pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "sha256:1", "app:v1"
		}, []string{"ImageNotRunning"}},
		{"U-24 another tag of the same image", func(_ *testing.T, pod *corev1.Pod) { pod.Status.ContainerStatuses[0].ImageID = "sha256:1" }, nil},
		{"U-23 no image ID yet", func(_ *testing.T, pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "", "app:v1"
		}, []string{"ImageNotRunning"}},
		{"U-23 no status", func(_ *testing.T, pod *corev1.Pod) { pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[1:] }, []string{"ImageNotRunning"}},
		{"U-23 others do not count", func(_ *testing.T, pod *corev1.Pod) { pod.Status.ContainerStatuses[1].ImageID = "" }, nil},
		{"U-23 the agent confirms all plain hashes", func(t *testing.T, pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "sha256:1", "other"
			report(t, pod)
		}, nil},
		{"U-23 the agent confirms the hash of kubelets before 1.31", func(t *testing.T, pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "sha256:1", "other"
			report(t, pod, func(r []agentEntry) []agentEntry {
				r[0].Hashes.Plain = kubeletHash(t, pod.Spec.Containers[0])
				return r
			})
		}, nil},
		{"U-23 the agent reports another hash: the status decides", func(t *testing.T, pod *corev1.Pod) { report(t, pod, wrongPlain) }, nil},
		{"the agent has seen the new instance, the node has not", func(t *testing.T, pod *corev1.Pod) { report(t, pod, early(oldStatus(pod))) }, nil},
		{"the agent has seen an instance of an earlier image", func(t *testing.T, pod *corev1.Pod) { report(t, pod, early(oldStatus(pod)), wrongPlain) }, []string{"ImageNotRunning"}},
		{"the agent has not seen another container run its spec", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, early(oldStatus(pod)), func(r []agentEntry) []agentEntry { r[1].Hashes.Plain++; return r })
		}, []string{"ImageNotRunning"}},
		{"the agent has seen the new instance in an earlier life of the runtime", func(t *testing.T, pod *corev1.Pod) {
			state := &oldStatus(pod).State
			state.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(early0+1, 0))}
			report(t, pod, early(&pod.Status.ContainerStatuses[0]))
		}, []string{"ImageNotRunning"}},
		{"the agent has seen the new instance, the node has not seen the spec", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, early(oldStatus(pod)))
			pod.Generation, pod.Status.ObservedGeneration = 2, 1
		}, []string{"NotObserved", "ImageNotRunning"}},
		{"the agent has seen the new instance, on a node that does not report generations", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, early(oldStatus(pod)))
			pod.Status.ObservedGeneration = 0
		}, []string{"ImageNotRunning"}},
		{"the agent has seen the new instance, which has a startup probe", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, early(oldStatus(pod)))
			pod.Spec.Containers[0].StartupProbe = &corev1.Probe{PeriodSeconds: 10}
		}, []string{"ImageNotRunning"}},
		{"the agent has seen the new instance, and the Pod is ready with the old one", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, early(oldStatus(pod)))
			podstate.Condition(pod, corev1.PodReady).Status = corev1.ConditionTrue
		}, []string{"ImageNotRunning"}},
		{"the agent has seen the new instance of a Pod without the gate", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, early(oldStatus(pod)))
			pod.Spec.ReadinessGates = nil
		}, []string{"ImageNotRunning"}},
		{"U-23 neither agent nor status", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, wrongPlain)
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "sha256:1", "app:v1"
		}, []string{"ImageNotRunning"}},
		{"U-23 the agent reports another instance", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, func(r []agentEntry) []agentEntry { r[0].ContainerID = "containerd://gone"; return r })
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "sha256:1", "app:v1"
		}, []string{"ImageNotRunning"}},
		{"U-23 an unreadable report is none", func(_ *testing.T, pod *corev1.Pod) { pod.Annotations[metaKey] = "{" }, nil},
		{"the node has not seen the new spec", func(_ *testing.T, pod *corev1.Pod) { pod.Generation++ }, []string{"NotObserved"}},
		{"a node that does not report generations", func(_ *testing.T, pod *corev1.Pod) {
			pod.Generation++
			pod.Status.ObservedGeneration = 0
		}, nil},
		{"U-22 grace annotation", func(_ *testing.T, pod *corev1.Pod) { pod.Annotations[graceKey] = `{"revision":"2","graceSeconds":60}` }, []string{"GracePeriodRunning"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate(image("app", "app:v2")))
			pod.Annotations[stateKey] = stateHead + `{"app":{"imageID":"sha256:1"}},"updateImages":true}`
			tc.edit(t, pod)
			step := mustNext(t, newUpdater(), pod, now)
			if diff := cmp.Diff(tc.want, codes(step.Waiting)); diff != "" || step.Complete != (tc.want == nil) {
				t.Errorf("waiting (-want +got), complete %v:\n%s", step.Complete, diff)
			}
		})
	}
}

func TestLatestIsMeantWithoutATag(t *testing.T) {
	for _, tc := range []struct {
		name, spec, runs string
		want             bool
	}{
		{"U-23 no tag", "app", "app:latest", true},
		{"U-23 no tag, something else runs", "app", "app", false},
		{"U-25 [BUG] a registry's port is no tag", "registry:5000/app", "registry:5000/app:latest", true},
		{"U-25 registry's port and tag", "registry:5000/app:v2", "registry:5000/app:v2", true},
		{"a digest is complete", "app@sha256:abc", "app@sha256:abc", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate(image("app", tc.spec)))
			pod.Annotations[stateKey] = stateHead + `{"app":{"imageID":"sha256:1"}},"updateImages":true}`
			pod.Status.ContainerStatuses[0].ImageID, pod.Status.ContainerStatuses[0].Image = "sha256:1", tc.runs
			if got := mustNext(t, newUpdater(), pod, now).Complete; got != tc.want {
				t.Errorf("complete = %v", got)
			}
		})
	}
}

// TestCompletionOfSidecars: the report of OpenKruise's agent covers regular containers but no native sidecars.
func TestCompletionOfSidecars(t *testing.T) {
	pod := newPod(newTemplate(image("proxy", "proxy:v2")))
	pod.Annotations[stateKey] = stateHead + `{"proxy":{"imageID":"sha256:1"}},"updateImages":true}`
	report(t, pod)
	proxy := &pod.Status.InitContainerStatuses[1]
	proxy.ImageID, proxy.Image = "sha256:1", "proxy:v1"
	if step := mustNext(t, newUpdater(), pod, now); step.Complete || len(step.Waiting) != 1 || !strings.Contains(step.Waiting[0].Path, "proxy") {
		t.Errorf("the sidecar runs its old image: %+v", step)
	}
	for _, confirmed := range []bool{false, true} {
		report(t, pod, withSidecar(t, pod, func(r *agentEntry) {
			if !confirmed {
				r.Hashes.Plain++
			}
		}))
		if step := mustNext(t, newUpdater(), pod, now); step.Complete != confirmed {
			t.Errorf("ND-69 an agent that confirms the sidecar (%v): %+v", confirmed, step)
		}
	}
	report(t, pod)
	proxy.ImageID = "sha256:2"
	if step := mustNext(t, newUpdater(), pod, now); !step.Complete {
		t.Errorf("the sidecar runs its new image: %+v", step)
	}
}

// TestCompletionOfEnv: containers app and log read metadata through env.
func TestCompletionOfEnv(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*testing.T, *corev1.Pod)
		want []string
	}{
		{"U-23 all reported", func(t *testing.T, pod *corev1.Pod) { report(t, pod) }, nil},
		{"U-23 nothing reported", func(*testing.T, *corev1.Pod) {}, []string{"EnvNotReported metadata.annotations[" + metaKey + "]"}},
		{"U-23 unreadable report", func(_ *testing.T, pod *corev1.Pod) { pod.Annotations[metaKey] = "[" }, []string{"EnvNotReported metadata.annotations[" + metaKey + "]"}},
		{"U-23 old value", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod)
			pod.Labels["zone"] = "c"
		}, []string{"EnvNotReported status.containerStatuses[app]", "EnvNotReported status.containerStatuses[log]"}},
		{"U-23 another instance", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod)
			pod.Status.ContainerStatuses[0].ContainerID = "containerd://new"
		}, []string{"EnvNotReported status.containerStatuses[app]"}},
		{"U-23 no status", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod)
			pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1]
		}, []string{"EnvNotReported status.containerStatuses[log]"}},
		{"U-23 a container without an entry", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, func(r []agentEntry) []agentEntry { return r[1:] })
		}, []string{"EnvNotReported status.containerStatuses[app]"}},
		{"U-23 the plain hash does not matter", func(t *testing.T, pod *corev1.Pod) {
			report(t, pod, func(r []agentEntry) []agentEntry { r[0].Hashes.Plain = 0; return r })
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate(env(0, fromLabel("Z", "zone"), fromAnnotation("C", "cfg"), fromLabel("A", "none")), env(1, fromLabel("ZONE", "zone")),
				label("zone", "b"), annotation("cfg", "2")))
			pod.Annotations[stateKey] = stateHead + `null,"updateEnvFromMetadata":true}`
			tc.edit(t, pod)
			step := mustNext(t, newUpdater(), pod, now)
			if diff := cmp.Diff(tc.want, codesAndPaths(step.Waiting)); diff != "" || step.Complete != (tc.want == nil) {
				t.Errorf("waiting (-want +got), complete %v:\n%s", step.Complete, diff)
			}
		})
	}
}

// withSidecar adds the entry of native sidecar proxy, as the agents of this project do.
func withSidecar(t testing.TB, pod *corev1.Pod, edits ...func(*agentEntry)) func([]agentEntry) []agentEntry {
	return func(r []agentEntry) []agentEntry {
		entry := observe(t, pod, "proxy")
		for _, edit := range edits {
			edit(&entry)
		}
		return append(r, entry)
	}
}

// sidecarEnv gives variables to native sidecar proxy.
func sidecarEnv(vars ...corev1.EnvVar) func(*template) {
	return func(t *template) { t.Spec.InitContainers[1].Env = append(t.Spec.InitContainers[1].Env, vars...) }
}

// TestCompletionOfSidecarEnv: native sidecar proxy and container app read metadata through env. OpenKruise's agent
// reports app but not proxy.
func TestCompletionOfSidecarEnv(t *testing.T) {
	const changed = `,"envSidecars":["proxy"]`
	unmeasured := func(r *agentEntry) { r.Hashes.Env = 0 }
	otherInstance := func(r *agentEntry) { r.ContainerID = "containerd://gone" }
	oldValue := func(r *agentEntry) { r.Hashes.Env++ }
	for _, tc := range []struct {
		name   string
		state  string
		report func(*testing.T, *corev1.Pod)
		want   []string
		remedy string
	}{
		{"ND-69 changed and reported", changed, func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod)) }, nil, ""},
		{
			"ND-69 changed, and OpenKruise's agent", changed, func(t *testing.T, pod *corev1.Pod) { report(t, pod) },
			[]string{"EnvNotReported status.initContainerStatuses[proxy]"},
			"run a node agent that reports native sidecars on node n1, or recreate the Pod",
		},
		{
			"ND-69 changed, and no agent", changed, func(*testing.T, *corev1.Pod) {},
			[]string{"EnvNotReported metadata.annotations[" + metaKey + "]"},
			"run the node agent on node n1, or recreate the Pod",
		},
		{"ND-69 changed, and an old value", changed, func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod, oldValue)) }, []string{"EnvNotReported status.initContainerStatuses[proxy]"}, ""},
		{"ND-69 changed, and not measured", changed, func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod, unmeasured)) }, []string{"EnvNotReported status.initContainerStatuses[proxy]"}, ""},
		{"ND-69 changed, and another instance", changed, func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod, otherInstance)) }, []string{"EnvNotReported status.initContainerStatuses[proxy]"}, ""},
		{"U-23 unchanged, and OpenKruise's agent", "", func(t *testing.T, pod *corev1.Pod) { report(t, pod) }, nil, ""},
		{"U-23 unchanged, and another instance", "", func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod, otherInstance)) }, nil, ""},
		{"U-23 unchanged, and not measured", "", func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod, unmeasured)) }, nil, ""},
		{"ND-69 unchanged by this update, and an old value", "", func(t *testing.T, pod *corev1.Pod) { report(t, pod, withSidecar(t, pod, oldValue)) }, []string{"EnvNotReported status.initContainerStatuses[proxy]"}, ""},
		{"ND-69 a name of no sidecar", `,"envSidecars":["app","gone"]`, func(t *testing.T, pod *corev1.Pod) { report(t, pod) }, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate(sidecarEnv(fromLabel("ZONE", "zone")), env(0, fromLabel("Z", "zone")), label("zone", "b")))
			pod.Annotations[stateKey] = stateHead + `null,"updateEnvFromMetadata":true` + tc.state + `}`
			tc.report(t, pod)
			if tc.name == "ND-69 changed, and no agent" {
				pod.Spec.Containers[0].Env = nil
			}
			step := mustNext(t, newUpdater(), pod, now)
			if diff := cmp.Diff(tc.want, codesAndPaths(step.Waiting)); diff != "" || step.Complete != (tc.want == nil) {
				t.Errorf("waiting (-want +got), complete %v:\n%s", step.Complete, diff)
			}
			if len(step.Waiting) > 0 && step.Waiting[0].Remedy != tc.remedy {
				t.Errorf("remedy %q", step.Waiting[0].Remedy)
			}
		})
	}
}

// TestSidecarEnvIsDelivered: an update of a label read by native sidecar proxy takes the Pod out of service, and
// waits for the node agent's report about proxy, unless proxy restarts with a new image and so reads the new label.
// Later updates wait for the report, too.
func TestSidecarEnvIsDelivered(t *testing.T) {
	sidecars := func(pod *corev1.Pod) string {
		state, err := newUpdater().Saved(pod)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(state.UpdateEnvFromMetadata, state.EnvSidecars)
	}
	for _, tc := range []struct {
		name  string
		edits []func(*template)
		grace int32
		want  string // after the updates
	}{
		{"U-7 the label", []func(*template){label("zone", "b")}, 0, "true [proxy]"},
		{"U-7 the label, in a grace period", []func(*template){label("zone", "b")}, 30, "true [proxy]"},
		{"U-7 another label", []func(*template){label("x", "b")}, 0, "false []"},
		{"U-7 with the image", []func(*template){both(label("zone", "b"), image("proxy", "proxy:v2"))}, 0, "false []"},
		{"U-7 with the image, in a grace period", []func(*template){both(label("zone", "b"), image("proxy", "proxy:v2"))}, 30, "false []"},
		{"U-7 with another image", []func(*template){both(label("zone", "b"), image("app", "app:v2"))}, 0, "true [proxy]"},
		{"U-28 the wait goes on", []func(*template){label("zone", "b"), image("app", "app:v2")}, 0, "true [proxy]"},
		{"U-28 the wait ends with an image", []func(*template){label("zone", "b"), image("proxy", "proxy:v2")}, 0, "false []"},
		{"U-7 both read, with one image, in a grace period", []func(*template){both(label("zone", "b"), image("app", "app:v2"))}, 30, "true [proxy]"},
		{"U-28 both read, and an image ends one wait", []func(*template){label("zone", "b"), image("proxy", "proxy:v2")}, 0, "true []"},
		{"U-28 the image is taken back", []func(*template){both(label("zone", "b"), image("proxy", "proxy:v2")), image("proxy", "proxy:v1")}, 0, "true [proxy]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater := newUpdater()
			last := newTemplate(sidecarEnv(fromLabel("ZONE", "zone")), label("zone", "a"))
			if strings.Contains(tc.name, "both read") {
				env(0, fromLabel("ZONE", "zone"))(last)
			}
			pod := newPod(last)
			for i, edit := range tc.edits {
				to := last.DeepCopy()
				edit(to)
				pod = write(t, pod, mustStart(t, updater, pod, last, to, toward(fmt.Sprint(i), tc.grace), now))
				last = to
			}
			if got := sidecars(pod); got != tc.want {
				t.Errorf("awaited %s, want %s", got, tc.want)
			}
			if off := podstate.Condition(pod, gate).Status == corev1.ConditionFalse; off != (tc.name != "U-7 another label") {
				t.Errorf("out of service: %v", off)
			}
			pod = write(t, pod, mustNext(t, updater, pod, after(time.Minute)).Change)
			if got := sidecars(pod); got != tc.want || pod.Labels["zone"] != last.Labels["zone"] {
				t.Errorf("delivered zone %s, awaited %s, want %s", pod.Labels["zone"], got, tc.want)
			}
			catchUp(pod)
			report(t, pod, withSidecar(t, pod))
			if step := mustNext(t, updater, pod, after(time.Hour)); !step.Complete {
				t.Errorf("reported, and waits for %v", step.Waiting)
			}
		})
	}
}

// both makes two edits of a template.
func both(a, b func(*template)) func(*template) { return func(t *template) { a(t); b(t) } }

// TestIgnoredEnvIsNotAwaited: the update does not wait for ignored variables, because an agent leaves them out of the
// reported hash.
func TestIgnoredEnvIsNotAwaited(t *testing.T) {
	updater := newUpdater(func(c *inplaceupdate.Config) { c.IgnoredEnv = []string{"SIDECARSET_VERSION"} })
	pod := newPod(newTemplate(env(0, fromLabel("Z", "zone")), env(1, fromAnnotation("SIDECARSET_VERSION", "v")), label("zone", "b"), annotation("v", "9")))
	pod.Annotations[stateKey] = stateHead + `null,"updateEnvFromMetadata":true}`
	report(t, pod, func(r []agentEntry) []agentEntry { return r[:1] })
	if step := mustNext(t, updater, pod, now); !step.Complete {
		t.Errorf("ND-43 waits for a container with an ignored variable alone: %v", step.Waiting)
	}
	env(0, fromAnnotation("SIDECARSET_VERSION", "v"))(&template{Spec: pod.Spec})
	if step := mustNext(t, updater, pod, now); !step.Complete {
		t.Errorf("ND-43 the hash has an ignored variable: %v", step.Waiting)
	}
}

// TestOpenKruisesImageAndEnv: OpenKruise waits for a node agent's report even if the restart for a new image delivers
// env from metadata. The package does not wait in this case. The same holds for changes that the package sends at the
// end of a grace period begun by OpenKruise, and for the next update of a Pod that waits for a report.
func TestOpenKruisesImageAndEnv(t *testing.T) {
	flag := func(pod *corev1.Pod) bool {
		return strings.Contains(pod.Annotations[stateKey], `"updateEnvFromMetadata":true`)
	}
	running := func(pod *corev1.Pod, image string) {
		pod.Status.ContainerStatuses[0].Image, pod.Status.ContainerStatuses[0].ImageID = image, "sha256:"+image
		pod.Status.ContainerStatuses[0].ContainerID, pod.Status.ObservedGeneration = "containerd://app/"+image, pod.Generation
	}
	for _, tc := range []struct {
		name       string
		env        []int // the indexes of the containers that read metadata
		unreported bool
	}{
		{"U-23 the container whose image changes", []int{0}, false},
		{"U-23 the other one", []int{1}, true},
		{"U-23 both", []int{0, 1}, true},
	} {
		edits := []func(*template){label("zone", "a")}
		for _, i := range tc.env {
			edits = append(edits, env(i, fromLabel("Z", "zone")))
		}
		t.Run(tc.name+", in a grace period", func(t *testing.T) {
			pod := newPod(newTemplate(append(edits, image("app", "app:v1"))...))
			pod.Annotations = map[string]string{
				stateKey: `{"revision":"web-2","updateTimestamp":"2026-07-01T09:00:00Z","lastContainerStatuses":null,"updateEnvFromMetadata":true,"updateImages":true}`,
				graceKey: `{"revision":"web-2","containerImages":{"app":"app:v2"},"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsiem9uZSI6ImIifX19","updateEnvFromMetadata":true,"graceSeconds":25}`,
			}
			pod = write(t, pod, mustNext(t, newUpdater(), pod, now).Change)
			if flag(pod) != tc.unreported || pod.Labels["zone"] != "b" {
				t.Errorf("labels %v, state %s", pod.Labels, pod.Annotations[stateKey])
			}
			running(pod, "app:v2")
			if step := mustNext(t, newUpdater(), pod, now); step.Complete == tc.unreported {
				t.Errorf("complete %t, waiting for %v", step.Complete, step.Waiting)
			}
		})
		t.Run(tc.name+", at the next update", func(t *testing.T) {
			from, to := newTemplate(append(edits, image("app", "app:v2"))...), newTemplate(append(edits, image("app", "app:v3"))...)
			pod := newPod(from)
			running(pod, "app:v2")
			pod.Annotations = map[string]string{stateKey: stateHead + `{"app":{"imageID":"sha256:app:v1"}},"updateEnvFromMetadata":true,"updateImages":true}`}
			pod = write(t, pod, mustStart(t, newUpdater(), pod, from, to, toward("web-3", 0), now))
			if flag(pod) != tc.unreported {
				t.Errorf("state %s", pod.Annotations[stateKey])
			}
		})
	}
}

// TestCompletionOfImageAndEnv: only containers that read metadata need the report of a node agent. Containers app and
// log read metadata, and the image of app has changed.
func TestCompletionOfImageAndEnv(t *testing.T) {
	unreported := []string{"EnvNotReported metadata.annotations[" + metaKey + "]"}
	for _, tc := range []struct {
		name         string
		readsNothing []int
		want         []string
	}{
		{"both read metadata", nil, unreported},
		{"app alone", []int{1}, unreported},
		{"log alone", []int{0}, unreported},
		{"neither", []int{0, 1}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate(image("app", "app:v2"), env(0, fromLabel("Z", "zone")), env(1, fromLabel("Z", "zone")), label("zone", "b")))
			pod.Status.ContainerStatuses[0].ImageID = "app@sha256:app:v2"
			pod.Annotations = map[string]string{stateKey: stateHead + `{"app":{"imageID":"sha256:1"}},"updateEnvFromMetadata":true,"updateImages":true}`}
			for _, container := range tc.readsNothing {
				pod.Spec.Containers[container].Env = nil
			}
			step := mustNext(t, newUpdater(), pod, now)
			if diff := cmp.Diff(tc.want, codesAndPaths(step.Waiting)); diff != "" || step.Complete != (tc.want == nil) {
				t.Errorf("waiting (-want +got), complete %v:\n%s", step.Complete, diff)
			}
		})
	}
}

// TestCompletionOfResources: the node reports the resources of each container.
func TestCompletionOfResources(t *testing.T) {
	condition := func(t corev1.PodConditionType, reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	old := func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources.Limits = quantities("cpu", "0.5") }
	for _, tc := range []struct {
		name string
		edit func(*corev1.Pod)
		want string // the expected detail of the reason; empty if the update is complete
	}{
		{"U-23 done", func(*corev1.Pod) {}, ""},
		{"U-23 spelled otherwise", func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources.Limits = quantities("cpu", "1000m") }, ""},
		{"U-23 old limits", old, "container app does not have"},
		{"U-23 old requests", func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources.Requests = nil }, "container app does not have"},
		{"U-23 no status", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1] }, "container log does not have"},
		{"U-23 no resources reported", func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = nil }, "container app does not have"},
		{"more than the spec says: the limit of the Pod", func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Limits: quantities("memory", "1Gi")}
			delete(pod.Spec.Containers[0].Resources.Limits, "memory")
			pod.Status.ContainerStatuses[0].Resources.Limits["memory"] = resource.MustParse("1Gi")
		}, ""},
		{"a native sidecar's resources", func(pod *corev1.Pod) {
			pod.Spec.InitContainers[1].Resources.Limits = quantities("cpu", "1")
			pod.Status.InitContainerStatuses[1].Resources = &corev1.ResourceRequirements{Limits: quantities("cpu", "0.5")}
		}, "container proxy does not have"},
		{"a node that does not report a sidecar's resources", func(pod *corev1.Pod) {
			pod.Spec.InitContainers[1].Resources.Limits = quantities("cpu", "1")
			pod.Status.InitContainerStatuses[1].Resources = nil
		}, ""},
		{"deferred", func(pod *corev1.Pod) {
			old(pod)
			pod.Status.Conditions = append(pod.Status.Conditions, condition(corev1.PodResizePending, "Deferred", "node is full"))
		}, ": Deferred node is full"},
		{"infeasible", func(pod *corev1.Pod) {
			old(pod)
			pod.Status.Conditions = append(pod.Status.Conditions, condition(corev1.PodResizePending, "Infeasible", "node has 1 cpu"))
		}, ": Infeasible node has 1 cpu"},
		{"in progress with an error", func(pod *corev1.Pod) {
			old(pod)
			pod.Status.Conditions = append(pod.Status.Conditions, condition(corev1.PodResizeInProgress, "Error", ""))
		}, ": Error"},
		{"in progress", func(pod *corev1.Pod) {
			old(pod)
			pod.Status.Conditions = append(pod.Status.Conditions, condition(corev1.PodResizeInProgress, "", ""))
		}, "does not have its new resources"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate())
			pod.Annotations[stateKey] = stateHead + `null,"updateResources":true}`
			tc.edit(pod)
			step := mustNext(t, newUpdater(), pod, now)
			if tc.want == "" {
				if !step.Complete {
					t.Errorf("not complete: %v", step.Waiting)
				}
				return
			}
			if len(step.Waiting) != 1 || step.Waiting[0].Code != inplaceupdate.ResizeNotDone || !strings.HasSuffix(step.Waiting[0].Detail, tc.want) &&
				!strings.HasPrefix(step.Waiting[0].Detail, tc.want) {
				t.Errorf("waiting %v, want ResizeNotDone with %q", step.Waiting, tc.want)
			}
		})
	}
}

// rules gives a container the restart policy Never, and a rule (restartPolicyRules) to restart after the given exit
// code.
func rules(code int32) func(c *corev1.Container) {
	return func(c *corev1.Container) {
		never := corev1.ContainerRestartPolicyNever
		c.RestartPolicy, c.RestartPolicyRules = &never, []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
			},
		}}
	}
}

// TestEndedContainers: a container that its node never starts again gets no new image, and the Pod stays in service.
func TestEndedContainers(t *testing.T) {
	always, never, onFailure := corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure
	own := corev1.ContainerRestartPolicyAlways
	for _, tc := range []struct {
		name    string
		policy  corev1.RestartPolicy
		exit    int32
		edit    func(c *corev1.Container)
		running bool
		blocked bool
	}{
		{name: "Never, ended", policy: never, blocked: true},
		{name: "Never, failed", policy: never, exit: 1, blocked: true},
		{name: "OnFailure, ended well", policy: onFailure, blocked: true},
		{name: "OnFailure, failed", policy: onFailure, exit: 1},
		{name: "Always, ended", policy: always},
		{name: "Never, running", policy: never, running: true},
		{name: "Never, but the container's own policy is Always", policy: never, edit: func(c *corev1.Container) { c.RestartPolicy = &own }},
		{name: "Never, but a rule of the container starts it again", policy: never, exit: 42, edit: rules(42)},
		{name: "Never, and the rules are for another exit code", policy: never, exit: 1, edit: rules(42), blocked: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := func(t *template) {
				t.Spec.RestartPolicy = tc.policy
				if tc.edit != nil {
					tc.edit(&t.Spec.Containers[1])
				}
			}
			from, to := newTemplate(base), newTemplate(base, image("log", "log:v2"))
			pod := newPod(from)
			if !tc.running {
				pod.Status.ContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.exit}}
			}
			u := newUpdater()
			_, err := u.Start(pod, u.Plan(from, to), toward("v2", 0), now)
			if blocked := errors.Is(err, inplaceupdate.ContainerEnded) && errors.Is(err, inplaceupdate.UpdateBlocked); blocked != tc.blocked || (err != nil) != tc.blocked {
				t.Errorf("Start = %v, want ContainerEnded: %t", err, tc.blocked)
			}
		})
	}
}

// TestLostResize: the state annotation was written, but the controller died before its request to pods/resize.
func TestLostResize(t *testing.T) {
	from, to := newTemplate(), newTemplate(limits(0, "cpu", "2"))
	updater := newUpdater()
	pod := newPod(from)
	change := mustStart(t, updater, pod, from, to, toward("2", 0), now)
	change.Resources = nil // the third request never arrived
	pod = write(t, pod, change)
	step := mustNext(t, updater, pod, now)
	want := map[string]corev1.ResourceRequirements{"app": {Limits: quantities("cpu", "2")}}
	if diff := cmp.Diff(want, step.Change.Resources); diff != "" || step.Complete {
		t.Fatalf("the resize is not sent again (-want +got), complete %v:\n%s", step.Complete, diff)
	}
	pod = write(t, pod, step.Change)
	catchUp(pod)
	if step = mustNext(t, updater, pod, now); !step.Complete {
		t.Fatalf("not complete: %v", step.Waiting)
	}
	pod = write(t, pod, step.Change)
	pod.Spec.Containers[0].Resources.Limits = quantities("cpu", "3") // a later change by an autoscaler
	if step = mustNext(t, updater, pod, now); len(step.Change.Resources) > 0 {
		t.Errorf("a finished update still claims resources: %+v", step.Change)
	}
}

// TestUpdateAfterAnEarlyReport: the agent's report completes a first update, and a second update begins before the
// kubelet has reported the instance of the first update. The first update's instance must not complete the second
// update.
func TestUpdateAfterAnEarlyReport(t *testing.T) {
	v1, v2, v3 := newTemplate(), newTemplate(image("app", "app:v2")), newTemplate(image("app", "app:v3"))
	updater := newUpdater()
	pod := newPod(v1)
	pod = write(t, pod, mustStart(t, updater, pod, v1, v2, toward("2", 0), now))
	pod.Status.ObservedGeneration = pod.Generation
	report(t, pod, early(&pod.Status.ContainerStatuses[0]))
	step := mustNext(t, updater, pod, now)
	if !step.Complete {
		t.Fatalf("the first update waits for %v", step.Waiting)
	}
	pod = write(t, pod, step.Change)
	first := pod.Status.ContainerStatuses[0].ImageID
	pod = write(t, pod, mustStart(t, updater, pod, v2, v3, toward("3", 0), now))
	if state := pod.Annotations[stateKey]; !strings.Contains(state, `"lastContainerStatuses":{"app":{"imageID":"`+first+`"`) {
		t.Errorf("the reported image is not recorded: %s", state)
	}
	pod.Status.ObservedGeneration = pod.Generation
	for _, status := range []corev1.ContainerStatus{
		pod.Status.ContainerStatuses[0],
		{Name: "app", ContainerID: "next", RestartCount: 1, Image: "sha256:2", ImageID: "sha256:2", Ready: true},
		{Name: "app", ContainerID: "next", RestartCount: 1, Image: "app:v2", ImageID: "sha256:2", Ready: true},
	} {
		pod.Status.ContainerStatuses[0] = status
		if step := mustNext(t, updater, pod, now); step.Complete {
			t.Errorf("the second update is complete while the node reports %+v", status)
		}
	}
	pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app", ContainerID: "last", RestartCount: 2, Image: "app:v3", ImageID: "sha256:3", Ready: true}
	if step := mustNext(t, updater, pod, now); !step.Complete {
		t.Errorf("the second update waits for %v", step.Waiting)
	}
}

// TestEarlyReportTeachesNothing: after an agent's early report, the status still shows the ended instance. Its digest
// is not recorded as the digest of the new image.
func TestEarlyReportTeachesNothing(t *testing.T) {
	pod := newPod(newTemplate(image("app", "app:v2")))
	reported := oldStatus(pod)
	pod.Annotations[stateKey] = stateHead + `{"app":{"imageID":"sha256:1"}},"updateImages":true,"seen":{"app":{"containerID":"` + reported.ContainerID + `","at":"2026-07-01T10:00:00Z"}}}`
	report(t, pod, early(reported))
	step := mustNext(t, newUpdater(), pod, now)
	if !step.Complete || step.Change.Annotations[stateKey] == nil || strings.Contains(*step.Change.Annotations[stateKey], reported.ContainerID) {
		t.Errorf("complete %v, %+v", step.Complete, step.Change)
	}
}

// overtaken starts an update to v2, and then an update to v3 before the node has acted on v2.
func overtaken(t *testing.T, updater *inplaceupdate.Updater, v1, v2, v3 *template, grace int32) *corev1.Pod {
	t.Helper()
	pod := newPod(v1)
	pod = write(t, pod, mustStart(t, updater, pod, v1, v2, toward("2", grace), now))
	return write(t, pod, mustStart(t, updater, pod, v2, v3, toward("3", 0), now))
}

func TestOvertakenImagesAreNotCompletion(t *testing.T) {
	v1, v2, v3 := newTemplate(), newTemplate(image("app", "app:v2")), newTemplate(image("app", "app:v3"))
	runs := func(image, id string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "app", Image: image, ImageID: id, Ready: true}
	}
	for _, tc := range []struct {
		name   string
		status corev1.ContainerStatus
		want   bool
	}{
		{"U-28 the first image still runs", runs("app:v1", "sha256:app:v1"), false},
		{"U-28 the overtaken one runs", runs("app:v2", "sha256:2"), false},
		{"U-28 the overtaken one, name in full", runs("docker.io/library/app:v2", "sha256:2"), false},
		{"U-28 the new one runs", runs("app:v3", "sha256:3"), true},
		{"U-28 the new one, name in full", runs("docker.io/library/app:v3", "sha256:3"), true},
		{"U-28 the new one, or the overtaken one, by a name of neither", runs("sha256:3", "sha256:3"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := overtaken(t, newUpdater(), v1, v2, v3, 0)
			pod.Status.ObservedGeneration = pod.Generation
			pod.Status.ContainerStatuses[0] = tc.status
			if step := mustNext(t, newUpdater(), pod, now); step.Complete != tc.want {
				t.Errorf("complete = %v, waiting %v", step.Complete, step.Waiting)
			}
		})
	}
	t.Run("U-28 a finished update is not overtaken", func(t *testing.T) {
		pod := newPod(v1)
		pod = write(t, pod, mustStart(t, newUpdater(), pod, v1, v2, toward("2", 0), now))
		catchUp(pod)
		pod = write(t, pod, mustStart(t, newUpdater(), pod, v2, v3, toward("3", 0), now))
		if strings.Contains(pod.Annotations[stateKey], "superseded") {
			t.Errorf("state %s", pod.Annotations[stateKey])
		}
	})
	t.Run("U-28 and back: the first image is the wanted one again", func(t *testing.T) {
		pod := overtaken(t, newUpdater(), v1, v2, v1, 0)
		pod.Status.ObservedGeneration = pod.Generation
		if step := mustNext(t, newUpdater(), pod, now); !step.Complete {
			t.Errorf("waiting %v", step.Waiting)
		}
	})
	t.Run("U-13 a container that has not started yet may start its old image first", func(t *testing.T) {
		pod := newPod(v1)
		pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[1:]
		pod = write(t, pod, mustStart(t, newUpdater(), pod, v1, v2, toward("2", 0), now))
		pod.Status.ObservedGeneration = pod.Generation
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, runs("app:v1", "sha256:1"))
		if step := mustNext(t, newUpdater(), pod, now); step.Complete {
			t.Error("the old image counts as the new one")
		}
	})
}

// TestOvertakenUpdatesLoseNothing: the second plan starts from the revision of the first update, so the second plan
// lacks the undelivered changes of the first update.
func TestOvertakenUpdatesLoseNothing(t *testing.T) {
	setup := []func(*template){priority(0, 10), priority(1, 0), limits(1, "cpu", "1"), env(1, fromLabel("ZONE", "zone"), fromAnnotation("ZONE2", "zone"))}
	second := append(slices.Clone(setup), image("app", "app:v2"), image("log", "log:v2"), limits(1, "cpu", "2"), label("zone", "b"), annotation("zone", "x"), annotation("plain", "1"))
	for _, tc := range []struct {
		name  string
		grace int32
		third []func(*template)
	}{
		{"U-20 during the first batch", 0, []func(*template){image("app", "app:v3")}},
		{"U-20 with another word on what is pending", 0, []func(*template){image("log", "log:v3"), limits(1, "cpu", "3"), label("zone", "c")}},
		{"U-20 with metadata alone", 0, []func(*template){label("x", "1")}},
		{"U-20 with the pending key removed", 0, []func(*template){func(t *template) { delete(t.Labels, "zone") }}},
		{"U-14 during the grace period", 30, []func(*template){image("app", "app:v3")}},
		{"U-14 during the grace period, with another word on it", 30, []func(*template){image("log", "log:v3"), label("zone", "c"), annotation("plain", "2")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v1, v2 := newTemplate(setup...), newTemplate(second...)
			v3 := newTemplate(append(slices.Clone(second), tc.third...)...)
			updater := newUpdater()
			pod := overtaken(t, updater, v1, v2, v3, tc.grace)
			if updater.InGracePeriod(pod) {
				t.Error("the first update's grace period still runs")
			}
			for range 10 {
				catchUp(pod)
				report(t, pod)
				step := mustNext(t, updater, pod, now)
				pod = write(t, pod, step.Change)
				if step.Complete {
					checkDelivered(t, pod, v3)
					return
				}
			}
			t.Fatalf("it does not end: %s", pod.Annotations[stateKey])
		})
	}
}

func TestResizeInSpec(t *testing.T) {
	from, to := newTemplate(), newTemplate(limits(0, "cpu", "2"))
	pod := newPod(from)
	patches, err := podpatch.Merger{ResizeInSpec: true}.Merge(pod, now, mustStart(t, newUpdater(), pod, from, to, toward("2", 0), now))
	if err != nil || len(patches.Requests) != 1 || patches.Requests[0].Subresource != "" {
		t.Errorf("U-12 older API servers: %s, %v", patches.Requests, err)
	}
}

func TestPlainInitContainerIsNoSidecar(t *testing.T) {
	from := newTemplate(func(t *template) {
		t.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	})
	if plan := newUpdater().Plan(from, newTemplate(func(t *template) {
		t.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		t.Spec.InitContainers[0].Image = "setup:v2"
	})); plan.Images["setup"] != "setup:v2" {
		t.Errorf("plan %+v", plan)
	}
}
