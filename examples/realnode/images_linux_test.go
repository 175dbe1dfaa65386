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

// imageNames runs updates whose end shows only in the Node's names of images.
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

// retagEarlier: the new image is another tag of the same digest, and the Node reports the new tag. So the update is
// complete at once.
func (f *fixture) retagEarlier(w workload) {
	if took := f.retag(w, "b", "a", "a"); took >= untilProven {
		f.t.Errorf("the gate opened %s after the restart, want less than %s", took, untilProven)
	}
}

// retagLater: the Node reports the old tag, so that only time proves the new tag. The Pod is out of service until then.
func (f *fixture) retagLater(w workload) {
	if took := f.retag(w, "y", "z", "y"); took < untilProven {
		f.t.Errorf("the gate opened %s after the restart, want %s or more", took, untilProven)
	}
}

const (
	// terminationGrace is the grace period of Pods whose updates only time can prove.
	terminationGrace = time.Second
	// untilProven is the longest life of a container whose image differs from the Pod's spec. Later, the kubelet would
	// have ended the container.
	untilProven = terminationGrace + 10*time.Second
)

// retag updates to another tag of the same digest, and returns the time from the restart to the opening of the Pod's
// gate. The container restarts, and its imageID stays. status.image is the digest's first tag in alphabetical order,
// whatever tag the spec asks for.
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

// digests: a Pod is updated between images named by digest alone. After an update to a digest that no registry has, the
// Pod is rolled back.
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

// pin: a tag, the tag's digest, and the tag again. The container restarts though nothing else changes.
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

// twoTags: back from a missing tag to an image reported by the Node under a tag pulled by another Pod.
func (f *fixture) twoTags(w workload) {
	version := f.version(w, "b")
	f.create(w, 1, setImage(0, f.image(version)))
	f.pull(w.name()+"-other", f.tag(w, "b", "a"))
	after := f.rollback(w, f.image(version)+"-missing", version)
	if got, want := podstate.ContainerStatus(after, "app").Image, f.image(f.version(w, "a")); got != want {
		f.t.Errorf("the Node reports %s, want %s", got, want)
	}
}

// missingTag: back from a tag unknown to every registry.
func (f *fixture) missingTag(w workload) {
	version := f.version(w, "one")
	f.create(w, 1, setImage(0, f.image(version)))
	f.rollback(w, f.image(version)+"-missing", version)
}

// rollback updates the workload's Pod to an image that cannot be pulled, and back to the running image of the version.
// rollback returns the Pod, in service again.
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

// version names a version unused by other workloads: a Node never forgets a tag.
func (f *fixture) version(w workload, name string) string {
	return f.namespace + "-" + w.name() + "-" + name
}

// tag gives the image of the workload's version another tag and returns its name.
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

// restartedOnce demands that a Pod in service is unchanged except for a restart of container app.
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

// allRestartedOnce calls restartedOnce for every Pod.
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

// logApp logs the Node's report of container app.
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
