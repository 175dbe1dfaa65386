package realnode_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// imageNames runs updates in which only the image names in the Pod's status can show that the update has ended.
func (f *fixture) imageNames(t *testing.T, fresh func(f *fixture, name string) workload) {
	t.Helper()
	f.sideBySide(t, fresh, []scenario{
		{"retag-later", (*fixture).retagLater},
		{"retag-earlier", (*fixture).retagEarlier},
		{"digests", (*fixture).digests},
		{"pin", (*fixture).pin},
		{"two-tags", (*fixture).twoTags},
		{"missing-tag", (*fixture).missingTag},
	})
}

// retagEarlier checks an update to another tag of the same digest where the Node reports the new tag. The update is
// complete at once.
func (f *fixture) retagEarlier(w workload) {
	if took := f.retag(w, "b", "a", "a"); took >= untilProven {
		f.t.Errorf("the gate opened %s after the restart, want less than %s", took, untilProven)
	}
}

// retagLater checks an update to another tag of the same digest where the Node reports the old tag. The update is
// complete only after some time, and the Pod is out of service until then.
func (f *fixture) retagLater(w workload) {
	if took := f.retag(w, "y", "z", "y"); took < untilProven {
		f.t.Errorf("the gate opened %s after the restart, want %s or more", took, untilProven)
	}
}

const (
	// terminationGrace is the grace period of Pods whose updates are complete only after some time.
	terminationGrace = time.Second
	// untilProven is the longest life of a container whose image differs from the Pod's spec. The kubelet ends such a
	// container before this time has passed.
	untilProven = terminationGrace + 10*time.Second
)

// retag updates a Pod to another tag of the same digest, and returns the time from the restart to the opening of the
// Pod's readiness gate. The container restarts, and its imageID does not change. status.image is the first tag of the
// digest in alphabetical order, whichever tag is in the spec.
func (f *fixture) retag(w workload, from, to, reported string) time.Duration {
	f.t.Helper()
	before := &f.create(w, 1, setImage(0, f.image(f.version(w, from))), func(template *corev1.PodTemplateSpec) {
		template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(terminationGrace.Seconds()))
	})[0]
	f.logApp("from "+from, before)
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	after := &f.change(w, setImage(0, f.tag(w, from, to)))[0]
	f.logApp("to "+to, after)
	f.restartedOnce(before, after)
	was, app := podstate.ContainerStatus(before, "app"), podstate.ContainerStatus(after, "app")
	if app.Image != f.image(f.version(w, reported)) || app.ImageID != was.ImageID {
		f.t.Errorf("before: %+v\nafter: %+v", was, app)
	}
	var open []bool
	for _, event := range recorder.Events() {
		if event.Pod.UID == after.UID {
			open = append(open, gatesOpen(event.Pod))
		}
	}
	if diff := cmp.Diff([]bool{true, false, true}, slices.Compact(open)); diff != "" {
		f.t.Errorf("the gates are open, over time (-want +got):\n%s", diff)
	}
	opened := podstate.Condition(after, after.Spec.ReadinessGates[0].ConditionType).LastTransitionTime
	took := opened.Sub(app.State.Running.StartedAt.Time)
	f.t.Logf("the gate opens %s after the restart", took)
	return took
}

// digests checks updates between images that are named by digest alone. After an update to a digest that no registry
// has, the Pod is rolled back.
func (f *fixture) digests(w workload) {
	one, two := f.version(w, "one"), f.version(w, "two")
	before := &f.create(w, 1, setImage(0, f.digest(one)))[0]
	f.logApp("digest one", before)
	after := &f.change(w, setImage(0, f.digest(two)))[0]
	f.logApp("digest two", after)
	f.restartedOnce(before, after)
	f.serves(after, two)
	repository, _, _ := strings.Cut(f.digest(two), "@")
	f.rollback(w, repository+"@sha256:"+strings.Repeat("0", 64), two)
}

// pin checks updates from a tag to the digest of the tag, and back to the tag. The container restarts, and nothing
// else changes.
func (f *fixture) pin(w workload) {
	version := f.version(w, "one")
	before := &f.create(w, 1, setImage(0, f.image(version)))[0]
	f.logApp("tag", before)
	pinned := &f.change(w, setImage(0, f.digest(version)))[0]
	f.logApp("its digest", pinned)
	f.restartedOnce(before, pinned)
	after := &f.change(w, setImage(0, f.image(version)))[0]
	f.logApp("the tag again", after)
	f.restartedOnce(pinned, after)
	f.serves(after, version)
}

// twoTags checks a rollback from a missing tag. The Node reports the old image under another tag, which another Pod
// has pulled.
func (f *fixture) twoTags(w workload) {
	version := f.version(w, "b")
	f.create(w, 1, setImage(0, f.image(version)))
	f.pull(w.name()+"-other", f.tag(w, "b", "a"))
	after := f.rollback(w, f.image(version)+"-missing", version)
	if got, want := podstate.ContainerStatus(after, "app").Image, f.image(f.version(w, "a")); got != want {
		f.t.Errorf("the Node reports %s, want %s", got, want)
	}
}

// missingTag checks a rollback from a tag that no registry has.
func (f *fixture) missingTag(w workload) {
	version := f.version(w, "one")
	f.create(w, 1, setImage(0, f.image(version)))
	f.rollback(w, f.image(version)+"-missing", version)
}

// rollback updates the Pod of the workload to an image that cannot be pulled, and then back to the image of the
// version. rollback returns the Pod when the Pod is in service again.
func (f *fixture) rollback(w workload, broken, version string) *corev1.Pod {
	f.t.Helper()
	before := &f.pods(w)[0]
	image := podstate.Container(before, "app").Image
	f.logApp("before", before)
	f.edit(w, setImage(0, broken))
	controlplanetest.Eventually(f.t, within, func(context.Context) error {
		pod := &f.pods(w)[0]
		waiting := podstate.ContainerStatus(pod, "app").State.Waiting
		if waiting == nil || !strings.Contains(waiting.Reason, "ImagePull") || podstate.IsReady(pod) {
			return fmt.Errorf("Pod %s, app: %+v", pod.Name, podstate.ContainerStatus(pod, "app"))
		}
		f.logApp("broken", pod)
		return nil
	})
	after := &f.change(w, setImage(0, image))[0]
	f.logApp("back", after)
	f.restartedOnce(before, after)
	f.serves(after, version)
	return after
}

// version returns an image tag that no other workload uses, because the Node keeps every tag that was pulled.
func (f *fixture) version(w workload, name string) string {
	return f.namespace + "-" + w.name() + "-" + name
}

// tag gives the image of the workload's version a second tag, and returns the name of the image with this tag.
func (f *fixture) tag(w workload, version, tag string) string {
	f.t.Helper()
	image, err := f.node.Retag(f.version(w, version), f.version(w, tag))
	if err != nil {
		f.t.Fatal(err)
	}
	return image
}

func (f *fixture) digest(version string) string {
	f.t.Helper()
	image, err := f.node.Digest(version)
	if err != nil {
		f.t.Fatal(err)
	}
	return image
}

// restartedOnce checks that a Pod is in service and that only the container app has restarted, once.
func (f *fixture) restartedOnce(before, after *corev1.Pod) {
	f.t.Helper()
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" {
		f.t.Errorf("the Pod changed (-before +after):\n%s", diff)
	}
	want := restarts(before)
	want["app"]++
	if diff := cmp.Diff(want, restarts(after)); diff != "" || !podstate.IsReady(after) {
		f.t.Errorf("ready %t; restarts (-want +got):\n%s", podstate.IsReady(after), diff)
	}
}

// allRestartedOnce checks every Pod as restartedOnce does.
func (f *fixture) allRestartedOnce(before, after []corev1.Pod) {
	f.t.Helper()
	if len(before) != len(after) {
		f.t.Fatalf("%d Pods before, %d after", len(before), len(after))
	}
	for i := range after {
		f.restartedOnce(&before[i], &after[i])
	}
}

func (f *fixture) serves(pod *corev1.Pod, version string) {
	f.t.Helper()
	if got := f.ask(pod, 8080, http.MethodGet, "/", nil, ""); got != version {
		f.t.Errorf("app serves %q, want %s", got, version)
	}
}

// logApp logs the status of container app that the Node has reported.
func (f *fixture) logApp(step string, pod *corev1.Pod) {
	f.t.Helper()
	app := podstate.ContainerStatus(pod, "app")
	state := "running"
	if app.State.Waiting != nil {
		state = app.State.Waiting.Reason
	}
	f.t.Logf("%s: spec %s, image %s, imageID %s, containerID %s, restarts %d, %s",
		step, podstate.Container(pod, "app").Image, app.Image, app.ImageID, app.ContainerID, app.RestartCount, state)
}
