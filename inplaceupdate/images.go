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

// record returns the container's record from before the change of its image. ok is false unless a relevant update has
// changed the image.
func (c *container) record() (record containerRecord, ok bool) {
	if c.view.state == nil {
		return containerRecord{}, false
	}
	record, ok = c.view.state.LastContainerStatuses[c.name]
	return record, ok
}

// superseded returns the images of earlier, unfinished updates.
func (c *container) superseded() []string {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.SupersededImages[c.name]
}

// runs reports whether the reported instance was started from the spec's image. A node names an image by any known tag,
// and by none if the node pulled the image by digest, so the name proves little. But a node restarts a container
// exactly when the spec names another image than the instance's start image. An instance with a known image needs no
// further proof.
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

// precedes reports whether the reported instance is older than the request for the spec's image, and so runs a
// superseded image with the same digest and any of their names: a kubelet is yet to restart such an instance. Times
// have whole seconds, and an instance of the same second counts as started for the request. If the node's clock is
// late, time proves the image in the end.
func (c *container) precedes() bool {
	running := c.status.State.Running
	if _, changed := c.record(); !changed || running == nil || running.StartedAt.IsZero() || len(c.unknown()) == 0 {
		return false
	}
	since := c.requested()
	return since != nil && running.StartedAt.Before(since)
}

// requested returns the time of the request for the spec's image, nil if unknown. The record of batches knows the
// requests of the present update alone.
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

// mayBeSuperseded reports whether the reported instance may run a superseded image. Either the instance has the name or
// digest of such an image, or a superseded image has an unknown digest on the node. The digest in the image's name does
// not decide: a node may know a manifest by the digest of its index, and the reverse.
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
	// During a grace period only SupersededImages records an unfinished earlier update.
	return !slices.Contains(c.superseded(), c.spec.Image)
}

// certain grades the evidence for an instance that seems to run the spec's image. sameInstance is false if the instance
// may have been started from another image. Two names can mean a single image, and the reported instance may be a crash
// before the restart. sameImage is false if the instance may even run another image, because the digest of a superseded
// image is unknown.
func (c *container) certain() (sameInstance, sameImage bool) {
	if is := c.instance(); is != nil {
		return is.Image == c.spec.Image, is.Image == c.spec.Image
	}
	id := digestOf(c.status.ImageID)
	record, changed := c.record()
	sameInstance, sameImage = !changed || id != digestOf(record.ImageID), true
	for _, known := range c.known() {
		// An image noted without an instance was uncertain then, and still is.
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

// mayStay reports whether the running instance may already run the asked image, so the kubelet would not restart the
// container. Example: an image is taken back before the kubelet has acted.
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

// isAmbiguous reports whether a container that does not seem to run its image may already be restarted. Another tag or
// digest of the container's earlier image, or of a superseded image, looks the same if the node reports that name.
func (c *container) isAmbiguous() bool {
	return len(c.known()) > 0 && c.status.ImageID != "" && c.status.ContainerID != "" && c.instance() == nil
}

// neverStarted recognises the kubelet's report for a container without an instance: the container waits under the name
// of the spec's image.
func neverStarted(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.ContainerID == "" && status.ImageID == ""
}

// named reports whether the asked image has the digest or the name of the image in the node's report.
func named(asked string, status *corev1.ContainerStatus) bool {
	id := digestOf(status.ImageID)
	return (id != "" && id == askedDigest(asked)) || isImage(status.Image, asked)
}

// isName reports whether a node reports an image by a name. An image without a tag has its ID instead: its tag has
// moved to another image.
func isName(image string) bool {
	algorithm, _, isID := strings.Cut(image, ":")
	return image != "" && (!isID || algorithm != "sha256" && algorithm != "sha512")
}

// digestOf returns the digest in an image ID as nodes report IDs, such as docker-pullable://app@sha256:1, or the ID
// itself if the ID names no repository.
func digestOf(imageID string) string {
	if at := strings.LastIndex(imageID, "@"); at >= 0 {
		return imageID[at+1:]
	}
	if at := strings.LastIndex(imageID, "://"); at >= 0 {
		return imageID[at+len("://"):]
	}
	return imageID
}

// askedDigest returns the digest in an image name, empty for a tag.
func askedDigest(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// isImage reports whether the image reported by a runtime is the image asked for in a spec. Runtimes report names in
// full: docker.io/library/app:v2 is app:v2.
func isImage(running, asked string) bool {
	asked = withTag(asked)
	return running == asked || fullName(running) == fullName(asked)
}

// fullName adds the omitted parts of an image name as nodes do (github.com/distribution/reference, normalize.go): the
// registry if the first part names no host, and library before a name of a single part in docker.io. index.docker.io is
// an old name of docker.io. The rest of the name stays.
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

// withTag appends the tag latest to an image without tag and digest. A port before the first slash is no tag.
func withTag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}

// maxKnownImages bounds the remembered images of a container: the running image and candidates for a rollback.
const maxKnownImages = 3

// known returns the container's images with a known digest on the node, the newest last.
func (c *container) known() []knownImage {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.KnownImages[c.name]
}

// instance returns the recorded facts about the reported instance, nil for a new instance.
func (c *container) instance() *knownImage {
	known := c.known()
	for i := range known {
		if known[i].ContainerID != "" && known[i].ContainerID == c.status.ContainerID {
			return &known[i]
		}
	}
	return nil
}

// knownDigest returns the known digest of an image, otherwise the empty string.
func (c *container) knownDigest(image string) string {
	known := c.known()
	for i := range known {
		if withTag(known[i].Image) == withTag(image) {
			return digestOf(known[i].ImageID)
		}
	}
	return ""
}

// learn returns the fact about the spec's image shown by the container. ok is false unless the container is known to
// run the image.
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

// know adds a fact about an image in place of an older fact.
func (p *progress) know(container string, fact knownImage) {
	// A new slice: the old one may belong to another state.
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

// relearn notes the running images before held-back image changes go out. The containers may have restarted meanwhile.
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

// remember turns proofs by time or by earlier images into known images, so a later crash does not raise the question
// again.
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

// unknown returns the superseded images with an unknown digest on the node, or none if the asked image is the only such
// image.
func (c *container) unknown() []string {
	all := slices.DeleteFunc(slices.Clone(c.superseded()),
		func(image string) bool { return c.knownDigest(image) != "" })
	if !slices.ContainsFunc(all, func(image string) bool { return image != c.spec.Image }) {
		return nil
	}
	return all
}

// isPast reports whether at least as many images as are unknown ran before the reported image. A node starts images in
// the order of requests, so the last image is the asked image. A tag may name several images in turn and is never past.
func (c *container) isPast(unknown []string) bool {
	if len(unknown) == 0 {
		return true
	}
	id, passed := digestOf(c.status.ImageID), 0
	for _, seen := range c.passed() {
		// A node may later know the same instance by another digest.
		if seen.ImageID != id && seen.ContainerID != c.status.ContainerID {
			passed++
		}
	}
	return passed >= len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// passed returns the instances of unknown images seen since the request for the first superseded image, a single
// instance per digest.
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

// passing returns the instance of an unknown image to note now. A later image tells more if a noted image came before.
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
		return seen, false // already noted under another digest
	}
	return seen, len(before) < len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// isKnown reports whether the digest belongs to a known image.
func (c *container) isKnown(digest string) bool {
	return slices.ContainsFunc(c.known(), func(k knownImage) bool { return digestOf(k.ImageID) == digest })
}

func isTag(image string) bool { return askedDigest(image) == "" }

// patience is the time granted to a kubelet, beyond a termination, to end a container with a wrong image.
const patience = 10 * time.Second

// proofTime is the time for a kubelet to end all containers due for a restart, in sequence.
func (v *view) proofTime() time.Duration {
	seconds := ptr.Deref(v.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	grace := time.Duration(seconds) * time.Second
	return (grace + patience) * time.Duration(max(1, len(v.state.LastContainerStatuses)))
}

// provenByTime reports whether the reported instance must run the asked image, whatever the reported name: the kubelet
// has seen the spec and has left the instance running for longer than the proof time.
func (c *container) provenByTime() bool {
	proven, _, _ := c.timeToProof()
	return proven
}

// timeToProof also returns the remaining proof time, zero if time proves nothing. begins is set if the proof time must
// begin now: a kubelet reports the seen spec before ending anything, so only sightings noted in the state count.
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

// onlyTimeTells reports whether nothing disproves the spec's image for the reported instance: the instance runs, the
// kubelet has seen the spec, and neither the instance nor its digest is known to belong to another image.
func (c *container) onlyTimeTells() bool {
	if c.spec == nil || c.status == nil || c.status.State.Running == nil || c.status.ContainerID == "" ||
		!c.view.nodeIsCurrent() {
		return false
	}
	digest := c.knownDigest(c.spec.Image)
	return c.instance() == nil && (digest == "" || digest == digestOf(c.status.ImageID))
}

// beginProof notes two facts in the state: since when the kubelet has left an instance running if only time can tell
// its image, and the started images that may be superseded images.
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
