package inplaceupdate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
)

// nodeWorld simulates a node with a single container, and reports as containerd and the kubelet do. Users ask for
// images by tag, by digest or by both. Some images cannot be pulled.
type nodeWorld struct {
	*rand.Rand

	// tags are the node's known tags, by digest. The node reports the first tag in order.
	tags map[string][]string
	// byIndex holds the images that the node knows by the digest of their index. The node knows all other images by
	// the digest of their manifest.
	byIndex map[string]bool
	// patient says whether the node reports status.observedGeneration, so that waiting can prove an image.
	patient bool
	// seenGeneration and seenImage are the generation and image of the spec when the kubelet last read the Pod.
	seenGeneration int64
	seenImage      string
	// instance is the number of the running or last instance, and started is the image at its start.
	instance int
	started  string
	exited   bool
}

// digestFor returns the digest of an image in the registry: images whose names end in the same digit are the same
// image.
func digestFor(image string) string { return strings.Repeat(image[len(image)-1:], 4) }

func pullable(image string) bool { return digestFor(image) != "9999" }

// anyImage returns at random one of three images, under one of several names, or an image that cannot be pulled.
func (w *nodeWorld) anyImage() string {
	n := []int{1, 2, 3, 9}[w.IntN(4)]
	return fmt.Sprintf([]string{"app:v%d", "app:v%d", "app:retag%d", "app@sha256:%[1]d%[1]d%[1]d%[1]d", "app:v%[1]d@sha256:%[1]d%[1]d%[1]d%[1]d", "app@sha256:i%[1]d%[1]d%[1]d%[1]d"}[w.IntN(6)], n)
}

// start runs a new instance of the image in the spec that the kubelet has read, if the node can pull the image.
func (w *nodeWorld) start() {
	if w.exited = !pullable(w.seenImage); w.exited {
		return
	}
	w.instance++
	w.started = w.seenImage
	if tag, _, _ := strings.Cut(w.started, "@"); strings.Contains(tag, ":") {
		w.learnTag(digestFor(w.started), "docker.io/library/"+tag)
	}
}

func (w *nodeWorld) learnTag(digest, tag string) {
	if !slices.Contains(w.tags[digest], tag) {
		w.tags[digest] = append(w.tags[digest], tag)
		slices.Sort(w.tags[digest])
	}
}

// happens simulates a random event on the node.
func (w *nodeWorld) happens(pod *corev1.Pod) {
	switch w.IntN(8) {
	case 0: // another workload pulls the Pod's image under another name
		n := 1 + w.IntN(3)
		w.learnTag(strings.Repeat(fmt.Sprint(n), 4), fmt.Sprintf("docker.io/library/app:%c%d", "az"[w.IntN(2)], n))
	case 1: // a crash
		if w.seenImage == w.started {
			w.start()
		}
	case 2, 3:
		w.look(pod)
		w.report(pod) // the kubelet reports before acting
	case 4, 5:
		w.act()
	default:
		w.report(pod)
	}
}

func (w *nodeWorld) look(pod *corev1.Pod) {
	w.seenGeneration, w.seenImage = pod.Generation, pod.Spec.Containers[0].Image
}

func (w *nodeWorld) act() {
	if w.seenImage != w.started || w.exited {
		w.start()
	}
}

func (w *nodeWorld) report(pod *corev1.Pod) {
	digest := digestFor(w.started)
	image := "sha256:configuration-of-" + digest
	if len(w.tags[digest]) > 0 {
		image = w.tags[digest][0]
	}
	id := digest
	if w.byIndex[digest] {
		id = "i" + digest
	}
	pod.Status.ObservedGeneration = w.seenGeneration
	status := corev1.ContainerStatus{
		Name: "app", Image: image, ImageID: "docker.io/library/app@sha256:" + id, ContainerID: fmt.Sprint("containerd://", w.instance), Ready: !w.exited,
	}
	if w.patient && !w.exited {
		status.State.Running = &corev1.ContainerStateRunning{}
	}
	if w.exited {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	}
	pod.Status.ContainerStatuses[0] = status
}

// TestNodesThatReportDigests runs a fixed number of the fuzz target's cases with every test run.
func TestNodesThatReportDigests(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(600) {
		ends[checkImages(t, seed)]++
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if ends["complete"] < 300 || ends["cannot be pulled"] == 0 || ends["undecidable"] == 0 {
		t.Errorf("the world lacks something: %v", ends)
	}
	t.Log(ends)
}

func FuzzNodesThatReportDigests(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkImages(t, seed) })
}

// checkImages asks for image after image, and checks that the Pod is complete when the last image runs, and not before.
func checkImages(t *testing.T, seed uint64) string {
	w := &nodeWorld{Rand: rand.New(rand.NewPCG(seed, 11)), tags: map[string][]string{}, byIndex: map[string]bool{}}
	w.patient = w.IntN(2) == 0
	for _, n := range "123" {
		w.byIndex[strings.Repeat(string(n), 4)] = w.IntN(2) == 0
	}
	updater := newUpdater()
	from := newTemplate(appImage("app:v1"))
	pod := newPod(from)
	w.look(pod)
	w.act()
	w.report(pod)
	at := now
	for revision := range 1 + w.IntN(5) {
		to := newTemplate(appImage(w.anyImage()), label("x", fmt.Sprint(w.IntN(2))))
		target := toward(fmt.Sprint(revision), int32(w.IntN(4)/3*30))
		pod, from = write(t, pod, mustStart(t, updater, pod, from, to, target, at)), to
		for range w.IntN(8) {
			if !w.patient { // if waiting counts as proof, the kubelet must act within the proof time
				at = at.Add(time.Duration(w.IntN(20)) * time.Second)
			}
			w.happens(pod)
			pod = w.next(t, updater, pod, at)
		}
	}
	for at = after(24 * time.Hour); at.Before(after(30 * time.Hour)); at = at.Add(time.Hour) {
		w.look(pod)
		w.act()
		w.report(pod)
		step := mustNext(t, updater, pod, at)
		pod = write(t, pod, step.Change)
	}
	return w.end(t, updater, pod, at)
}

// next writes the change that Next returns, and fails the test if Next calls the update of a Pod complete that runs
// another image.
func (w *nodeWorld) next(t *testing.T, updater *inplaceupdate.Updater, pod *corev1.Pod, at time.Time) *corev1.Pod {
	step := mustNext(t, updater, pod, at)
	asked := pod.Spec.Containers[0].Image
	reported := pod.Status.ContainerStatuses[0].ContainerID == fmt.Sprint("containerd://", w.instance)
	if step.Complete && reported && digestFor(asked) != digestFor(w.started) {
		t.Errorf("complete: asked for %s, instance %d runs %s, reported as %+v, state %s", asked, w.instance, w.started,
			pod.Status.ContainerStatuses[0], pod.Annotations[stateKey])
	}
	return write(t, pod, step.Change)
}

func (w *nodeWorld) end(t *testing.T, updater *inplaceupdate.Updater, pod *corev1.Pod, at time.Time) string {
	pod = w.next(t, updater, pod, at)
	step := mustNext(t, updater, pod, at)
	asked := pod.Spec.Containers[0].Image
	if raw := pod.Annotations[stateKey]; len(raw) > 2000 {
		t.Errorf("a state of %d bytes: %s", len(raw), raw)
	}
	switch {
	case !pullable(asked):
		return "cannot be pulled"
	case step.Complete:
		return "complete"
	case !w.patient && strings.Contains(step.Waiting.String(), "only time can tell"):
		return "undecidable"
	}
	t.Errorf("asked for %s, instance %d runs %s, reported as %+v, waits %v, state %s", asked, w.instance, w.started,
		pod.Status.ContainerStatuses[0], step.Waiting, pod.Annotations[stateKey])
	return "stuck"
}
