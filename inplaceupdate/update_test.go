package inplaceupdate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	stateKey = "example.com/update-state"
	graceKey = "example.com/update-grace"
	metaKey  = "example.com/runtime"
	oldState = "update-state"
	oldGrace = "update-grace"

	gate corev1.PodConditionType = "example.com/Updated"
)

var now = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return now.Add(d) }

// mustNew returns an Updater of a configuration, with default keys if the configuration has none.
func mustNew(config inplaceupdate.Config) *inplaceupdate.Updater {
	if config.Keys.StateAnnotation == "" {
		config.Keys.StateAnnotation, config.Keys.GraceAnnotation = stateKey, graceKey
	}
	u, err := inplaceupdate.New(config)
	if err != nil {
		panic(err)
	}
	return u
}

func withoutPriority(c *inplaceupdate.Config) { c.Priority = nil }

// toward returns the target of an operator that does not keep the revision in a label.
func toward(revision string, graceSeconds int32) inplaceupdate.Target {
	return inplaceupdate.Target{Revision: revision, Labels: map[string]string{}, GracePeriod: time.Duration(graceSeconds) * time.Second}
}

// newUpdater returns an Updater that delivers all supported changes. A container's launch priority is the value of
// its env variable PRIORITY.
func newUpdater(edits ...func(*inplaceupdate.Config)) *inplaceupdate.Updater {
	config := inplaceupdate.Config{
		Keys: inplaceupdate.Keys{
			StateAnnotation: stateKey, GraceAnnotation: graceKey, LegacyStateAnnotation: oldState, LegacyGraceAnnotation: oldGrace,
			RuntimeMetaAnnotation: metaKey, Gate: gate,
		},
		AllowResize: true, EnvFromMetadata: true,
		Priority: func(c *corev1.Container) (int, bool) {
			for _, e := range c.Env {
				if e.Name == "PRIORITY" {
					n, err := strconv.Atoi(e.Value)
					return n, err == nil
				}
			}
			return 0, false
		},
	}
	for _, edit := range edits {
		edit(&config)
	}
	return mustNew(config)
}

func priority(container, n int) func(*template) {
	return env(container, corev1.EnvVar{Name: "PRIORITY", Value: strconv.Itoa(n)})
}

// newPod returns a Pod of the template that runs on a node and is Ready.
func newPod(t *template) *corev1.Pod {
	t = t.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Generation = "default", "web-0", "u1", "1", 1
	pod.Spec.NodeName = "n1"
	defaultRequests(&pod.Spec)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	for _, c := range []corev1.PodConditionType{gate, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
	}
	catchUp(pod)
	return pod
}

// defaultRequests gives requests to containers that have only limits, as the API server does when a Pod is created.
func defaultRequests(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if r := &list[i].Resources; len(r.Limits) > 0 {
				*r = defaulted(*r)
			}
		}
	}
}

// status returns a node's report about a container running its spec.
func status(c *corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "sha256:" + c.Image, ContainerID: "containerd://" + c.Name + "/" + c.Image,
		Ready: true, Resources: &corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits},
	}
}

// catchUp makes the node run and report the Pod's spec.
func catchUp(pod *corev1.Pod) {
	pod.Status.ObservedGeneration = pod.Generation
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(&pod.Spec.InitContainers[i]))
	}
	if ready, known := podpatch.Ready(pod, nil); known {
		*podstate.Condition(pod, corev1.PodReady) = ready
	}
}

// send applies changes to a Pod as an API server does.
func send(pod *corev1.Pod, changes ...podpatch.Change) (*corev1.Pod, error) {
	patches, err := podpatch.Merge(pod, now, changes...)
	if err != nil {
		return nil, err
	}
	for _, p := range patches.Requests {
		old, err := json.Marshal(pod)
		if err != nil {
			return nil, err
		}
		merged, err := strategicpatch.StrategicMergePatch(old, p.Body, &corev1.Pod{})
		if err != nil {
			return nil, err
		}
		next := &corev1.Pod{}
		if err := json.Unmarshal(merged, next); err != nil {
			return nil, err
		}
		if p.Subresource == "resize" {
			next.ObjectMeta = *pod.ObjectMeta.DeepCopy()
		}
		if !equality.Semantic.DeepEqual(pod.Spec, next.Spec) {
			next.Generation++
		}
		next.ResourceVersion += "1"
		pod = next
	}
	return pod, nil
}

func write(t testing.TB, pod *corev1.Pod, changes ...podpatch.Change) *corev1.Pod {
	t.Helper()
	pod, err := send(pod, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func mustStart(t testing.TB, c *inplaceupdate.Updater, pod *corev1.Pod, from, to *template, target inplaceupdate.Target, at time.Time) podpatch.Change {
	t.Helper()
	before := pod.DeepCopy()
	change, err := c.Start(pod, c.Plan(from, to), target, at)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, pod) {
		t.Errorf("Start modified the Pod:\n%s", cmp.Diff(before, pod))
	}
	return change
}

func mustNext(t testing.TB, c *inplaceupdate.Updater, pod *corev1.Pod, at time.Time) inplaceupdate.Step {
	t.Helper()
	before := pod.DeepCopy()
	step, err := c.Next(pod, at)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, pod) {
		t.Errorf("Next modified the Pod:\n%s", cmp.Diff(before, pod))
	}
	return step
}

func codes(list reason.List) []string {
	var out []string
	for _, why := range list {
		out = append(out, string(why.Code))
	}
	return out
}

// images returns the images of the containers, native sidecars included.
func images(pod *corev1.Pod) string {
	var out []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out = append(out, list[i].Image)
		}
	}
	return strings.Join(out, " ")
}

// Example takes a Pod through a whole update with a grace period.
func Example() {
	updater, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update-state", GraceAnnotation: "example.com/update-grace", Gate: gate,
		Reserved: []string{"example.com/revision"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	old, wanted := newTemplate(), newTemplate(image("app", "app:v2"))
	pod := newPod(old)

	target := inplaceupdate.Target{
		Revision: "web-2", Labels: map[string]string{"example.com/revision": "web-2"}, GracePeriod: 30 * time.Second,
	}
	change, err := updater.Start(pod, updater.Plan(old, wanted), target, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	pod, _ = send(pod, change)
	for _, at := range []time.Duration{10 * time.Second, 31 * time.Second, 32 * time.Second, 40 * time.Second} {
		step, err := updater.Next(pod, now.Add(at))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(at, "ready:", podstate.IsTrue(pod, corev1.PodReady), "image:", pod.Spec.Containers[0].Image, "complete:", step.Complete)
		for _, why := range step.Waiting {
			fmt.Println("  ", why.Code, why.Detail)
		}
		pod, _ = send(pod, step.Change)
		if at > 31*time.Second {
			catchUp(pod) // the node restarts the container, and later sees the open gate
		}
	}
	fmt.Println("ready:", podstate.IsTrue(pod, corev1.PodReady))
	// Output:
	// 10s ready: false image: app:v1 complete: false
	//    GracePeriodRunning ends 2026-07-01T10:00:31Z
	// 31s ready: false image: app:v1 complete: false
	// 32s ready: false image: app:v2 complete: false
	//    NotObserved node n1 has not seen the newest spec
	//    ImageNotRunning container app still runs app:v1 (sha256:app:v1), not app:v2
	// 40s ready: false image: app:v2 complete: true
	// ready: true
}
