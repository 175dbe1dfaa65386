package faultapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

const nodeGate corev1.PodConditionType = "example.test/gate"

// cluster is the setup of a test with nodes and a single Pod, web-0, which is not scheduled yet.
type cluster struct {
	*stage

	nodes *faultapi.Nodes
	pod   *corev1.Pod
}

func newCluster(t *testing.T, edits ...func(*corev1.Pod)) *cluster {
	c := &cluster{stage: newStage(t, &corev1.ConfigMap{}), pod: named("web-0")}
	c.nodes = c.server.Nodes()
	c.pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, edit := range edits {
		edit(c.pod)
	}
	c.must(c.user.Create(t.Context(), c.pod))
	return c
}

func gated(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: nodeGate}}
}

func held(pod *corev1.Pod) { pod.Finalizers = []string{"example.test/hold"} }

// act does one step for the Pod, and reports whether anything has changed.
type act func(c *cluster) bool

func schedule(c *cluster) bool  { return c.nodes.Schedule(c.pod, "node-0") }
func observe(c *cluster) bool   { return c.nodes.Observe(client.ObjectKeyFromObject(c.pod), c.pod.UID) }
func run(c *cluster) bool       { return c.nodes.Run(c.pod.UID) }
func report(c *cluster) bool    { return c.nodes.Report(c.pod.UID) }
func crash(c *cluster) bool     { return c.nodes.Crash(c.pod.UID, "app") }
func evict(c *cluster) bool     { return c.nodes.Evict(c.pod.UID) }
func terminate(c *cluster) bool { return c.nodes.Terminate(c.pod.UID) }
func settle(c *cluster) bool    { return c.nodes.Settle() }
func ready(c *cluster) bool     { return c.nodes.SetReady(c.pod.UID, "app", true) }
func unready(c *cluster) bool   { return c.nodes.SetReady(c.pod.UID, "app", false) }

func deletePod(c *cluster) bool {
	c.must(c.user.Delete(c.t.Context(), c.pod))
	return true
}

// replace deletes the Pod for good and creates a successor of the same name.
func replace(c *cluster) bool {
	c.must(c.user.Delete(c.t.Context(), c.pod, client.GracePeriodSeconds(0)))
	c.must(c.user.Create(c.t.Context(), named(c.pod.Name)))
	return true
}

func patch(sub, body string) act {
	return func(c *cluster) bool {
		before := c.server.Version()
		p := client.RawPatch(types.StrategicMergePatchType, []byte(body))
		if sub == "" {
			c.must(c.user.Patch(c.t.Context(), named(c.pod.Name), p))
		} else {
			c.must(c.user.SubResource(sub).Patch(c.t.Context(), named(c.pod.Name), p))
		}
		return c.server.Version() != before
	}
}

var (
	newImage = patch("", `{"spec":{"containers":[{"name":"app","image":"app:v2"}]}}`)
	resize   = patch("resize", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}}`)
	openGate = patch("status", `{"status":{"conditions":[{"type":"example.test/gate","status":"True"}]}}`)
	shutGate = patch("status", `{"status":{"conditions":[{"type":"example.test/gate","status":"False"}]}}`)
	letGo    = patch("", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.test/hold"]}}`)
)

// describe returns the Pod's state on the server as text: phase, node, observedGeneration, the running container, and
// the conditions.
func describe(c *cluster) string {
	pod := c.nodes.Pod(client.ObjectKeyFromObject(c.pod), c.pod.UID)
	if pod == nil {
		return "gone"
	}
	parts := []string{string(pod.Status.Phase), pod.Spec.NodeName, fmt.Sprintf("generation %d of %d", pod.Status.ObservedGeneration, pod.Generation)}
	for _, s := range pod.Status.ContainerStatuses {
		part := fmt.Sprintf("%s ready=%v restarts=%d", s.Image, s.Ready, s.RestartCount)
		if s.Resources != nil {
			part += " cpu=" + s.Resources.Requests.Cpu().String()
		}
		switch {
		case s.State.Waiting != nil:
			part += " " + s.State.Waiting.Reason
		case s.State.Terminated != nil:
			part += fmt.Sprintf(" exit=%d", s.State.Terminated.ExitCode)
		}
		parts = append(parts, part)
	}
	conditions := slices.Clone(pod.Status.Conditions)
	slices.SortFunc(conditions, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	for _, cond := range conditions {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s=%s %s", cond.Type, cond.Status, cond.Reason)))
	}
	if pod.DeletionTimestamp != nil {
		parts = append(parts, "terminating")
	}
	return strings.Join(parts, ", ")
}

const (
	scheduled = "PodScheduled=True"
	up        = "Running, node-0, generation 1 of 1, docker.io/library/app:v1 ready=true restarts=0 cpu=1, ContainersReady=True, Initialized=True, PodScheduled=True, Ready=True"
	notReady  = "ContainersReady=False ContainersNotReady, Initialized=True, PodScheduled=True, Ready=False ContainersNotReady"
	shut      = ", Ready=False ReadinessGatesNotReady"
)

var (
	bad     = strings.NewReplacer("ready=true", "ready=false", "ContainersReady=True", "ContainersReady=False ContainersNotReady", ", Ready=True", ", Ready=False ContainersNotReady")
	closed  = strings.NewReplacer(", Ready=True", shut)
	started = []act{schedule, observe, run, ready, report}
)

// after returns the acts that start the Pod, followed by the given acts.
func after(more ...act) []act { return append(started[:5:5], more...) }

// life is a test case: a sequence of acts on the Pod of a cluster.
type life struct {
	name string
	pod  func(*corev1.Pod)
	do   []act
	last bool // whether the last act changes anything
	want string
}

// TestNodes: scheduler and kubelet work step by step with the version of the Pod that each knows, and report whether
// anything has changed.
func TestNodes(t *testing.T) {
	for _, tc := range slices.Concat(starts(), ends(), gates(), deletions()) {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, func(pod *corev1.Pod) {
				if tc.pod != nil {
					tc.pod(pod)
				}
			})
			last := false
			for _, do := range tc.do {
				last = do(c)
			}
			if diff := cmp.Diff(tc.want, describe(c)); diff != "" || last != tc.last {
				t.Errorf("last said %v; Pod (-want +got):\n%s", last, diff)
			}
		})
	}
}

func starts() []life {
	return []life{
		{"nobody looks", nil, []act{observe}, false, "Pending, , generation 0 of 1"},
		{"scheduled", nil, []act{schedule}, true, "Pending, node-0, generation 0 of 1, " + scheduled},
		{"scheduled once", nil, []act{schedule, schedule}, false, "Pending, node-0, generation 0 of 1, " + scheduled},
		{"never scheduled while terminating", held, []act{deletePod, schedule}, false, "Pending, , generation 0 of 2, terminating"},
		{"a successor is not scheduled in its place", nil, []act{replace, schedule}, false, "gone"},
		{"seen, and not run", nil, []act{schedule, observe, report}, true, "Pending, node-0, generation 1 of 1, app:v1 ready=false restarts=0 ContainerCreating, " + notReady},
		{"not seen, not run", nil, []act{schedule, run}, false, "Pending, node-0, generation 0 of 1, " + scheduled},
		{"run, and not ready", nil, []act{schedule, observe, run, report}, true, "Running, node-0, generation 1 of 1, docker.io/library/app:v1 ready=false restarts=0 cpu=1, " + notReady},
		{"ready", nil, started, true, up},
		{"run and not reported", nil, []act{schedule, observe, run, ready}, true, "Pending, node-0, generation 0 of 1, " + scheduled},
		{"observed again, nothing new but its own report", nil, after(observe, observe), false, up},
		{"reported again", nil, after(report), false, up},
		{"run again", nil, after(run), false, up},
		{"ready again", nil, after(ready), false, up},
		{"a probe fails", nil, after(unready, report), true, bad.Replace(up)},
		{
			"a new image that the node has not seen", nil, after(newImage, run, report), false,
			strings.Replace(up, "of 1", "of 2", 1),
		},
		{
			"a new image that the node has seen and not acted on", nil, after(newImage, observe, report), true,
			strings.Replace(up, "1 of 1", "2 of 2", 1),
		},
		{
			"a new image that runs", nil, after(newImage, observe, run, report), true,
			"Running, node-0, generation 2 of 2, docker.io/library/app:v2 ready=false restarts=1 cpu=1, " + notReady,
		},
		{"a resize restarts nothing", nil, after(resize, observe, run, report), true, strings.NewReplacer("1 of 1", "2 of 2", "cpu=1", "cpu=2").Replace(up)},
		{"a resize that the node has not seen", nil, after(resize, run), false, strings.Replace(up, "of 1", "of 2", 1)},
		{"a crash", nil, after(crash, report), true, "Running, node-0, generation 1 of 1, docker.io/library/app:v1 ready=false restarts=1 cpu=1, " + notReady},
		{"no crash of what does not run", nil, []act{schedule, observe, crash}, false, "Pending, node-0, generation 0 of 1, " + scheduled},
	}
}

func ends() []life {
	return []life{
		{
			"evicted", nil, after(evict, report), true,
			"Failed, node-0, generation 1 of 1, docker.io/library/app:v1 ready=false restarts=0 cpu=1 exit=137, ContainersReady=False PodFailed, Initialized=True, PodScheduled=True, Ready=False PodFailed",
		},
		{"evicted and not reported", nil, after(evict), true, up},
		{"evicted once", nil, after(evict, evict), false, up},
		{"nothing starts in an evicted Pod", nil, after(evict, newImage, observe, run), false, strings.Replace(up, "of 1", "of 2", 1)},
		{"nothing gets ready in an evicted Pod", nil, after(evict, ready), false, up},
		{"nothing crashes in an evicted Pod", nil, after(evict, crash), false, up},
	}
}

func gates() []life {
	return []life{
		{"a gate without condition", gated, started, true, closed.Replace(up)},
		{"a gate that opened unseen", gated, after(openGate, report), false, closed.Replace(up) + ", example.test/gate=True"},
		{"a gate that opened", gated, after(openGate, observe, report), true, up + ", example.test/gate=True"},
		{"a gate that closed unseen", gated, after(openGate, observe, report, shutGate, report), false, up + ", example.test/gate=False"},
		{"a gate that closed", gated, after(openGate, observe, report, shutGate, observe, report), true, closed.Replace(up) + ", example.test/gate=False"},
	}
}

func deletions() []life {
	return []life{
		{"terminating, unseen", nil, after(deletePod, terminate), false, strings.Replace(up, "of 1", "of 2", 1) + ", terminating"},
		{"terminated", nil, after(deletePod, observe, terminate), true, "gone"},
		{"nothing starts in a Pod that terminates", nil, []act{schedule, observe, deletePod, observe, run}, false, "Pending, node-0, generation 0 of 2, " + scheduled + ", terminating"},
		{"terminated, and held by a finalizer", held, after(deletePod, observe, terminate), true, strings.Replace(up, "of 1", "of 2", 1) + ", terminating"},
		{"terminated once", held, after(deletePod, observe, terminate, terminate), false, strings.Replace(up, "of 1", "of 2", 1) + ", terminating"},
		{"terminated, held and let go", held, after(deletePod, observe, terminate, letGo), true, "gone"},
		{"a report on a successor is none", nil, after(observe, replace, unready, report), false, "gone"},
		{"a termination of a successor is none", nil, after(deletePod, observe, replace, terminate), false, "gone"},
		{"what is gone is forgotten", nil, after(replace, observe), true, "gone"},
		{"and then unknown", nil, after(replace, observe, observe), false, "gone"},
		{"settled", nil, []act{settle}, true, up},
		{"settled again", nil, []act{settle, settle, settle}, false, up},
		{"settled after a change", nil, []act{settle, newImage, settle}, true, strings.NewReplacer("1 of 1", "2 of 2", "app:v1", "app:v2", "restarts=0", "restarts=1").Replace(up)},
		{"settled after a deletion", nil, []act{settle, deletePod, settle}, true, "gone"},
	}
}

// TestImage: Image returns the image that a container runs, even if the kubelet has reported another image.
func TestImage(t *testing.T) {
	c := newCluster(t)
	var got []string
	for _, do := range []act{schedule, observe, run, newImage, observe, run} {
		do(c)
		got = append(got, c.nodes.Image(c.pod.UID, "app"))
	}
	if diff := cmp.Diff([]string{"", "", "app:v1", "app:v1", "app:v1", "app:v2"}, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if got := describe(c); !strings.HasPrefix(got, "Pending, node-0, generation 0 of 2, PodScheduled") {
		t.Errorf("reported: %s", got)
	}
	if got := c.nodes.Image(c.pod.UID, "none"); got != "" {
		t.Errorf("image of no container: %s", got)
	}
}

// use returns an act that changes the image of the Pod's container.
func use(image string) act {
	return patch("", `{"spec":{"containers":[{"name":"app","image":"`+image+`"}]}}`)
}

// world returns an act that changes the images in registries or on nodes.
func world(change func(images *faultapi.Images)) act {
	return func(c *cluster) bool { change(c.nodes.Images); return true }
}

func publish(tag, digest string) act {
	return world(func(images *faultapi.Images) { images.Publish(tag, digest) })
}

func publishIndex(index, manifest string) act {
	return world(func(images *faultapi.Images) { images.PublishIndex(index, manifest) })
}

func pull(image string) act { return world(func(images *faultapi.Images) { images.Pull(image) }) }

func broken(image string, yes bool) act {
	return world(func(images *faultapi.Images) { images.SetBroken(image, yes) })
}

func sick(image string) act {
	return world(func(images *faultapi.Images) { images.SetSick(image, true) })
}

// describeContainer returns the reported state of the container as text, with the number of its instance from 0, and
// the running image.
func describeContainer(c *cluster) string {
	pod := c.nodes.Pod(client.ObjectKeyFromObject(c.pod), c.pod.UID)
	s := pod.Status.ContainerStatuses[0]
	_, instance, _ := strings.Cut(s.ContainerID, "/app/")
	state := "running"
	switch {
	case s.State.Waiting != nil:
		state = s.State.Waiting.Reason
	case s.State.Terminated != nil:
		state = "ended"
	}
	text := fmt.Sprintf("%s: %s is %s, instance %q, restarts %d, %s", pod.Status.Phase, s.Image, s.ImageID, instance, s.RestartCount, state)
	if s.Ready {
		text += ", ready"
	}
	if s.LastTerminationState.Terminated != nil {
		text += ", after " + s.LastTerminationState.Terminated.ContainerID[len("containerd://uid-000001/app/"):]
	}
	return text + ", in truth " + c.nodes.Image(c.pod.UID, "app")
}

// TestReportedImages: nodes report images as containerd does. The reported image is the first tag of the digest, and
// several tags can share an image ID, so a status does not prove which image was requested.
func TestReportedImages(t *testing.T) {
	const one = "sha256:1111"
	for _, tc := range []struct {
		name string
		do   []act
		want string
	}{
		{"by tag", []act{use("x.test/app:v1"), publish("x.test/app:v1", one)}, `Running: x.test/app:v1 is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app:v1`},
		{"without tag and registry", []act{use("app"), publish("app:latest", one)}, `Running: docker.io/library/app:latest is docker.io/library/app@sha256:1111, instance "0", restarts 0, running, ready, in truth app`},
		{"of a user at the registry that is left out", []act{use("me/app:v1"), publish("me/app:v1", one)}, `Running: docker.io/me/app:v1 is docker.io/me/app@sha256:1111, instance "0", restarts 0, running, ready, in truth me/app:v1`},
		{"a registry with a port", []act{use("localhost:5000/app"), publish("localhost:5000/app:latest", one)}, `Running: localhost:5000/app:latest is localhost:5000/app@sha256:1111, instance "0", restarts 0, running, ready, in truth localhost:5000/app`},
		{"by digest", []act{use("x.test/app@" + one)}, `Running: sha256:f623dd5f7a3828dc is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app@sha256:1111`},
		{"by tag and digest, of which the digest counts", []act{use("x.test/app:v1@" + one)}, `Running: sha256:f623dd5f7a3828dc is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app:v1@sha256:1111`},
		{"by a digest that a tag names", []act{use("x.test/app@" + one), publish("x.test/app:v9", one), pull("x.test/app:v9")}, `Running: x.test/app:v9 is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app@sha256:1111`},
		{"a tag that comes after another one of its digest", []act{use("x.test/app:v1"), publish("x.test/app:v1", one), publish("x.test/app:a", one), pull("x.test/app:a")}, `Running: x.test/app:a is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app:v1`},
		{"a tag that nobody has pulled", []act{use("x.test/app:v1"), publish("x.test/app:v1", one), publish("x.test/app:a", one)}, `Running: x.test/app:v1 is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app:v1`},
		{"another tag is pulled while the container runs", []act{publish("app:v1", one), settle, publish("app:a", one), pull("app:a")}, `Running: docker.io/library/app:a is docker.io/library/app@sha256:1111, instance "0", restarts 0, running, ready, in truth app:v1`},
		{"another tag of the digest restarts", []act{publish("app:v1", one), publish("app:v2", one), settle, use("app:v2")}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:1111, instance "1", restarts 1, running, ready, in truth app:v2`},
		{"a tag that moves restarts nothing", []act{publish("app:v1", one), settle, publish("app:v1", "sha256:2222")}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:1111, instance "0", restarts 0, running, ready, in truth app:v1`},
		{"the same digest from another registry", []act{use("x.test/app@" + one), pull("a.test/app@" + one)}, `Running: sha256:f623dd5f7a3828dc is a.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app@sha256:1111`},
		{"by the manifest of an index that nobody has pulled", []act{use("x.test/app@" + one), publishIndex("sha256:0000", one)}, `Running: sha256:f623dd5f7a3828dc is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app@sha256:1111`},
		{"by the manifest of an index that is known", []act{use("x.test/app@" + one), publishIndex("sha256:0000", one), pull("x.test/app@sha256:0000")}, `Running: sha256:f623dd5f7a3828dc is x.test/app@sha256:0000, instance "0", restarts 0, running, ready, in truth x.test/app@sha256:1111`},
		{"by an index of a manifest that is known", []act{use("x.test/app@sha256:3333"), publishIndex("sha256:3333", one), pull("x.test/app@" + one)}, `Running: sha256:f623dd5f7a3828dc is x.test/app@sha256:1111, instance "0", restarts 0, running, ready, in truth x.test/app@sha256:3333`},
		{"by a tag of an index", []act{use("x.test/app:v1"), publish("x.test/app:v1", "sha256:3333"), publishIndex("sha256:3333", one)}, `Running: x.test/app:v1 is x.test/app@sha256:3333, instance "0", restarts 0, running, ready, in truth x.test/app:v1`},
		{"pinned from a tag of an index to its manifest", []act{use("x.test/app:v1"), publish("x.test/app:v1", "sha256:3333"), publishIndex("sha256:3333", one), settle, use("x.test/app@" + one)}, `Running: x.test/app:v1 is x.test/app@sha256:1111, instance "1", restarts 1, running, ready, in truth x.test/app@sha256:1111`},
		{"never ready", []act{sick("app:v1")}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:56a055463f98aa4c, instance "0", restarts 0, running, in truth app:v1`},
		{"never ready, then another one", []act{sick("app:v1"), settle, use("app:v2")}, `Running: docker.io/library/app:v2 is docker.io/library/app@sha256:56a058463f98af65, instance "1", restarts 1, running, ready, in truth app:v2`},
		{"cannot be pulled from the start", []act{broken("app:v1", true)}, `Pending: app:v1 is , instance "", restarts 0, ImagePullBackOff, in truth `},
		{"cannot be pulled, then another one", []act{broken("app:v1", true), settle, use("app:v2")}, `Running: docker.io/library/app:v2 is docker.io/library/app@sha256:56a058463f98af65, instance "0", restarts 0, running, ready, in truth app:v2`},
		{"cannot be pulled later", []act{broken("app:v2", true), settle, use("app:v2")}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:56a055463f98aa4c, instance "0", restarts 0, ImagePullBackOff, after 0, in truth `},
		{"cannot be pulled later, and back", []act{broken("app:v2", true), settle, use("app:v2"), settle, use("app:v1")}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:56a055463f98aa4c, instance "1", restarts 1, running, ready, in truth app:v1`},
		{"back before the node has noticed", []act{broken("app:v2", true), settle, use("app:v2"), use("app:v1")}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:56a055463f98aa4c, instance "0", restarts 0, running, ready, in truth app:v1`},
		{"cannot be pulled for a while", []act{broken("app:v2", true), settle, use("app:v2"), settle, broken("app:v2", false)}, `Running: docker.io/library/app:v2 is docker.io/library/app@sha256:56a058463f98af65, instance "1", restarts 1, running, ready, in truth app:v2`},
		{"what runs already need not be pulled", []act{settle, broken("app:v1", true), crash, ready}, `Running: docker.io/library/app:v1 is docker.io/library/app@sha256:56a055463f98aa4c, instance "1", restarts 1, running, ready, in truth app:v1`},
		{"nothing crashes that does not run", []act{broken("app:v1", true), settle, crash}, `Pending: app:v1 is , instance "", restarts 0, ImagePullBackOff, in truth `},
		{"evicted", []act{settle, evict}, `Failed: docker.io/library/app:v1 is docker.io/library/app@sha256:56a055463f98aa4c, instance "0", restarts 0, ended, in truth `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t)
			for _, do := range append(tc.do, settle) {
				do(c)
			}
			if diff := cmp.Diff(tc.want, describeContainer(c)); diff != "" {
				t.Errorf("container (-want +got):\n%s", diff)
			}
			if c.nodes.Settle() {
				t.Error("settled, there was more to do")
			}
		})
	}
}

// TestKnown: Known returns the Pods that kubelets have observed, without the Pods whose deletion the kubelets have
// observed.
func TestKnown(t *testing.T) {
	c := newCluster(t)
	c.must(c.user.Create(t.Context(), named("web-1")))
	counts := []int{len(c.nodes.Known())}
	for _, do := range []act{observe, schedule, observe, settle, deletePod, settle, observe} {
		do(c)
		counts = append(counts, len(c.nodes.Known()))
	}
	// Settle also observes web-1. Settle removes web-0 from the server, and the kubelet forgets web-0 at the next
	// Observe.
	if diff := cmp.Diff([]int{0, 0, 0, 1, 2, 2, 2, 1}, counts); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if c.nodes.Observe(types.NamespacedName{Namespace: "default", Name: "web-1"}, ""); len(c.nodes.Known()) != 1 {
		t.Errorf("looked at by name: %v", c.nodes.Known())
	}
}

// TestCollectGarbage covers the garbage collector and the protection of claims.
func TestCollectGarbage(t *testing.T) {
	owner := func(uids ...types.UID) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, uid := range uids {
				pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "faultapi.test/v1", Kind: "Thing", Name: "web", UID: uid})
			}
		}
	}
	const alive, gone types.UID = "uid-000001", "uid-999999"
	foreign := func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.test/v1", Kind: "Other", Name: "web", UID: gone}}
	}
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"no owner", func(*corev1.Pod) {}, "web-0 map[]"},
		{"an owner that is there", owner(alive), "web-0 map[]"},
		{"an owner that is gone", owner(gone), ""},
		{"one of two owners is there", owner(gone, alive), "web-0 map[]"},
		{"an owner of a kind that the server does not have", foreign, "web-0 map[]"},
		{"an owner that is gone, and a finalizer", func(pod *corev1.Pod) { owner(gone)(pod); held(pod) }, "web-0 map[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t)
			s.must(s.user.Create(t.Context(), &thing{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}))
			pod := named("web-0")
			tc.pod(pod)
			s.must(s.user.Create(t.Context(), pod))
			before := s.server.Version()
			if changed := s.server.CollectGarbage(); changed != (s.server.Version() != before) {
				t.Errorf("changed: %v", changed)
			}
			if diff := cmp.Diff(tc.want, inventory(s.server)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if s.server.CollectGarbage() {
				t.Error("there was more to do")
			}
		})
	}
}

func TestClaimProtection(t *testing.T) {
	for _, tc := range []struct {
		name              string
		deleted, used, on bool
		want              int
	}{
		{"nobody wants it gone", false, false, false, 1},
		{"deleted, and no Pod uses it", true, false, false, 0},
		{"deleted, and a Pod without node uses it", true, true, false, 0},
		{"deleted, and a Pod on a node uses it", true, true, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, func(pod *corev1.Pod) {
				pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
				if tc.used {
					pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
				}
			})
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
			c.must(c.user.Create(t.Context(), claim))
			if tc.on {
				c.nodes.Schedule(c.pod, "node-0")
			}
			if tc.deleted {
				c.must(c.user.Delete(t.Context(), claim))
			}
			c.server.CollectGarbage()
			if got := len(faultapi.All[*corev1.PersistentVolumeClaim](c.server)); got != tc.want {
				t.Errorf("claims left: %d, want %d", got, tc.want)
			}
			if tc.deleted && tc.on { // the last Pod is deleted
				c.nodes.Settle()
				c.must(c.user.Delete(t.Context(), c.pod))
				c.nodes.Settle()
				if c.server.CollectGarbage(); len(faultapi.All[*corev1.PersistentVolumeClaim](c.server)) != 0 {
					t.Error("the claim stays without its Pod")
				}
			}
		})
	}
}

// TestShortenedTooLate: the grace period of a second deletion counts from the first deletion. If the period is
// already over, the kubelet still has one second, unless the deletion is forced with grace period 0 (BeforeDelete in
// k8s.io/apiserver/pkg/registry/rest).
func TestShortenedTooLate(t *testing.T) {
	for _, tc := range []struct {
		name          string
		late, seconds int64
		want          string
	}{
		{"in time", 5, 10, "10 s, ends at 10"},
		{"just in time", 10, 10, "10 s, ends at 10"},
		{"too late", 15, 10, "1 s, ends at 15"},
		{"too late, and at once", 15, 0, "gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := time.Unix(0, 0)
			server, err := faultapi.New(newScheme(t), func() time.Time { return clock })
			if err != nil {
				t.Fatal(err)
			}
			user, pod := server.Client(nil, nil), named("web-0")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(user.Create(t.Context(), pod))
			server.Nodes().Schedule(pod, "node-0")
			must(user.Delete(t.Context(), pod))
			clock = time.Unix(tc.late, 0)
			must(user.Delete(t.Context(), pod, client.GracePeriodSeconds(tc.seconds)))
			got := "gone"
			for _, left := range faultapi.All[*corev1.Pod](server) {
				got = fmt.Sprintf("%d s, ends at %d", *left.DeletionGracePeriodSeconds, left.DeletionTimestamp.Unix())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
}
