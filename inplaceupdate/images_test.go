package inplaceupdate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
)

// A story is a Pod and a text of events, most of them about container app. The test runs the events in the order of
// the text:
//
//	ask IMAGE               another template
//	grace IMAGE             another template, with a grace period
//	over                    the grace period ends
//	node TAG DIGEST ID      what the node reports of app, having seen the newest spec; "-" for a TAG means none
//	pull                    the node cannot pull the image: the node still reports the last instance, exited
//	fresh                   the node reports a never started container
//	runs, waits             the update is complete, or is not
type story struct {
	t        *testing.T
	updater  *inplaceupdate.Updater
	pod      *corev1.Pod
	from     *template
	revision int
}

func (s *story) ask(image string, grace int32) {
	to := newTemplate(appImage(image))
	s.revision++
	target := toward(fmt.Sprint(s.revision), grace)
	s.pod = write(s.t, s.pod, mustStart(s.t, s.updater, s.pod, s.from, to, target, now))
	s.from = to
}

func appImage(name string) func(*template) {
	return func(t *template) { t.Spec.Containers[0].Image = name }
}

// node reports like containerd: by any known tag, otherwise by the digest of the image's configuration.
func (s *story) node(tag, digest, id string) {
	s.pod.Status.ObservedGeneration = s.pod.Generation
	image := "docker.io/library/" + tag
	if tag == "-" {
		image = "sha256:configuration-of-" + digest
	}
	s.pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name: "app", Image: image, ImageID: "docker.io/library/app@sha256:" + digest, ContainerID: "containerd://" + id, Ready: true,
		Resources: s.pod.Status.ContainerStatuses[0].Resources,
	}
}

func (s *story) waiting(fresh bool) {
	s.pod.Status.ObservedGeneration = s.pod.Generation
	status := &s.pod.Status.ContainerStatuses[0]
	status.Ready, status.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	if fresh {
		status.Image, status.ImageID, status.ContainerID = s.pod.Spec.Containers[0].Image, "", ""
	}
}

func (s *story) expect(at int, word string) {
	step := mustNext(s.t, s.updater, s.pod, now)
	if got := map[bool]string{true: "runs", false: "waits"}[step.Complete]; got != word {
		s.t.Errorf("word %d: %s, want %s: asked for %s, reported %s %s %s, state %s", at, got, word, s.pod.Spec.Containers[0].Image,
			s.pod.Status.ContainerStatuses[0].Image, s.pod.Status.ContainerStatuses[0].ImageID, s.pod.Status.ContainerStatuses[0].ContainerID, s.pod.Annotations[stateKey])
	}
	s.pod = write(s.t, s.pod, step.Change)
}

func tell(t *testing.T, first, text string) *story {
	t.Helper()
	s := &story{t: t, updater: newUpdater(), from: newTemplate(appImage(first))}
	s.pod = newPod(s.from)
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "ask":
			s.ask(words[i+1], 0)
			i++
		case "grace":
			s.ask(words[i+1], 30)
			i++
		case "over":
			s.pod = write(t, s.pod, mustNext(t, s.updater, s.pod, after(time.Hour)).Change)
		case "node":
			s.node(words[i+1], words[i+2], words[i+3])
			i += 3
		case "pull":
			s.waiting(false)
		case "fresh":
			s.waiting(true)
		case "runs", "waits":
			s.expect(i, words[i])
		default:
			t.Fatalf("word %d is %s", i, words[i])
		}
	}
	return s
}

func TestImagesAsNodesReportThem(t *testing.T) {
	const a, b, c, dead = "app@sha256:aaaa", "app@sha256:bbbb", "app@sha256:cccc", "app@sha256:dead"
	// These are images named by the digest of a platform's manifest (p) or of the image's index (i): p1 and i1 are
	// the same image.
	const p1, p2, p3, p4 = "app@sha256:p111", "app@sha256:p222", "app@sha256:p333", "app@sha256:p444"
	const i1, i2, i3 = "app@sha256:i111", "app@sha256:i222", "app@sha256:i333"
	for _, tc := range []struct{ name, first, story string }{
		{"U-23 by digest", a, "node - aaaa 1 ask " + b + " waits node - aaaa 1 waits node - bbbb 2 runs"},
		{"U-28 by digest, overtaken", a, "node - aaaa 1 ask " + b + " ask " + c + " node - bbbb 2 waits node - cccc 3 runs"},
		{"U-28 by digest, overtaken twice", a, "node - aaaa 1 ask " + b + " ask " + c + " ask app@sha256:dddd node - bbbb 2 waits node - cccc 3 waits node - dddd 4 runs"},
		{"U-23 by digest, an instance of the old image was restarted", a, "node - aaaa 1 ask " + b + " node - aaaa 2 waits node - bbbb 3 runs"},
		{"U-23 by digest, rolled back before the node looked", a, "node - aaaa 1 ask " + b + " ask " + a + " waits node - aaaa 1 runs"},
		{"U-23 by digest, rolled back from an image that cannot be pulled", a, "node - aaaa 1 ask " + dead + " pull waits ask " + a + " node - aaaa 2 runs"},
		{"U-23 by digest, another one after an image that cannot be pulled", a, "node - aaaa 1 ask " + dead + " pull waits ask " + b + " pull waits node - aaaa 2 waits node - bbbb 3 runs"},
		{"U-23 by digest, the image in between was started and is rolled back", a, "node - aaaa 1 ask " + b + " ask " + a + " node - bbbb 2 waits node - aaaa 3 runs"},
		{"U-24 a tag is pinned to its digest", "app:v1", "node app:v1 aaaa 1 ask " + a + " node app:v1 aaaa 1 waits node app:v1 aaaa 2 runs"},
		{"U-24 a tag with its digest", "app:v1", "node app:v1 aaaa 1 ask app:v1@sha256:aaaa node app:v1 aaaa 1 waits node app:v1 aaaa 2 runs"},
		{"U-24 a tag with another digest", "app:v1", "node app:v1 aaaa 1 ask app:v1@sha256:bbbb node app:v1 aaaa 2 waits node app:v1 bbbb 3 runs"},
		{"U-24 a digest gets its tag", a, "node - aaaa 1 ask app:v1 node app:v1 aaaa 1 waits node app:v1 aaaa 2 runs"},
		{"U-25 latest is spelled out: the kubelet restarts", "app", "node app:latest aaaa 1 ask app:latest node app:latest aaaa 1 waits node app:latest aaaa 2 runs"},

		{"U-24 another tag of the same image", "app:v1", "node app:v1 aaaa 1 ask app:v1-signed node app:v1 aaaa 1 waits node app:v1-signed aaaa 2 runs"},
		{"U-24 the node knew that tag already", "app:v1", "node app:stable aaaa 1 ask app:stable node app:stable aaaa 1 waits node app:stable aaaa 2 runs"},
		{"U-24 rolled back where the node reports another tag", "app:v1", "node app:stable aaaa 1 ask app:broken pull waits ask app:v1 node app:stable aaaa 2 runs"},
		{"U-24 rolled back where another workload pulled another tag meanwhile", "app:v1", "node app:v1 aaaa 1 ask app:broken pull waits ask app:v1 node app:stable aaaa 2 runs"},
		{"U-28 overtaken, and rolled back where the node reports another tag", "app:v1", "node app:stable aaaa 1 ask app:b1 ask app:b2 ask app:b3 ask app:v1 node app:b1 1111 2 waits node app:b3 3333 3 waits node app:stable aaaa 4 runs"},
		{"U-28 back and forth", "app:v1", "node app:v1 aaaa 1 ask app:v2 ask app:v1 node app:v1 aaaa 1 runs ask app:v2 node app:v1 aaaa 1 waits node app:v2 bbbb 2 runs ask app:v1 node app:v2 bbbb 2 waits node app:v1 aaaa 3 runs"},
		{"U-28 a known image was overtaken, the node reports another tag of it", "app:v2", "node app:v2 bbbb 1 ask app:v1 node app:v1 aaaa 2 runs ask app:v2 ask app:v3 node app:other bbbb 3 waits node app:v3 cccc 4 runs"},
		{"U-28 a tag overtakes a digest", a, "node - aaaa 1 ask " + b + " ask app:v3 node app:x bbbb 2 waits node app:v3 cccc 3 runs"},

		{"U-14 rolled back in the grace period", "app:v1", "node app:stable aaaa 1 grace app:v2 grace app:v1 over runs"},
		{"U-14 restarted in the grace period", "app:v1", "node app:stable aaaa 1 grace app:v2 node app:stable aaaa 2 over waits node app:stable aaaa 2 waits ask app:v1 node app:stable aaaa 2 runs"},
		{"U-28 a grace period between two overtaken updates", a, "node - aaaa 1 ask " + b + " grace app:v3 ask app:v4 node app:x bbbb 2 waits node app:v4 dddd 3 runs"},
		{"U-28 back to an unfinished update in a grace period", "app:v1", "node app:v1 aaaa 1 ask app:v2 grace app:v3 grace app:v2 ask app:v1 node app:v1 aaaa 1 runs"},

		{"a platform's manifest, reported as its index", p1, "node - i111 1 ask " + p2 + " node - i111 1 waits node - i111 2 waits node - i222 3 runs"},
		{"an index, reported as the platform's manifest", i1, "node - p111 1 ask " + i2 + " node - p111 1 waits node - p111 2 waits node - p222 3 runs"},
		{"a tag is pinned to its platform's manifest", "app:v1", "node app:v1 i111 1 ask " + p1 + " node app:v1 i111 1 waits node app:v1 i111 2 waits"},
		{"a tag is pinned to its index", "app:v1", "node app:v1 p111 1 ask " + i1 + " node app:v1 p111 1 waits node app:v1 p111 2 waits"},
		{"overtaken: the superseded image runs first", p1, "node - i111 1 ask " + p2 + " ask " + p3 + " node - i222 2 waits node - i222 2 waits node - i333 3 runs"},
		{"overtaken: the node comes to know the superseded image by another digest", p1, "node - i111 1 ask " + p2 + " ask " + p3 + " node - i222 2 waits node - x222 2 waits node - i333 3 runs"},
		{"overtaken: it crashes", p1, "node - i111 1 ask " + p2 + " ask " + p3 + " node - i222 2 waits node - i222 3 waits node - i333 4 runs"},
		{"overtaken: which of both it is cannot be known", p1, "node - i111 1 ask " + p2 + " ask " + p3 + " node - i333 2 waits"},
		{"overtaken twice: both run first", p1, "node - i111 1 ask " + p2 + " ask " + p3 + " ask " + p4 + " node - i222 2 waits node - i333 3 waits node - i444 4 runs"},
		{"overtaken, an index, reported as manifest", i1, "node - p111 1 ask " + i2 + " ask " + i3 + " node - p222 2 waits node - p333 3 runs"},
		{"overtaken by a tag", p1, "node - i111 1 ask " + p2 + " ask app:v3 node app:x i222 2 waits node app:v3 i333 3 runs"},
		{"overtaken by another tag", p1, "node - i111 1 ask " + p2 + " ask app:v3 node app:x i222 2 waits node app:y i333 3 runs"},
		{"an unknown tag is overtaken", "app:v1", "node app:v1 i111 1 ask app:v2 ask " + p3 + " node app:x i222 2 waits node app:y i333 3 waits"},
		{"overtaken and asked again", p1, "node - i111 1 ask " + p2 + " ask " + p3 + " ask " + p2 + " node - i222 2 waits node - i333 3 waits node - i222 4 waits"},
		{"a known image is overtaken", p1, "node - i111 1 ask " + p2 + " node - i222 2 runs ask " + p3 + " ask " + p1 + " ask " + p2 + " node - i111 3 waits node - i222 4 runs"},
		{"rolled back before the node looked", p1, "node - i111 1 ask " + p2 + " ask " + p1 + " node - i111 1 runs"},
		{"rolled back, the image in between was started", p1, "node - i111 1 ask " + p2 + " ask " + p1 + " node - i222 2 waits node - i111 3 runs"},
		{"rolled back from an image that cannot be pulled", p1, "node - i111 1 ask " + p2 + " pull waits ask " + p1 + " node - i111 2 runs"},
		{"an update of a grace period is overtaken", p1, "node - i111 1 ask " + p2 + " grace " + p3 + " node - i222 2 waits over node - i222 2 waits node - i333 3 runs"},

		{"U-23 a container that was never started", "app:v1", "node app:v1 aaaa 1 ask app:v2 fresh waits node app:v2 bbbb 2 runs"},
		{"U-13 its first image is not there yet", "app:v1", "fresh ask app:v2 fresh waits node app:v1 aaaa 1 waits node app:v2 bbbb 2 runs"},
	} {
		t.Run(tc.name, func(t *testing.T) { tell(t, tc.first, tc.story) })
	}
}

// TestImageIDs: each case is a form in which container runtimes report image names.
func TestImageIDs(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		want     bool
	}{
		{"containerd", "docker.io/library/app@sha256:bbbb", true},
		{"docker", "docker-pullable://app@sha256:bbbb", true},
		{"of another repository", "mirror.example:5000/other@sha256:bbbb", true},
		{"no repository", "sha256:bbbb", true},
		{"docker, no repository", "docker://sha256:bbbb", true},
		{"what it ran before", "docker.io/library/app@sha256:aaaa", false},
		{"what it ran before, from another repository", "mirror.example/app@sha256:aaaa", false},
		{"none", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tell(t, "app@sha256:aaaa", "node - aaaa 1 ask app@sha256:bbbb node - cccc 2")
			s.pod.Status.ContainerStatuses[0].ImageID = tc.id
			if step := mustNext(t, s.updater, s.pod, now); step.Complete != tc.want {
				t.Errorf("%s: complete %v, waiting %v", tc.id, step.Complete, step.Waiting)
			}
		})
	}
}

// TestKnownImages: the recorded images are enough to prove the next rollback, and their number is limited.
func TestKnownImages(t *testing.T) {
	known := func(s *story) string {
		state, err := s.updater.Saved(s.pod)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, k := range state.KnownImages["app"] {
			out = append(out, k.Image+" "+strings.TrimPrefix(k.ImageID, "sha256:")+" "+strings.TrimPrefix(k.ContainerID, "containerd://"))
		}
		return strings.Join(out, ", ")
	}
	five := "node app:v1 1111 1"
	for i := 2; i <= 5; i++ {
		five += fmt.Sprintf(" ask app:v%d node app:v%d %d%d%d%d %d runs", i, i, i, i, i, i, i)
	}
	for _, tc := range []struct{ name, story, want string }{
		{"the image before", "node app:v1 1111 1 ask app:v2", "app:v1 1111 1"},
		{"not an image that does not run", "node app:v1 1111 1 ask app:v2 node app:v1 1111 1 ask app:v3", "app:v1 1111 1"},
		{"not before the node has seen the spec", "node app:v1 1111 1 ask app:v2 ask app:v3 ask app:v4", "app:v1 1111 1"},
		{"a few", five, "app:v2 2222 2, app:v3 3333 3, app:v4 4444 4"},
		{"each image once, as it was seen last", "node app:v1 1111 1 ask app:v2 node app:v2 2222 2 ask app:v1 node app:v1 9999 3 ask app:v3", "app:v2 2222 2, app:v1 9999 3"},
		{"restarted in the grace period", "node app:v1 1111 1 grace app:v2 node app:v1 1111 2 over", "app:v1 1111 2"},
		{"not while nothing is reported", "fresh ask app:v2", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tell(t, "app:v1", tc.story)
			if diff := cmp.Diff(tc.want, known(s)); diff != "" {
				t.Errorf("known (-want +got):\n%s", diff)
			}
			// A change of another field keeps the known images.
			to := s.from.DeepCopy()
			to.Labels["x"] = "1"
			s.pod = write(t, s.pod, mustStart(t, s.updater, s.pod, s.from, to, toward("x", 0), now))
			if diff := cmp.Diff(tc.want, known(s)); diff != "" {
				t.Errorf("after a change of labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRetagThatCannotBeSeen: after an update to another tag of the same image, the node's report does not show
// whether the container was restarted. The reason then names a remedy.
func TestRetagThatCannotBeSeen(t *testing.T) {
	for _, tc := range []struct {
		name, story string
		want        bool
	}{
		{"not restarted", "node app:a aaaa 1 ask app:v2 node app:a aaaa 1", false},
		{"restarted, or not yet", "node app:a aaaa 1 ask app:v2 node app:a aaaa 2", true},
		{"restarted, or it is the overtaken image", "node app:a aaaa 1 ask app:b ask app:v2 node app:b bbbb 2", true},
		{"a digest", "node app:a aaaa 1 ask app@sha256:bbbb node app:a aaaa 2", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tell(t, "app:v1", tc.story)
			step := mustNext(t, s.updater, s.pod, now)
			if len(step.Waiting) != 1 || strings.Contains(step.Waiting[0].Remedy, "by digest") != tc.want {
				t.Fatalf("waiting %v", step.Waiting)
			}
			status := s.pod.Status.ContainerStatuses[0]
			want := "container app still runs " + status.Image + " (" + status.ImageID + "), not " + s.pod.Spec.Containers[0].Image
			if diff := cmp.Diff(want, step.Waiting[0].Detail); diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProvenByTime: if a kubelet has observed the newest spec and has let an instance run for longer than a
// termination takes, the instance runs the spec's image, whatever name the kubelet reports.
func TestProvenByTime(t *testing.T) {
	const retag, overtaken = "node app:a aaaa 1 ask app:v2 node app:a aaaa 2", "node app:a aaaa 1 ask app:b ask app:v2 node app:other bbbb 2"
	none := func(*corev1.Pod) {}
	for _, tc := range []struct {
		name, story string
		change      func(*corev1.Pod) // edits the Pod at the first report
		later       func(*corev1.Pod) // edits the Pod at the end of the proof time
		clock, want bool              // whether the proof time begins, and whether it proves the image
	}{
		{"left alone", retag, none, none, true, true},
		{"an overtaken image of unknown digest", overtaken, none, none, true, true},
		{"restarted meanwhile", retag, none, func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].ContainerID = "containerd://3" }, true, false},
		{"ended meanwhile", retag, none, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		}, true, false},
		{"the instance from before", "node app:a aaaa 1 ask app:v2 node app:a aaaa 1", none, none, false, false},
		{"another digest than the one that is asked for: of its index", "node - aaaa 1 ask app@sha256:bbbb node - aaaa 2", none, none, true, true},
		{"an overtaken digest or the one that is asked for", "node - aaaa 1 ask app@sha256:bbbb ask app@sha256:cccc node - dddd 2", none, none, true, true},
		{"another digest than the image is known by", "node app:v1 aaaa 1 ask app@sha256:bbbb node - cccc 2 runs ask app:v1 node - cccc 3", none, none, false, false},
		{"the node has not seen the spec", retag, func(pod *corev1.Pod) { pod.Status.ObservedGeneration = pod.Generation - 1 }, none, false, false},
		{"the node does not say what it has seen", retag, func(pod *corev1.Pod) { pod.Status.ObservedGeneration = 0 }, none, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tell(t, "app:v1", tc.story)
			pod := s.pod
			pod.Generation = max(pod.Generation, 2)
			pod.Status.ObservedGeneration = pod.Generation
			pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
			tc.change(pod)
			step := mustNext(t, s.updater, pod, after(time.Hour)) // the proof time does not begin with the update
			if step.Complete || (step.RequeueAfter == 40*time.Second) != tc.clock || step.Change.IsEmpty() == tc.clock {
				t.Fatalf("complete %v, again in %v, writes %+v", step.Complete, step.RequeueAfter, step.Change)
			}
			pod = write(t, pod, step.Change)
			if step = mustNext(t, s.updater, pod, after(time.Hour+39*time.Second)); step.Complete || !step.Change.IsEmpty() {
				t.Fatalf("before the time is over: complete %v, writes %+v", step.Complete, step.Change)
			}
			tc.later(pod)
			if step = mustNext(t, s.updater, pod, after(time.Hour+40*time.Second)); step.Complete != tc.want {
				t.Fatalf("complete %v, want %v, waiting %v", step.Complete, tc.want, step.Waiting)
			}
			if !step.Complete {
				return
			}
			pod = write(t, pod, step.Change)
			pod.Status.ContainerStatuses[0].ContainerID = "containerd://9" // after a later crash, the image needs no new proof
			if step = mustNext(t, s.updater, pod, after(2*time.Hour)); !step.Complete || strings.Contains(pod.Annotations[stateKey], `"seen"`) {
				t.Errorf("after a crash: complete %v, state %s", step.Complete, pod.Annotations[stateKey])
			}
		})
	}
}

// TestEnvOfAnImageThatIsTakenBack: a container reads new metadata when its image restarts the container. If the image
// is taken back, the container may never restart, so a node agent must report a restart.
func TestEnvOfAnImageThatIsTakenBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		// Each step is a template: image, value of the annotation read by env, and a label. The word "ran" means that
		// the node has restarted the container; "held" means that the next template has a grace period.
		steps string
		want  bool // whether a report is needed
	}{
		{"U-7 the image restarts it", "v1/1 v2/2", false},
		{"U-7 another image restarts it", "v1/1 v2/2 v3/3", false},
		{"U-7 taken back with another value", "v1/1 v2/2 v1/3", true},
		{"U-7 taken back with the old value", "v1/1 v2/2 v1/1", true},
		{"U-7 taken back, the new value stays", "v1/1 v2/2 v1/2", true},
		{"U-7 taken back later", "v1/1 v2/2 v3/2 v1/2", true},
		{"U-7 taken back after a change of something else", "v1/1 v2/2 v2/2/x v1/2", true},
		{"U-7 an overtaken image is asked again", "v1/1 v2/1 v3/2 v2/2", true},
		{"U-7 taken back, env is as it was throughout", "v1/1 v2/1 v1/1", false},
		{"U-7 taken back after it ran", "v1/1 v2/2 ran v1/3", false},
		{"U-7 taken back after it ran, the new value stays", "v1/1 v2/2 ran v1/2", false},
		{"U-7 taken back in the grace period", "v1/1 held v2/2 v1/3", true},
		{"U-7 taken back into a grace period", "v1/1 v2/2 held v1/3", true},
		{"U-7 the image does not change", "v1/1 v1/2", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater := newUpdater()
			var pod *corev1.Pod
			var from *template
			grace := int32(0)
			for i, word := range strings.Fields(tc.steps) {
				switch word {
				case "ran":
					catchUp(pod)
					continue
				case "held":
					grace = 30
					continue
				}
				parts := strings.Split(word+"/", "/")
				to := newTemplate(image("app", "app:"+parts[0]), annotation("cfg", parts[1]), label("x", parts[2]), env(0, fromAnnotation("CFG", "cfg")))
				if from == nil {
					pod = newPod(to)
				} else {
					target := toward(fmt.Sprint(i), grace)
					pod = write(t, pod, mustStart(t, updater, pod, from, to, target, now))
				}
				from, grace = to, 0
			}
			state, err := updater.Saved(pod)
			if err != nil || state.UpdateEnvFromMetadata != tc.want {
				t.Fatalf("needs a report = %v, want %v (%v)", state.UpdateEnvFromMetadata, tc.want, err)
			}
		})
	}
}

// TestTakenBackBeforeTheNodeLooked follows a Pod whose new image is reverted before the kubelet acts. The kubelet
// then does not restart the container, so the node agent must restart the container for the new env.
func TestTakenBackBeforeTheNodeLooked(t *testing.T) {
	updater := newUpdater()
	asks := func(name, cfg string) *template {
		return newTemplate(image("app", name), annotation("cfg", cfg), env(0, fromAnnotation("CFG", "cfg")))
	}
	first, second, third := asks("app:v1", "1"), asks("app:v2", "2"), asks("app:v1", "3")
	pod := newPod(first)
	report(t, pod)
	started := pod.Annotations[metaKey]
	pod = write(t, pod, mustStart(t, updater, pod, first, second, toward("2", 0), now))
	pod = write(t, pod, mustStart(t, updater, pod, second, third, toward("3", 0), now))
	pod.Status.ObservedGeneration = pod.Generation
	pod.Annotations[metaKey] = started
	step := mustNext(t, updater, pod, now)
	if diff := cmp.Diff([]string{"EnvNotReported status.containerStatuses[app]"}, codesAndPaths(step.Waiting)); diff != "" || step.Complete {
		t.Errorf("the container runs with the first value; complete %v, waiting (-want +got):\n%s", step.Complete, diff)
	}
	pod.Status.ContainerStatuses[0].ContainerID = "containerd://restarted"
	report(t, pod)
	if step := mustNext(t, updater, pod, now); !step.Complete {
		t.Errorf("reported, and waits: %v", step.Waiting)
	}
}

// TestSeveralAreProvenByTime: RequeueAfter is the time until the first of several instances is proven.
func TestSeveralAreProvenByTime(t *testing.T) {
	at := func(d time.Duration) inplaceupdate.Sighting {
		return inplaceupdate.Sighting{At: metav1.NewTime(now.Add(d))}
	}
	for _, tc := range []struct{ app, log, want time.Duration }{{-10 * time.Second, 0, 70 * time.Second}, {0, -10 * time.Second, 70 * time.Second}} {
		seen := map[string]inplaceupdate.Sighting{"app": at(tc.app), "log": at(tc.log)}
		pod := newPod(newTemplate())
		records := containerRecords{}
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			status.Image, status.State.Running = "other:tag", &corev1.ContainerStateRunning{}
			records[status.Name] = inplaceupdate.ContainerRecord{ImageID: status.ImageID}
			sighting := seen[status.Name]
			sighting.ContainerID = status.ContainerID
			seen[status.Name] = sighting
		}
		raw, err := json.Marshal(inplaceupdate.NewSavedState("2", now, inplaceupdate.Progress{LastContainerStatuses: records, Seen: seen}))
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[stateKey] = string(raw)
		if step := mustNext(t, newUpdater(), pod, now); step.RequeueAfter != tc.want || len(step.Waiting) != 2 {
			t.Errorf("seen at %v and %v: again in %v, waiting %v; want %v", tc.app, tc.log, step.RequeueAfter, step.Waiting, tc.want)
		}
	}
}

// TestNextBatchTakesStock: images proven by waiting in a batch stay known in the next batch. Before Next changes the
// image of a container, Next records the running instance again, because the container may have restarted since the
// last record.
func TestNextBatchTakesStock(t *testing.T) {
	order := []func(*template){priority(0, 10), priority(1, 0)}
	from := newTemplate(order...)
	to := newTemplate(append(order, image("app", "app:v2"), image("log", "log:v2"))...)
	updater := newUpdater()
	pod := newPod(from)
	// Both new images are other names of the old images, and the node reports the old names.
	reports := func(i int, id string) {
		pod.Status.ObservedGeneration = pod.Generation
		status := &pod.Status.ContainerStatuses[i]
		status.ContainerID, status.State.Running = id, &corev1.ContainerStateRunning{}
	}
	pod = write(t, pod, mustStart(t, updater, pod, from, to, toward("2", 0), now))
	reports(0, "containerd://app-2")
	pod = write(t, pod, mustNext(t, updater, pod, now).Change)
	reports(1, "containerd://log-2") // a crash
	pod = write(t, pod, mustNext(t, updater, pod, after(time.Hour)).Change)
	if got := images(pod); !strings.HasSuffix(got, "app:v2 log:v2") {
		t.Fatalf("images %s: the second batch was not sent", got)
	}
	reports(0, "containerd://app-3") // a crash
	reports(1, "containerd://log-2")
	step := mustNext(t, updater, pod, after(time.Hour))
	if diff := cmp.Diff([]string{"ImageNotRunning status.containerStatuses[log].imageID"}, codesAndPaths(step.Waiting)); diff != "" || step.RequeueAfter != 0 {
		t.Errorf("U-20 waiting (-want +got), again in %v:\n%s", step.RequeueAfter, diff)
	}
}

// TestHistoryIsNotRead: a state is decoded correctly, whether or not its JSON ends with the history (batches and
// known images), which the decoder skips.
func TestHistoryIsNotRead(t *testing.T) {
	const record, known = `,"containerBatchesRecord":[{"timestamp":"2026-07-01T10:00:00Z","containers":["app","x\"}]"]}]`, `,"knownImages":{"log":[{"image":"log:\\\"{v1","imageID":"sha256:9"}]}`
	const head, waits = `{"revision":"2","updateTimestamp":"2026-07-01T10:00:00Z"`, `,"lastContainerStatuses":{"app":{"imageID":"sha256:app:v1"}}`
	for _, tc := range []struct{ name, state string }{
		{"no history", head + waits + "}"},
		{"batches", head + waits + record + "}"},
		{"images", head + waits + known + "}"},
		{"both", head + waits + record + known + "}"},
		{"the other way round", head + waits + known + record + "}"},
		{"batches before the rest", head + record + waits + "}"},
		{"images before the rest", head + known + waits + "}"},
		{"both before the rest", head + record + known + waits + "}"},
		{"images in between", head + known + waits + record + "}"},
		{"batches in between", head + record + waits + known + "}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate())
			pod.Spec.Containers[0].Image = "app:v2"
			pod.Annotations[stateKey] = tc.state
			if step := mustNext(t, newUpdater(), pod, now); step.Complete || len(step.Waiting) != 1 || step.Waiting[0].Code != inplaceupdate.ImageNotRunning {
				t.Errorf("while app runs app:v1: %+v", step)
			}
			catchUp(pod)
			if step := mustNext(t, newUpdater(), pod, now); !step.Complete {
				t.Errorf("when app runs app:v2: %v", step.Waiting)
			}
		})
	}
}

// TestRecordOfAPlainInitContainer: a record of a plain init container has no earlier image, so no report counts as
// proof.
func TestRecordOfAPlainInitContainer(t *testing.T) {
	pod := newPod(newTemplate())
	pod.Annotations[stateKey] = `{"revision":"2","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":{"setup":{"imageID":"sha256:0"}}}`
	step := mustNext(t, newUpdater(), pod, now)
	if diff := cmp.Diff([]string{"ImageNotRunning status.containerStatuses[setup].imageID"}, codesAndPaths(step.Waiting)); diff != "" || step.Complete {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

// TestNamesInFull: the recorded imageID proves nothing if an update returns to an earlier image, or requests another
// tag of the same image. Only the names can then be compared, and runtimes report full names.
func TestNamesInFull(t *testing.T) {
	for _, tc := range []struct {
		asked, running string
		want           bool
	}{
		{"app:v1", "app:v1", true},
		{"app:v1", "docker.io/library/app:v1", true},
		{"app", "docker.io/library/app:latest", true},
		{"team/app:v1", "docker.io/team/app:v1", true},
		{"docker.io/app:v1", "docker.io/library/app:v1", true},
		{"index.docker.io/app:v1", "docker.io/library/app:v1", true},
		{"index.docker.io/team/app:v1", "docker.io/team/app:v1", true},
		{"Registry/app:v1", "Registry/app:v1", true},
		{"Registry/app:v1", "docker.io/Registry/app:v1", false},
		{"localhost/app:v1", "localhost/app:v1", true},
		{"registry.test:5000/app", "registry.test:5000/app:latest", true},
		{"app@sha256:1", "docker.io/library/app@sha256:1", true},
		{"app:v1", "docker.io/library/app:v2", false},
		{"app:v1", "registry.test/library/app:v1", false},
		{"app:v1", "docker.io/team/app:v1", false},
		{"team/app:v1", "registry.test/team/app:v1", false},
		{"localhost/app:v1", "docker.io/localhost/app:v1", false},
		{"registry.test:5000/app", "docker.io/registry.test:5000/app:latest", false},
	} {
		t.Run(tc.asked+" reported as "+tc.running, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: tc.asked}}}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: tc.running, ImageID: "sha256:1"}}
			u := mustNew(inplaceupdate.Config{Keys: inplaceupdate.Keys{StateAnnotation: "state", GraceAnnotation: "grace", Gate: "gate"}})
			pod.Annotations = map[string]string{"state": `{"revision":"r","updateImages":true,"lastContainerStatuses":{"app":{"imageID":"sha256:1"}}}`}
			if step, err := u.Next(pod, now); err != nil || step.Complete != tc.want {
				t.Errorf("complete: %v, %v; want %v", step.Complete, err, tc.want)
			}
		})
	}
}

// TestPrecedes: a Pod is updated before its node has reported any container. An instance older than the request may
// run the superseded image, although the node reports the digest under the new name, and the kubelet has not
// restarted the container yet.
func TestPrecedes(t *testing.T) {
	for name, tc := range map[string]struct {
		started  time.Time
		complete bool
	}{
		"older than the request":     {after(-3 * time.Second), false},
		"of the same second":         {now, true},
		"started for the request":    {after(time.Second), true},
		"the node does not say when": {time.Time{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{t: t, updater: newUpdater(), pod: newPod(newTemplate(appImage("app:v2"))), from: newTemplate(appImage("app:v2"))}
			s.pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app"}
			s.ask("app:a-v2", 0)
			s.node("app:a-v2", "2222", "1")
			s.pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(tc.started)}
			step, err := s.updater.Next(s.pod, after(2*time.Second))
			if err != nil || step.Complete != tc.complete {
				t.Errorf("complete %t, %v; want %t; waits for %v", step.Complete, err, tc.complete, step.Waiting)
			}
		})
	}
}

// TestOlderThanTheRequest: the digest of each superseded image is known, so an instance with another digest needs no
// further proof, whenever it was started.
func TestOlderThanTheRequest(t *testing.T) {
	s := &story{t: t, updater: newUpdater(), from: newTemplate(appImage("app:v1"))}
	s.pod = newPod(s.from)
	s.node("app:v1", "1111", "1")
	s.ask("app:v2", 0)
	s.node("app:v2", "2222", "2")
	s.ask("app:v1", 0)
	s.ask("app:v3", 0)
	s.node("app:v3", "3333", "3")
	s.pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(-3 * time.Second))}
	s.expect(1, "runs")
}

// TestPrecedesAfterAnotherUpdate: a further update that does not change the container continues to wait for the
// container, and keeps the time of the request.
func TestPrecedesAfterAnotherUpdate(t *testing.T) {
	for name, tc := range map[string]struct {
		started  time.Time
		complete bool
	}{
		"older than the request":                     {after(-3 * time.Second), false},
		"started for the request, before the update": {after(2 * time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{t: t, updater: newUpdater(), pod: newPod(newTemplate(appImage("app:v2"))), from: newTemplate(appImage("app:v2"))}
			s.pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app"}
			s.ask("app:a-v2", 0)
			to := newTemplate(appImage("app:a-v2"))
			to.Labels = map[string]string{"tier": "new"}
			s.pod = write(s.t, s.pod, mustStart(s.t, s.updater, s.pod, s.from, to, toward("labels", 0), after(5*time.Second)))
			s.node("app:a-v2", "2222", "1")
			s.pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(tc.started)}
			step, err := s.updater.Next(s.pod, after(7*time.Second))
			if err != nil || step.Complete != tc.complete {
				t.Errorf("complete %t, %v; want %t; waits for %v; state %s", step.Complete, err, tc.complete, step.Waiting, s.pod.Annotations[stateKey])
			}
		})
	}
}

// TestUnproven: the record of the previous update is lost, and Target.Unproven names the containers of the previous
// update. The next update waits for these containers, and an instance of an earlier image does not complete the
// update.
func TestUnproven(t *testing.T) {
	unproven := []string{"app"}
	for _, tc := range []struct {
		name     string
		unproven []string
		to       func(*template)
		reported string // "tag digest"
		complete bool
	}{
		{"labels alone, the node has not restarted the container", unproven, nil, "v1 1111", false},
		{"labels alone, the node runs the image", unproven, nil, "v2 2222", true},
		{"labels alone, nobody says that the record is lost", nil, nil, "v1 1111", true},
		{"a third image, the node has not restarted the container", unproven, appImage("app:v3"), "v1 1111", false},
		{"a third image, the node runs the second by another name", unproven, appImage("app:v3"), "- 2222", false},
		{"a third image, nobody says that the record is lost", nil, appImage("app:v3"), "- 2222", true},
		{"a third image, the node runs the image", unproven, appImage("app:v3"), "v3 3333", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &story{t: t, updater: newUpdater(), from: newTemplate(appImage("app:v2"))}
			s.pod = newPod(s.from)
			s.node("app:v1", "1111", "1")
			to, target := s.from.DeepCopy(), toward("next", 0)
			to.Labels = map[string]string{"tier": "new"}
			if tc.to != nil {
				tc.to(to)
			}
			target.Unproven = tc.unproven
			s.pod = write(t, s.pod, mustStart(t, s.updater, s.pod, s.from, to, target, now))
			tag, digest, _ := strings.Cut(tc.reported, " ")
			if tag != "-" {
				tag = "app:" + tag
			}
			s.node(tag, digest, "2")
			if step := mustNext(t, s.updater, s.pod, now); step.Complete != tc.complete {
				t.Errorf("complete %t, want %t; waits for %v; state %s", step.Complete, tc.complete, step.Waiting, s.pod.Annotations[stateKey])
			}
		})
	}
}
