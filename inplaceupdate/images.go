package inplaceupdate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// record returns the container's entry in the state annotation, written before an update changed the image. ok is
// false if the annotation has no entry, because no recorded update has changed the image.
func (c *container) record() (record containerRecord, ok bool) {
	if c.view.state == nil {
		return containerRecord{}, false
	}
	record, ok = c.view.state.LastContainerStatuses[c.name]
	return record, ok
}

// superseded returns the images that earlier, unfinished updates requested for the container.
func (c *container) superseded() []string {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.SupersededImages[c.name]
}

// runs reports whether the reported instance was started from the spec's image. A node reports any known tag as the
// image's name, or no tag if the image was pulled by digest, so the name proves little. However, a kubelet restarts a
// container if and only if the spec's image differs from the image from which the instance was started. If the state
// annotation already records the instance's image, no further proof is needed.
func (c *container) runs() bool {
	if c.spec == nil || c.status == nil {
		return false
	}
	if is := c.instance(); is != nil {
		return is.Image == c.spec.Image
	}
	id := digestOf(c.status.ImageID)
	switch {
	case neverStarted(c.status):
		return false
	case named(c.spec.Image, c.status), id != "" && id == c.knownDigest(c.spec.Image):
		return !c.precedes()
	}
	record, _ := c.record()
	return id != "" && id != digestOf(record.ImageID) && !c.mayBeSuperseded()
}

// precedes reports whether the reported instance was started before the spec's image was requested. Such an instance
// runs an image of an earlier, unfinished update; the image may have the same digest as the spec's image, and the
// kubelet has not restarted the container yet. Times have whole seconds, and an instance started in the second of the
// request counts as started after the request. If the node's clock is behind, a new instance seems to precede the
// request, and only waiting can prove the image.
func (c *container) precedes() bool {
	running := c.status.State.Running
	if _, changed := c.record(); !changed || running == nil || running.StartedAt.IsZero() || len(c.unknown()) == 0 {
		return false
	}
	since := c.requested()
	return since != nil && running.StartedAt.Before(since)
}

// requested returns the time at which the spec's image was requested, nil if unknown. The container's entry has the
// time of a request by an earlier update, because only the batches of the present update are recorded.
func (c *container) requested() *metav1.Time {
	record, _ := c.record()
	if record.Since != nil {
		return record.Since
	}
	saved, err := c.view.whole()
	if err != nil || saved == nil {
		return nil
	}
	for _, batch := range slices.Backward(saved.ContainerBatchesRecord) {
		if slices.Contains(batch.Containers, c.name) {
			return &batch.Timestamp
		}
	}
	return nil
}

// mayBeSuperseded reports whether the reported instance may run the image of an unfinished update that the present
// update has replaced. Either the instance has the name or digest of such an image, or the digest of such an image on
// the node is unknown. A digest in the image's name is not enough: a node may report a manifest by the digest of its
// index, or an index by the digest of a manifest.
func (c *container) mayBeSuperseded() bool {
	id := digestOf(c.status.ImageID)
	for _, image := range c.superseded() {
		if image != c.spec.Image && (c.knownDigest(image) == id || named(image, c.status)) {
			return true
		}
	}
	return !c.isPast(c.unknown())
}

// settled reports whether the container is known to run the spec's image.
func (c *container) settled() bool {
	if c.spec == nil || c.status == nil || c.status.ImageID == "" || c.view.nodeIsBehind() {
		return false
	}
	if _, changed := c.record(); changed {
		return c.runs() || c.provenByTime()
	}
	// During a grace period, SupersededImages is the only field that records a previous, unfinished update.
	return !slices.Contains(c.superseded(), c.spec.Image)
}

// certain reports two certainties about an instance that seems to run the spec's image. sameInstance is false if the
// instance may have been started from another image name: two names can mean the same image, and the kubelet may not
// have restarted the container for the new name yet. sameImage is false if the instance may even run a different
// image, because the digest of a superseded image is unknown.
func (c *container) certain() (sameInstance, sameImage bool) {
	if is := c.instance(); is != nil {
		return is.Image == c.spec.Image, is.Image == c.spec.Image
	}
	id := digestOf(c.status.ImageID)
	record, changed := c.record()
	sameInstance, sameImage = !changed || id != digestOf(record.ImageID), true
	for _, known := range c.known() {
		// A record without a container ID was made while the instance's image was uncertain, so the image is still
		// uncertain.
		other := known.Image != c.spec.Image || known.ContainerID == ""
		sameInstance = sameInstance && (!other || digestOf(known.ImageID) != id)
	}
	called := named(c.spec.Image, c.status)
	for _, other := range c.superseded() {
		if other == c.spec.Image {
			continue
		}
		digest := c.knownDigest(other)
		sameInstance = sameInstance && digest != "" && digest != id
		sameImage = sameImage && (called || digest != "")
	}
	return sameInstance, sameImage
}

// mayStay reports whether the running instance may already run the requested image, so that the kubelet would not
// restart the container. Example: an image change is reverted before the kubelet has acted on the change.
func (c *container) mayStay(asked string) bool {
	if c.spec == nil || c.spec.Image == asked {
		return true
	}
	if c.settled() {
		if sameInstance, _ := c.certain(); sameInstance {
			return false
		}
	}
	return slices.Contains(c.superseded(), asked) || c.knownDigest(asked) != "" ||
		(c.status != nil && isImage(c.status.Image, asked))
}

// notRunning says why a container with a changed image does not run the image yet.
func (c *container) notRunning() reason.Reason {
	why := reason.Reason{
		Code: ImageNotRunning, Object: c.view.object(), Path: "status.containerStatuses[" + c.name + "].imageID",
		Detail: "container " + c.name + " is not reported",
	}
	if c.spec == nil || c.status == nil {
		return why
	}
	why.Detail = "container " + c.name + " still runs " + c.status.Image + " (" + c.status.ImageID + "), not " +
		c.spec.Image
	if c.isAmbiguous() {
		why.Remedy = "if it was restarted, its node reports another name of the image, and only time can tell: "
		if askedDigest(c.spec.Image) == "" {
			why.Remedy += "name the image by digest, the one of its index if it has one, "
		}
		why.Remedy += "recreate the Pod, or run a node agent that reports runtime metadata"
	}
	return why
}

// isAmbiguous reports whether a container that does not seem to run its image may already be restarted. The node may
// report a different tag or digest of the container's image, and then nothing distinguishes this image from the image
// before the update, or from an image of an unfinished update.
func (c *container) isAmbiguous() bool {
	return len(c.known()) > 0 && c.status.ImageID != "" && c.status.ContainerID != "" && c.instance() == nil
}

// neverStarted recognises the kubelet's status of a container that has no instance yet: the container is waiting, and
// the image is the spec's image.
func neverStarted(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.ContainerID == "" && status.ImageID == ""
}

// named reports whether the requested image has the digest or the name that the node reports.
func named(asked string, status *corev1.ContainerStatus) bool {
	id := digestOf(status.ImageID)
	return (id != "" && id == askedDigest(asked)) || isImage(status.Image, asked)
}

// isName reports whether a node reports an image by name. If the tag of an image has moved to another image, the node
// reports the image's ID in place of the name.
func isName(image string) bool {
	algorithm, _, isID := strings.Cut(image, ":")
	return image != "" && (!isID || algorithm != "sha256" && algorithm != "sha512")
}

// digestOf returns the digest in an image ID reported by a node, such as docker-pullable://app@sha256:1. If the ID
// contains no repository, digestOf returns the whole ID.
func digestOf(imageID string) string {
	if at := strings.LastIndex(imageID, "@"); at >= 0 {
		return imageID[at+1:]
	}
	if at := strings.LastIndex(imageID, "://"); at >= 0 {
		return imageID[at+len("://"):]
	}
	return imageID
}

// askedDigest returns the digest in an image name, or "" if the name has only a tag.
func askedDigest(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// isImage reports whether an image name reported by a runtime is the image named in a spec. Runtimes report full names:
// docker.io/library/app:v2 is app:v2.
func isImage(running, asked string) bool {
	asked = withTag(asked)
	return running == asked || fullName(running) == fullName(asked)
}

// fullName completes an image name as nodes do (github.com/distribution/reference, normalize.go): docker.io is added if
// the first part is no host name, and library if a name in docker.io has a single part. index.docker.io is an old name
// of docker.io. All other parts of the name are unchanged.
func fullName(image string) string {
	host, path, found := strings.Cut(image, "/")
	switch {
	case !found || !strings.ContainsAny(host, ".:") && host != "localhost" && strings.ToLower(host) == host:
		host, path = "docker.io", image
	case host == "index.docker.io":
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return host + "/" + path
}

// withTag appends the tag latest to an image without tag and digest. A colon before the first slash separates a port,
// not a tag.
func withTag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}

// maxKnownImages limits the images remembered for a container: the running image, and images to which a user may roll
// back.
const maxKnownImages = 3

// known returns the container's images whose digest on the node is known, the newest last.
func (c *container) known() []knownImage {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.KnownImages[c.name]
}

// instance returns the record of the reported instance, nil if there is none.
func (c *container) instance() *knownImage {
	known := c.known()
	for i := range known {
		if known[i].ContainerID != "" && known[i].ContainerID == c.status.ContainerID {
			return &known[i]
		}
	}
	return nil
}

// knownDigest returns the recorded digest of an image on the node, or "".
func (c *container) knownDigest(image string) string {
	known := c.known()
	for i := range known {
		if withTag(known[i].Image) == withTag(image) {
			return digestOf(known[i].ImageID)
		}
	}
	return ""
}

// learn returns a record of the spec's image, with the container ID and the digest from the container's status. ok is
// false if the container is not known to run the image.
func (c *container) learn() (fact knownImage, ok bool) {
	if !c.settled() {
		return knownImage{}, false
	}
	sameInstance, sameImage := c.certain()
	fact = knownImage{Image: c.spec.Image, ImageID: digestOf(c.status.ImageID)}
	if sameInstance {
		fact.ContainerID = c.status.ContainerID
	}
	return fact, sameImage
}

// know stores the record of an image, in place of an older record of the same image.
func (p *progress) know(container string, fact knownImage) {
	// The slice is cloned because a second progress may share the old slice.
	known := slices.DeleteFunc(slices.Clone(p.KnownImages[container]),
		func(k knownImage) bool { return k.Image == fact.Image })
	known = append(known, fact)
	put(&p.KnownImages, container, known[max(0, len(known)-maxKnownImages):])
}

// isLast reports whether the reported instance runs neither the image before the update nor a superseded image.
func (c *container) isLast() bool {
	record, _ := c.record()
	return digestOf(c.status.ImageID) != digestOf(record.ImageID) && !c.mayBeSuperseded()
}

// relearn records the running images before a delayed batch of image changes is sent. The containers may have restarted
// since the last record.
func (v *view) relearn(images map[string]string) {
	for name, image := range images {
		c := v.container(name)
		if c.spec == nil || c.spec.Image == image {
			continue
		}
		if fact, ok := c.learn(); ok {
			v.saved.know(name, fact)
		}
	}
}

// remember records the image of each container whose image was proven by waiting or by a later image, so that no new
// proof is necessary after a crash of the container.
func (v *view) remember() {
	for i := range v.containers {
		c := &v.containers[i]
		if c.spec == nil || c.status == nil {
			continue
		}
		seen, timed := v.saved.Seen[c.name]
		if timed && c.status.ContainerID == seen.ContainerID || len(v.saved.SeenDigests[c.name]) > 0 && c.isLast() {
			v.saved.know(c.name,
				knownImage{Image: c.spec.Image, ImageID: digestOf(c.status.ImageID), ContainerID: c.status.ContainerID})
		}
	}
	v.saved.Seen, v.saved.SeenDigests = nil, nil
}

// unknown returns the images of unfinished updates whose digest on the node is unknown. If the requested image itself
// is the only such image, unknown returns none.
func (c *container) unknown() []string {
	all := slices.DeleteFunc(slices.Clone(c.superseded()),
		func(image string) bool { return c.knownDigest(image) != "" })
	if !slices.ContainsFunc(all, func(image string) bool { return image != c.spec.Image }) {
		return nil
	}
	return all
}

// isPast reports whether at least as many different images ran before the reported image as there are images in
// unknown. A node starts images in the order of requests, so the reported image is then the requested image. A tag
// may stand for several images over time, so isPast is false if an unknown image is named by a tag.
func (c *container) isPast(unknown []string) bool {
	if len(unknown) == 0 {
		return true
	}
	id, passed := digestOf(c.status.ImageID), 0
	for _, seen := range c.passed() {
		// A node may later report the same instance with a different digest.
		if seen.ImageID != id && seen.ContainerID != c.status.ContainerID {
			passed++
		}
	}
	return passed >= len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// passed returns the instances of unknown images that the kubelet has reported since the request for the first
// superseded image, one instance per digest.
func (c *container) passed() []passedImage {
	seen := slices.Clone(c.view.state.SeenDigests[c.name])
	record, _ := c.record()
	if id := digestOf(record.ImageID); id != "" && !c.isKnown(id) && !hasDigest(seen, id) {
		seen = append(seen, passedImage{ImageID: id})
	}
	return seen
}

func hasDigest(seen []passedImage, digest string) bool {
	return slices.ContainsFunc(seen, func(p passedImage) bool { return p.ImageID == digest })
}

// passing returns the reported instance if the instance runs an unknown image and must be recorded now. Recorded
// instances let isPast recognise a later image.
func (c *container) passing() (seen passedImage, ok bool) {
	if c.spec == nil || c.status == nil || neverStarted(c.status) || c.view.nodeIsBehind() {
		return seen, false
	}
	unknown, before := c.unknown(), c.passed()
	seen = passedImage{ImageID: digestOf(c.status.ImageID), ContainerID: c.status.ContainerID}
	if seen.ImageID == "" || seen.ContainerID == "" || c.isKnown(seen.ImageID) || hasDigest(before, seen.ImageID) {
		return seen, false
	}
	if slices.ContainsFunc(before, func(p passedImage) bool { return p.ContainerID == seen.ContainerID }) {
		return seen, false // the instance is recorded already, with a different digest
	}
	return seen, len(before) < len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// isKnown reports whether the digest belongs to a recorded image.
func (c *container) isKnown(digest string) bool {
	return slices.ContainsFunc(c.known(), func(k knownImage) bool { return digestOf(k.ImageID) == digest })
}

func isTag(image string) bool { return askedDigest(image) == "" }

// patience is the time, beyond a container's termination, that a kubelet may take to stop a container with a wrong
// image.
const patience = 10 * time.Second

// proofTime is the time that a kubelet needs to stop, one after the other, all containers that must restart.
func (v *view) proofTime() time.Duration {
	seconds := ptr.Deref(v.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	grace := time.Duration(seconds) * time.Second
	return (grace + patience) * time.Duration(max(1, len(v.state.LastContainerStatuses)))
}

// provenByTime reports whether the reported instance must run the requested image, whatever name the node reports.
// The proof is that the kubelet has observed the spec, and has let the instance run for longer than the proof time.
func (c *container) provenByTime() bool {
	proven, _, _ := c.timeToProof()
	return proven
}

// timeToProof returns the result of provenByTime, and in left the remaining proof time, or zero if waiting proves
// nothing. begins is set if the proof time must begin now. The proof time counts from the observation of the spec
// that the state annotation records, because a kubelet reports the observation before the kubelet stops any
// container.
func (c *container) timeToProof() (proven, begins bool, left time.Duration) {
	if !c.onlyTimeTells() {
		return false, false, 0
	}
	seen := c.view.state.Seen[c.name]
	if seen.ContainerID != c.status.ContainerID {
		return false, true, c.view.proofTime()
	}
	left = seen.At.Add(c.view.proofTime()).Sub(c.view.now)
	return left <= 0, false, max(left, 0)
}

// onlyTimeTells reports whether nothing but waiting can prove the instance's image. The instance must run, the
// kubelet must have observed the spec, and neither the instance nor its digest may be known to belong to another
// image.
func (c *container) onlyTimeTells() bool {
	if c.spec == nil || c.status == nil || c.status.State.Running == nil || c.status.ContainerID == "" ||
		!c.view.nodeIsCurrent() {
		return false
	}
	digest := c.knownDigest(c.spec.Image)
	return c.instance() == nil && (digest == "" || digest == digestOf(c.status.ImageID))
}

// beginProof records two facts in the state annotation. The first fact, for an instance whose image only waiting can
// prove, is the time since which the kubelet has let the instance run. The second fact is the list of reported images
// that may come from an earlier, unfinished update.
func (v *view) beginProof() (podpatch.Change, error) {
	saved, err := v.whole()
	if err != nil {
		return podpatch.Change{}, err
	}
	for i := range v.containers {
		c := &v.containers[i]
		if _, recorded := c.record(); !recorded || c.runs() {
			continue
		}
		if _, begins, _ := c.timeToProof(); begins {
			put(&saved.Seen, c.name, sighting{ContainerID: c.status.ContainerID, At: metav1.NewTime(v.now)})
		}
		if seen, ok := c.passing(); ok {
			put(&saved.SeenDigests, c.name, append(slices.Clone(saved.SeenDigests[c.name]), seen))
		}
	}
	change := v.change(true)
	return change, v.putState(&change, saved)
}
