package inplaceupdate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// maxKnownImages bounds how many images of a container are remembered: what it runs, and what it may be rolled back to.
const maxKnownImages = 3

// imageRuns returns nil when a container whose image was changed runs the new one, otherwise why not.
func (u *Updater) imageRuns(pod *corev1.Pod, state *progress, name string) *reason.Reason {
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	if spec == nil || status == nil {
		return imageNotRunning(pod, name, "container "+name+" is not reported")
	}
	if state.runs(name, spec.Image, status) {
		return nil
	}
	why := imageNotRunning(pod, name, "container "+name+" still runs "+status.Image+" ("+status.ImageID+"), not "+spec.Image)
	if state.undecidable(name, spec.Image, status) {
		why.Remedy = "if it was restarted, its node reports another tag of the image, and only time can tell: name the image by digest, " +
			"recreate the Pod, or run a node agent that reports runtime metadata"
	}
	return why
}

func imageNotRunning(pod *corev1.Pod, container, detail string) *reason.Reason {
	return &reason.Reason{
		Code: ImageNotRunning, Object: podObject(pod), Path: "status.containerStatuses[" + container + "].imageID", Detail: detail,
	}
}

// runs reports whether the instance that a node reports for a container was started from the asked image. A node names an
// image by any tag it knows, and by none if the image was pulled by digest, so its name comes last but one. What a node
// does do is restart a container whose spec names another image than the instance was started from, and only then: an
// instance whose image is known answers for itself.
func (s *progress) runs(name, asked string, status *corev1.ContainerStatus) bool {
	known := s.KnownImages[name]
	if is := instanceOf(known, status); is != nil {
		return is.Image == asked
	}
	id := digestOf(status.ImageID)
	switch {
	case neverStarted(status):
		return false
	case named(asked, status), id != "" && id == knownDigest(known, asked):
		return true
	}
	if id == "" || id == digestOf(s.LastContainerStatuses[name].ImageID) {
		return false
	}
	return !slices.ContainsFunc(s.SupersededImages[name], func(other string) bool { return mayBe(other, asked, status, known) })
}

// mayBe reports whether the instance that is reported may be one of an image that an earlier, unfinished update asked for: it
// is called so or has its digest, or nobody knows its digest.
func mayBe(superseded, asked string, status *corev1.ContainerStatus, known []knownImage) bool {
	digest := cmp.Or(askedDigest(superseded), knownDigest(known, superseded))
	return superseded != asked && (digest == "" || digest == digestOf(status.ImageID) || isImage(status.Image, superseded))
}

// patience is how much longer than a termination may take a kubelet is given to end a container that it has to restart.
const patience = 10 * time.Second

// provenByTime reports whether the instance that is reported must be one of the asked image, whatever it is called: its kubelet,
// which has seen the spec, has left it alone for longer than it takes to end the containers that have to be restarted, one
// after the other. left is what is missing of that time, zero where time does not tell. fresh is set when the clock begins to
// run now: the kubelet says that it has seen the spec before it ends anything, so only what is noted in the state counts.
func (u *Updater) provenByTime(pod *corev1.Pod, progress *progress, name string, now time.Time) (proven, fresh bool, left time.Duration) {
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	if spec == nil || status == nil || !onlyTimeTells(pod, progress.KnownImages[name], spec.Image, status) {
		return false, false, 0
	}
	grace := time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
	whole := (grace + patience) * time.Duration(max(1, len(progress.LastContainerStatuses)))
	seen := progress.Seen[name]
	if seen.ContainerID != status.ContainerID {
		return false, true, whole
	}
	left = seen.At.Add(whole).Sub(now)
	return left <= 0, false, max(left, 0)
}

// onlyTimeTells reports whether nothing speaks against the instance that is reported: it runs, its kubelet has seen the spec,
// it is not known to be of another image, and neither is its digest.
func onlyTimeTells(pod *corev1.Pod, known []knownImage, asked string, status *corev1.ContainerStatus) bool {
	seen := pod.Status.ObservedGeneration
	if status.State.Running == nil || status.ContainerID == "" || seen == 0 || seen < pod.Generation {
		return false
	}
	digest := cmp.Or(askedDigest(asked), knownDigest(known, asked))
	return instanceOf(known, status) == nil && (digest == "" || digest == digestOf(status.ImageID))
}

// note has the clock run for the instances about which only time can tell.
func (u *Updater) note(pod *corev1.Pod, progress *progress, now time.Time) (podpatch.Change, error) {
	state, err := u.saved(pod)
	if err != nil {
		return podpatch.Change{}, err
	}
	for name := range progress.LastContainerStatuses {
		if u.imageRuns(pod, progress, name) == nil {
			continue
		}
		if _, fresh, _ := u.provenByTime(pod, progress, name, now); fresh {
			if state.Seen == nil {
				state.Seen = make(map[string]sighting)
			}
			state.Seen[name] = sighting{ContainerID: podstate.ContainerStatus(pod, name).ContainerID, At: metav1.NewTime(now)}
		}
	}
	change := podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Annotations: map[string]*string{}}
	return change, u.putState(pod, &change, state)
}

// remember turns what time has proven into what is known, so that a crash later on does not raise the question again.
func (s *progress) remember(pod *corev1.Pod) {
	for name, seen := range s.Seen {
		spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
		if spec != nil && status != nil && status.ContainerID == seen.ContainerID {
			s.know(name, knownImage{Image: spec.Image, ImageID: digestOf(status.ImageID), ContainerID: status.ContainerID})
		}
	}
	s.Seen = nil
}

// named reports whether the asked image is what the node calls the one that runs, by digest or by name.
func named(asked string, status *corev1.ContainerStatus) bool {
	id := digestOf(status.ImageID)
	return (id != "" && id == askedDigest(asked)) || isImage(status.Image, asked)
}

// undecidable reports whether a container that does not seem to run its image was perhaps restarted for it: another tag of
// the image that it ran before, or of one that was overtaken, looks the same on a node that reports that one.
func (s *progress) undecidable(name, asked string, status *corev1.ContainerStatus) bool {
	known := s.KnownImages[name]
	return askedDigest(asked) == "" && len(known) > 0 && status.ImageID != "" && status.ContainerID != "" && instanceOf(known, status) == nil
}

// instanceOf returns what is known about the instance that is reported, nil for one that was not seen before.
func instanceOf(known []knownImage, status *corev1.ContainerStatus) *knownImage {
	for i := range known {
		if known[i].ContainerID != "" && known[i].ContainerID == status.ContainerID {
			return &known[i]
		}
	}
	return nil
}

// sure reports whether the instance that is reported cannot be one of another image than the given one, which it seems to
// run. It may be one where an overtaken image is of unknown digest: sameImage is false then. And it may be where two names
// are of one image, and the instance a crash that came before the restart.
func (s *progress) sure(name, image string, status *corev1.ContainerStatus) (sameInstance, sameImage bool) {
	if s == nil {
		return true, true
	}
	known, id := s.KnownImages[name], digestOf(status.ImageID)
	if is := instanceOf(known, status); is != nil {
		return is.Image == image, is.Image == image
	}
	sameInstance = id != digestOf(s.LastContainerStatuses[name].ImageID)
	for i := range known {
		// A fact without instance was noted when that was not sure, and nothing has made it surer.
		other := known[i].Image != image || known[i].ContainerID == ""
		sameInstance = sameInstance && (!other || digestOf(known[i].ImageID) != id)
	}
	called := named(image, status)
	sameImage = true
	for _, other := range s.SupersededImages[name] {
		if other == image {
			continue
		}
		digest := cmp.Or(askedDigest(other), knownDigest(known, other))
		sameInstance = sameInstance && digest != "" && digest != id
		sameImage = sameImage && (called || digest != "")
	}
	return sameInstance, sameImage
}

// surely reports whether the instance that is reported was started from the image that it seems to run.
func (s *progress) surely(name, image string, status *corev1.ContainerStatus) bool {
	sameInstance, _ := s.sure(name, image, status)
	return sameInstance
}

// neverStarted recognises what the kubelet reports about a container of which it knows no instance: it waits, under the name
// of the image in the spec.
func neverStarted(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.ContainerID == "" && status.ImageID == ""
}

// learn notes the image of the container's spec as known where the container is known to run it.
func (u *Updater) learn(pod *corev1.Pod, under *progress, name string, into *progress, now time.Time) {
	if !u.settled(pod, under, name, now) {
		return
	}
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	sameInstance, sameImage := under.sure(name, spec.Image, status)
	if !sameImage {
		return
	}
	fact := knownImage{Image: spec.Image, ImageID: digestOf(status.ImageID)}
	if sameInstance {
		fact.ContainerID = status.ContainerID
	}
	into.know(name, fact)
}

// know adds a fact about an image in place of an older one.
func (s *progress) know(container string, fact knownImage) {
	if s.KnownImages == nil {
		s.KnownImages = make(map[string][]knownImage)
	}
	// A new slice: the old one belongs to another state.
	known := slices.DeleteFunc(slices.Clone(s.KnownImages[container]), func(k knownImage) bool { return k.Image == fact.Image })
	known = append(known, fact)
	s.KnownImages[container] = known[max(0, len(known)-maxKnownImages):]
}

// relearn notes what containers run when a change that was held back goes out: they may have been restarted meanwhile.
func (u *Updater) relearn(pod *corev1.Pod, state *savedState, images map[string]string, now time.Time) {
	for name, image := range images {
		if spec := podstate.Container(pod, name); spec != nil && spec.Image != image {
			u.learn(pod, &state.progress, name, &state.progress, now)
		}
	}
}

// settled reports whether a container is known to run the image of its spec under the state, which may be nil and is the Pod's
// otherwise.
func (u *Updater) settled(pod *corev1.Pod, state *progress, name string, now time.Time) bool {
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	if spec == nil || status == nil || status.ImageID == "" {
		return false
	}
	if seen := pod.Status.ObservedGeneration; seen != 0 && seen < pod.Generation {
		return false
	}
	if state == nil {
		return true
	}
	if _, changed := state.LastContainerStatuses[name]; changed {
		if u.imageRuns(pod, state, name) == nil {
			return true
		}
		proven, _, _ := u.provenByTime(pod, state, name, now)
		return proven
	}
	// An update that is still held back says here that the one before it was not complete.
	return !slices.Contains(state.SupersededImages[name], spec.Image)
}

// digestOf returns the digest in an image ID as nodes report it, such as docker-pullable://app@sha256:1, or the ID itself
// where it names no repository.
func digestOf(imageID string) string {
	if at := strings.LastIndex(imageID, "@"); at >= 0 {
		return imageID[at+1:]
	}
	if at := strings.LastIndex(imageID, "://"); at >= 0 {
		return imageID[at+len("://"):]
	}
	return imageID
}

// askedDigest returns the digest that an image names, nothing for one that names a tag.
func askedDigest(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// knownDigest returns the digest of an image that is known, nothing for others.
func knownDigest(known []knownImage, image string) string {
	for i := range known {
		if withTag(known[i].Image) == withTag(image) {
			return digestOf(known[i].ImageID)
		}
	}
	return ""
}

// isImage reports whether the image that a runtime reports is the one that a spec asks for. Runtimes report names in full:
// docker.io/library/app:v2 is app:v2.
func isImage(running, asked string) bool {
	asked = withTag(asked)
	return running == asked || fullName(running) == fullName(asked)
}

// fullName expands what image names leave out: the registry where the first part names no host, and library before a name
// of one part there. Names are opaque beyond that.
func fullName(image string) string {
	host, path, found := strings.Cut(image, "/")
	if !found || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		host, path = "docker.io", image
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return host + "/" + path
}

// withTag appends the tag that is meant by an image without tag and digest. A port before the first slash is no tag.
func withTag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}
