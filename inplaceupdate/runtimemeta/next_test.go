package runtimemeta_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
)

const updating corev1.PodConditionType = "InPlaceUpdateReady"

// node is a Pod with its containers and the runtime's instances.
type node struct {
	rules     runtimemeta.Rules
	pod       *corev1.Pod
	instances []runtimemeta.Instance
	before    runtimemeta.Report
}

// newNode runs container app that reads a label, container log that reads no metadata, and native sidecar mesh that
// reads an annotation, each in its first instance. Init container setup has completed. The report is complete, and
// the Pod is being updated in place.
func newNode() *node {
	pod := newPod(container("app", fromLabel("ZONE", "zone")), container("log"))
	pod.Spec.InitContainers = []corev1.Container{container("setup", fromLabel("ZONE", "zone")), sidecar("mesh", fromAnnotation("CFG", "cfg"))}
	pod.Labels, pod.Annotations = map[string]string{"zone": "a"}, map[string]string{"cfg": "three"}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: updating, Status: corev1.ConditionFalse}}
	n := &node{rules: runtimemeta.Rules{Condition: updating, IgnoredEnv: ignored()}, pod: pod}
	for i, name := range []string{"setup", "mesh", "app", "log"} {
		n.instances = append(n.instances, runtimemeta.Instance{ID: "c://" + name + "-0", Name: name, Running: i > 0, Hash: fmt.Sprintf("%x", 16+i)})
	}
	n.report()
	n.before = reportOf(
		entry("mesh", "c://mesh-0", 0, 17, openKruiseThree), entry("app", "c://app-0", 0, 18, hash(`[{"name":"ZONE","value":"a"}]`)),
		entry("log", "c://log-0", 0, 19, openKruiseEmpty),
	)
	return n
}

// report writes the kubelet's report into the Pod's status: the newest instances, in another order than the spec's
// order.
func (n *node) report() {
	n.pod.Status.ContainerStatuses, n.pod.Status.InitContainerStatuses = nil, nil
	for _, i := range slices.Backward(n.instances) {
		status := corev1.ContainerStatus{Name: i.Name, ContainerID: i.ID}
		if i.Name == "setup" || i.Name == "mesh" {
			n.pod.Status.InitContainerStatuses = append(n.pod.Status.InitContainerStatuses, status)
		} else {
			n.pod.Status.ContainerStatuses = append(n.pod.Status.ContainerStatuses, status)
		}
	}
}

// instance is the instance of a container.
func (n *node) instance(name string) *runtimemeta.Instance {
	return &n.instances[slices.IndexFunc(n.instances, func(i runtimemeta.Instance) bool { return i.Name == name })]
}

// restart starts the next instance of a container.
func (n *node) restart(name string) *runtimemeta.Instance {
	i := n.instance(name)
	i.Attempt++
	i.ID, i.Env = fmt.Sprintf("c://%s-%d", name, i.Attempt), runtimemeta.Environment{}
	return i
}

// next returns the next step, and checks that Next modifies no argument and that a repeated call writes nothing.
func (n *node) next(t *testing.T) runtimemeta.Step {
	t.Helper()
	pod, instances, before := n.pod.DeepCopy(), slices.Clone(n.instances), runtimemeta.Report{Containers: slices.Clone(n.before.Containers)}
	step := n.rules.Next(n.pod, n.instances, n.before)
	if !reflect.DeepEqual(pod, n.pod) || !reflect.DeepEqual(instances, n.instances) || !reflect.DeepEqual(before, n.before) {
		t.Error("Next modified its arguments")
	}
	again := n.rules.Next(n.pod, n.instances, step.Report)
	if again.Changed || !again.Report.Equal(step.Report) || !reflect.DeepEqual(again.Stop, step.Stop) {
		t.Errorf("the same again: %+v, and then %+v", step, again)
	}
	return step
}

// describe renders a step.
func describe(s runtimemeta.Step) string {
	var parts []string
	for _, c := range s.Report.Containers {
		since := ""
		if c.CreatedAt != 0 {
			since = fmt.Sprintf(" since %d", c.CreatedAt)
		}
		parts = append(parts, fmt.Sprintf("%s:%d:%d%s", strings.TrimPrefix(c.ContainerID, "c://"), c.Hashes.PlainHash, c.Hashes.ExtractedEnvFromMetadataHash, since))
	}
	if !s.Changed {
		parts = []string{"quiet"}
	}
	for _, id := range s.Read {
		parts = append(parts, "read "+id)
	}
	for _, stop := range s.Stop {
		parts = append(parts, "stop "+stop.ID+" "+string(stop.Why.Code)+" "+stop.Why.Path)
	}
	for _, why := range s.Why {
		parts = append(parts, string(why.Code)+" "+why.Path)
	}
	return strings.Join(parts, ", ")
}

func TestNext(t *testing.T) {
	zoneA, zoneB := hash(`[{"name":"ZONE","value":"a"}]`), hash(`[{"name":"ZONE","value":"b"}]`)
	mesh, app, log := fmt.Sprintf("mesh-0:17:%d", openKruiseThree), fmt.Sprintf("app-0:18:%d", zoneA), fmt.Sprintf("log-0:19:%d", openKruiseEmpty)
	const stopApp = "stop c://app-0 EnvOutdated spec.containers[app]"
	for _, tc := range []struct {
		name string
		edit func(*node)
		want string
	}{
		{"ND-41 nothing new", func(*node) {}, "quiet"},
		{"ND-41 the first report", func(n *node) { n.before = runtimemeta.Report{} }, "mesh-0:17:0, app-0:18:0, " + log + ", read c://mesh-0, read c://app-0, EnvironmentAwaited spec.initContainers[mesh], EnvironmentAwaited spec.containers[app]"},
		{"ND-41 nothing started, nothing reported", func(n *node) { n.before, n.instances = runtimemeta.Report{}, nil }, "quiet"},
		{"ND-42 another report is corrected", func(n *node) { n.before.Containers[1].RestartCount, n.before.Containers[2].Hashes.PlainHash = 7, 1 }, strings.Join([]string{mesh, app, log}, ", ")},
		{"ND-47 the order does not matter", func(n *node) { slices.Reverse(n.pod.Status.ContainerStatuses); slices.Reverse(n.instances) }, "quiet"},
		{"ND-47 the order of the report is the spec's", func(n *node) { slices.Reverse(n.before.Containers) }, strings.Join([]string{mesh, app, log}, ", ")},
		{"ND-47 a name reported twice", func(n *node) { n.before.Containers = append(n.before.Containers, n.before.Containers...) }, strings.Join([]string{mesh, app, log}, ", ")},
		{"ND-47 instances of foreign names", func(n *node) {
			n.instances = append(n.instances, runtimemeta.Instance{ID: "c://x", Name: "debugger", Running: true}, runtimemeta.Instance{Name: "app", Attempt: 9})
		}, "quiet"},
		{"ND-42 a new instance", func(n *node) { n.restart("app") }, strings.Join([]string{mesh, "app-1:18:0", log, "read c://app-1", "EnvironmentAwaited spec.containers[app]"}, ", ")},
		{"ND-42 the newest of several", func(n *node) {
			n.instances = append(n.instances, runtimemeta.Instance{ID: "c://app-old", Name: "app", Attempt: 0}, runtimemeta.Instance{ID: "c://app-9", Name: "app", Attempt: 9, Hash: "12"}, runtimemeta.Instance{ID: "c://app-8", Name: "app", Attempt: 8, Created: time.Unix(9, 0)})
		}, strings.Join([]string{mesh, "app-9:18:0", log}, ", ")},
		{"ND-42 the newest by creation", func(n *node) {
			n.instances = append(n.instances, runtimemeta.Instance{ID: "c://app-9", Name: "app", Created: time.Unix(9, 0), Hash: "12"})
		}, strings.Join([]string{mesh, "app-9:18:0 since 9", log}, ", ")},
		{"ND-42 an instance forgotten by the runtime", func(n *node) { n.instances = n.instances[:3] }, "quiet"},
		{"ND-42 and by the Pod's status", func(n *node) { n.instances, n.pod.Status.ContainerStatuses = n.instances[:3], nil }, mesh + ", " + app},
		{"ND-42 and replaced there", func(n *node) { n.restart("log"); n.report(); n.instances = n.instances[:3] }, mesh + ", " + app},
		{"a new instance that the status does not show", func(n *node) { n.restart("log").Created = time.Unix(9, 7) }, strings.Join([]string{mesh, app, fmt.Sprintf("log-1:19:%d since 9", openKruiseEmpty)}, ", ")},
		{"a new instance that the status shows", func(n *node) { n.restart("log").Created = time.Unix(9, 0); n.report() }, strings.Join([]string{mesh, app, fmt.Sprintf("log-1:19:%d", openKruiseEmpty)}, ", ")},
		{"a new instance that does not run yet", func(n *node) { i := n.restart("log"); i.Created, i.Running = time.Unix(9, 0), false }, strings.Join([]string{mesh, app, fmt.Sprintf("log-1:19:%d since 9", openKruiseEmpty)}, ", ")},
		{"a new instance outside an update", func(n *node) {
			n.restart("log").Created, n.pod.Status.Conditions[0].Status = time.Unix(9, 0), corev1.ConditionTrue
		}, strings.Join([]string{mesh, app, fmt.Sprintf("log-1:19:%d", openKruiseEmpty)}, ", ")},
		{"a reported time is kept", func(n *node) {
			n.before.Containers[2].CreatedAt, n.pod.Status.Conditions[0].Status = 8, corev1.ConditionTrue
		}, "quiet"},
		{"ND-42 no hash", func(n *node) { n.instance("log").Hash = "" }, strings.Join([]string{mesh, app, fmt.Sprintf("log-0:0:%d", openKruiseEmpty)}, ", ")},
		{"ND-42 a hash of 64 bits", func(n *node) { n.instance("log").Hash = "FFFFFFFFFFFFFFFF" }, strings.Join([]string{mesh, app, fmt.Sprintf("log-0:18446744073709551615:%d", openKruiseEmpty)}, ", ")},
		{"ND-42 no number", func(n *node) { n.instance("mesh").Hash = "0x1" }, strings.Join([]string{fmt.Sprintf("mesh-0:0:%d", openKruiseThree), app, log, "HashUnreadable spec.initContainers[mesh]"}, ", ")},
		{"ND-44 measured once", func(n *node) { n.pod.Status.Conditions, n.pod.Labels["zone"] = nil, "b" }, "quiet"},
		{"ND-44 a hash of another instance counts for nothing", func(n *node) { n.restart("app").Running = false }, strings.Join([]string{mesh, "app-1:18:0", log}, ", ")},
		{"ND-44 an unmeasured instance that has ended", func(n *node) {
			n.before.Containers[1].Hashes.ExtractedEnvFromMetadataHash, n.instance("app").Running = 0, false
		}, "quiet"},
		{"ND-72 the environment was read", func(n *node) {
			n.restart("app").Env = runtimemeta.EnvironmentOf([]string{"PATH=/bin", "ZONE=a"})
		}, strings.Join([]string{mesh, fmt.Sprintf("app-1:18:%d", zoneA), log}, ", ")},
		{"ND-46 an empty environment needs no shell", func(n *node) { n.restart("app").Env = runtimemeta.EnvironmentOf(nil) }, strings.Join([]string{mesh, fmt.Sprintf("app-1:18:%d", hash(`[{"name":"ZONE"}]`)), log, "InstanceUnreported spec.containers[app]"}, ", ")},
		{"ND-45 an old value", func(n *node) { n.pod.Labels["zone"] = "b" }, "quiet, " + stopApp},
		{"ND-45 measured and stopped", func(n *node) {
			n.before = runtimemeta.Report{}
			n.pod.Labels["zone"], n.pod.Annotations["cfg"] = "b", "four"
			n.instance("app").Env, n.instance("mesh").Env = runtimemeta.EnvironmentOf([]string{"ZONE=b"}), runtimemeta.EnvironmentOf([]string{"CFG=three"})
		}, strings.Join([]string{mesh, fmt.Sprintf("app-0:18:%d", zoneB), log, "stop c://mesh-0 EnvOutdated spec.initContainers[mesh]"}, ", ")},
		{"ND-69 an old value in a native sidecar", func(n *node) { n.pod.Annotations["cfg"] = "four" }, "quiet, stop c://mesh-0 EnvOutdated spec.initContainers[mesh]"},
		{"ND-69 no init container", func(n *node) { n.instance("setup").Running, n.pod.Labels["zone"] = true, "b" }, "quiet, " + stopApp},
		{"ND-45 both", func(n *node) { n.pod.Labels["zone"], n.pod.Annotations["cfg"] = "b", "4" }, "quiet, stop c://mesh-0 EnvOutdated spec.initContainers[mesh], " + stopApp},
		{"ND-45 an ignored variable", func(n *node) {
			n.pod.Spec.Containers[0].Env = append(n.pod.Spec.Containers[0].Env, fromAnnotation("SIDECARSET_VERSION", "cfg"))
			n.pod.Annotations["cfg"], n.pod.Spec.InitContainers[1].Env = "four", nil
		}, strings.Join([]string{fmt.Sprintf("mesh-0:17:%d", openKruiseEmpty), app, log}, ", ")},
		{"ND-45 no update in place", func(n *node) { n.pod.Status.Conditions[0].Status, n.pod.Labels["zone"] = corev1.ConditionTrue, "b" }, "quiet"},
		{"ND-45 no condition", func(n *node) { n.pod.Status.Conditions, n.pod.Labels["zone"] = nil, "b" }, "quiet"},
		{"ND-45 another condition", func(n *node) { n.pod.Status.Conditions[0].Type, n.pod.Labels["zone"] = "Other", "b" }, "quiet"},
		{"ND-45 no name of a condition", func(n *node) { n.rules.Condition, n.pod.Status.Conditions[0].Type, n.pod.Labels["zone"] = "", "", "b" }, "quiet"},
		{"ND-45 not running", func(n *node) { n.instance("app").Running, n.pod.Labels["zone"] = false, "b" }, "quiet"},
		{"ND-45 not measured", func(n *node) {
			n.before.Containers[1].Hashes.ExtractedEnvFromMetadataHash, n.pod.Labels["zone"] = 0, "b"
		}, "quiet, read c://app-0, EnvironmentAwaited spec.containers[app]"},
		{"ND-45 a status behind the runtime", func(n *node) { n.restart("app").Env = runtimemeta.EnvironmentOf([]string{"ZONE=b"}) }, strings.Join([]string{mesh, fmt.Sprintf("app-1:18:%d", zoneB), log, "InstanceUnreported spec.containers[app]"}, ", ")},
		{"ND-45 no status", func(n *node) { n.pod.Status.ContainerStatuses, n.pod.Labels["zone"] = nil, "b" }, "quiet, InstanceUnreported spec.containers[app]"},
		{"ND-45 a Pod that never restarts", func(n *node) { n.pod.Spec.RestartPolicy, n.pod.Labels["zone"] = corev1.RestartPolicyNever, "b" }, "quiet, WouldNotStartAgain spec.containers[app]"},
		{"ND-45 a Pod that restarts on failure", func(n *node) { n.pod.Spec.RestartPolicy, n.pod.Labels["zone"] = corev1.RestartPolicyOnFailure, "b" }, "quiet, WouldNotStartAgain spec.containers[app]"},
		{"ND-69 a native sidecar restarts in any Pod", func(n *node) { n.pod.Spec.RestartPolicy, n.pod.Annotations["cfg"] = corev1.RestartPolicyNever, "4" }, "quiet, stop c://mesh-0 EnvOutdated spec.initContainers[mesh]"},
		{"ND-41 a Pod on its way out", func(n *node) {
			n.pod.DeletionTimestamp, n.before, n.pod.Labels["zone"] = &metav1.Time{}, runtimemeta.Report{}, "b"
		}, "quiet"},
		{"ND-41 a Pod that has ended", func(n *node) { n.pod.Status.Phase, n.instances = corev1.PodSucceeded, nil; n.report() }, "quiet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode()
			tc.edit(n)
			if diff := cmp.Diff(tc.want, describe(n.next(t))); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReasonsHideValues: no reason contains a value of the environment or of the metadata.
func TestReasonsHideValues(t *testing.T) {
	n := newNode()
	n.pod.Labels["zone"] = "hunter2"
	n.restart("mesh").Env = runtimemeta.EnvironmentOf([]string{"CFG=hunter2", "PASSWORD=hunter2"})
	step := n.next(t)
	if text := fmt.Sprintf("%+v %s", step, step.Report.Encode()); strings.Contains(text, "hunter2") || len(step.Stop) != 1 || len(step.Why) != 1 {
		t.Errorf("ND-72 step %s", text)
	}
}

// TestCourse follows a restart: the agent stops the old instance, waits for the status, and does nothing more once
// the new instance is reported. If the kubelet had read only the old label, the agent stops the container again.
func TestCourse(t *testing.T) {
	n := newNode()
	look := func(what, want string) {
		t.Helper()
		step := n.next(t)
		if len(step.Read) > 0 {
			n.instance("app").Env = runtimemeta.EnvironmentOf([]string{"ZONE=" + what})
			step = n.next(t)
		}
		n.before = step.Report
		var got []string
		for _, s := range step.Stop {
			got = append(got, s.ID)
		}
		for _, w := range step.Why {
			got = append(got, string(w.Code))
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("ND-45 (-want +got):\n%s", diff)
		}
	}
	n.pod.Labels["zone"] = "b"
	look("", "c://app-0")
	n.restart("app") // the kubelet had read only the old label
	look("a", "InstanceUnreported")
	n.report()
	look("", "c://app-1")
	n.restart("app")
	look("b", "")
	n.report()
	look("", "")
	if last := n.before.Instance("app", "c://app-2"); last == nil || last.Hashes.ExtractedEnvFromMetadataHash != hash(`[{"name":"ZONE","value":"b"}]`) {
		t.Errorf("ND-40 the last report: %+v", n.before)
	}
}

// TestConcerns: agents report about Pods whose controller belongs to a given API group, and about Pods with a given
// annotation.
func TestConcerns(t *testing.T) {
	owned := func(version string, controls bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: version, Kind: "CloneSet", Name: "web", Controller: ptr.To(controls)}}
	}
	for _, tc := range []struct {
		name string
		pod  metav1.ObjectMeta
		want bool
	}{
		{"ND-40 of the group", metav1.ObjectMeta{OwnerReferences: owned("apps.kruise.io/v1alpha1", true)}, true},
		{"ND-40 of any version", metav1.ObjectMeta{OwnerReferences: owned("apps.kruise.io/v9", true)}, true},
		{"ND-40 an owner that does not control", metav1.ObjectMeta{OwnerReferences: owned("apps.kruise.io/v1alpha1", false)}, false},
		{"ND-40 of another group", metav1.ObjectMeta{OwnerReferences: owned("apps.kruise.io.example/v1", true)}, false},
		{"ND-40 of the core group", metav1.ObjectMeta{OwnerReferences: owned("v1", true)}, false},
		{"ND-40 of a group that is none", metav1.ObjectMeta{OwnerReferences: owned("a/b/c", true)}, false},
		{"ND-40 injected", metav1.ObjectMeta{Annotations: map[string]string{"kruise.io/sidecarset-hash": ""}}, true},
		{"ND-40 neither", metav1.ObjectMeta{Annotations: map[string]string{"other": "x"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: tc.pod}
			if got := runtimemeta.Concerns(pod, "apps.kruise.io", "kruise.io/sidecarset-hash"); got != tc.want {
				t.Errorf("concerned: %v", got)
			}
			pod.Annotations = map[string]string{"": ""}
			if runtimemeta.Concerns(pod, "", "") {
				t.Error("concerned without a name")
			}
		})
	}
}
