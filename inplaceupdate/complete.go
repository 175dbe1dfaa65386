package inplaceupdate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// imagesUnfinished says which of the recorded containers do not run their new image yet.
func (c *Config) imagesUnfinished(pod *corev1.Pod, state *Progress) reason.List {
	var waiting reason.List
	check := func(containers []corev1.Container) {
		for i := range containers {
			if _, recorded := state.LastContainerStatuses[containers[i].Name]; !recorded {
				continue
			}
			if why := c.imageRuns(pod, state, containers[i].Name); why != nil {
				waiting = append(waiting, *why)
			}
		}
	}
	check(pod.Spec.InitContainers)
	if !c.plainHashesMatch(pod) { // the node agent reports containers, not native sidecars
		check(pod.Spec.Containers)
	}
	return waiting
}

// imageRuns returns nil when a container whose image was changed runs the new one, otherwise why not (U-23.4).
func (c *Config) imageRuns(pod *corev1.Pod, state *Progress, name string) *reason.Reason {
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	if spec == nil || status == nil {
		return imageNotRunning(pod, name, "container "+name+" is not reported")
	}
	runs := isImage(status.Image, spec.Image)
	if status.ImageID != state.LastContainerStatuses[name].ImageID && status.ImageID != "" {
		runs = runs || !isSuperseded(status.Image, state.SupersededImages[name])
	}
	if runs {
		return nil
	}
	return imageNotRunning(pod, name, "container "+name+" still runs "+status.Image+" ("+status.ImageID+"), not "+spec.Image)
}

func imageNotRunning(pod *corev1.Pod, container, detail string) *reason.Reason {
	return &reason.Reason{
		Code: ImageNotRunning, Object: podObject(pod), Path: "status.containerStatuses[" + container + "].imageID", Detail: detail,
	}
}

// isSuperseded reports whether the image that runs is one that an earlier, unfinished update asked for.
func isSuperseded(running string, superseded []string) bool {
	return slices.ContainsFunc(superseded, func(image string) bool { return isImage(running, image) })
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

// unresized says which containers do not have their requests and limits yet (U-23.2). A native sidecar counts where its
// node reports what it has.
func (c *Config) unresized(pod *corev1.Pod) reason.List {
	var waiting reason.List
	check := func(spec *corev1.Container, has *corev1.ResourceRequirements) {
		if has != nil && sameQuantities(spec.Resources.Limits, has.Limits) && sameQuantities(spec.Resources.Requests, has.Requests) {
			return
		}
		waiting = append(waiting, reason.Reason{
			Code: ResizeNotDone, Object: podObject(pod), Path: "status.containerStatuses[" + spec.Name + "].resources",
			Detail: "container " + spec.Name + " does not have its new resources" + resizeTrouble(pod),
		})
	}
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if status := podstate.ContainerStatus(pod, spec.Name); podstate.IsNativeSidecar(spec) && status != nil && status.Resources != nil {
			check(spec, status.Resources)
		}
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		var has *corev1.ResourceRequirements
		if status := podstate.ContainerStatus(pod, spec.Name); status != nil {
			has = cmp.Or(status.Resources, &corev1.ResourceRequirements{})
		}
		check(spec, has)
	}
	return waiting
}

// resizeTrouble returns what the node says about a resize that it cannot or will not do now (KEP-1287).
func resizeTrouble(pod *corev1.Pod) string {
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := podstate.Condition(pod, t); c != nil && c.Status == corev1.ConditionTrue && c.Reason != "" {
			return ": " + strings.TrimSpace(c.Reason+" "+c.Message)
		}
	}
	return ""
}
