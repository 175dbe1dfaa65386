package cause

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// agents returns the causes of a job or request that waits for node agents.
func (f *Facts) agents() []Cause {
	switch f.Object.GetKind() {
	case "ContainerRecreateRequest":
		return f.restarts()
	case "EphemeralJob":
		return f.ephemeral()
	case "ImagePullJob":
		return f.pulls()
	}
	return nil
}

// restarts returns a cause if a ContainerRecreateRequest waits for the agent of a Node.
func (f *Facts) restarts() []Cause {
	phase := fields.String(f.Object.Object, "status.phase")
	if phase != "" && phase != "Pending" || len(f.Pods) == 0 {
		return nil
	}
	detail := "no node agent has begun with the request; the Pod is on Node " + f.Pods[0].Spec.NodeName
	return []Cause{f.objectCause(Node, onNode, NotStarted, "status.phase", detail, "see whether the agent of the Node runs: kubectl kruise doctor")}
}

// ephemeral returns a cause for each ephemeral container of an EphemeralJob that has not ended.
func (f *Facts) ephemeral() (causes []Cause) {
	for _, container := range fields.List(f.Object.Object, "spec.template.ephemeralContainers") {
		name := fields.String(container, "name")
		for i := range f.Pods {
			pod := &f.Pods[i]
			if !slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name }) {
				continue
			}
			at := slices.IndexFunc(pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
			switch {
			case at < 0:
				detail := f.warning(pod, "the kubelet of Node "+pod.Spec.NodeName+" has not started container "+name)
				causes = append(causes, podCause(pod, Node, onNode, NotStarted, detail, "see the kubelet of the Node"))
			case pod.Status.EphemeralContainerStatuses[at].State.Waiting != nil:
				causes = append(causes, f.waiting(pod, &pod.Status.EphemeralContainerStatuses[at], "container "+name))
			case pod.Status.EphemeralContainerStatuses[at].State.Running != nil:
				causes = append(causes, podCause(pod, Runtime, inContainer, JobNotEnded, "container "+name+" runs", "the end of the container"))
			}
		}
	}
	return causes
}

// pulls returns the causes why an ImagePullJob waits: the Nodes that still pull the image, and the Nodes whose agents
// have not begun the pull.
func (f *Facts) pulls() (causes []Cause) {
	image := fields.String(f.Object.Object, "spec.image")
	var silent, pulling []string
	for i := range f.NodeImages {
		switch at := &f.NodeImages[i]; f.pullOn(at.Object) {
		case waits:
			silent = append(silent, at.GetName())
		case begun:
			pulling = append(pulling, at.GetName())
		}
	}
	if len(silent) > 0 {
		causes = append(causes, f.objectCause(Node, onNode, NotStarted, "status.active",
			"the agents of "+some(silent)+" have not begun to pull "+image, "see whether the agents run: kubectl kruise doctor"))
	}
	if len(pulling) > 0 {
		causes = append(causes, f.objectCause(Runtime, inContainer, Pulling, "status.active", image+" is being pulled on "+some(pulling), "the end of the pulls"))
	}
	return causes
}

// pullState is the progress of a pull.
type pullState uint8

const (
	none  pullState = iota // no pull of the job, or an ended pull
	waits                  // no report about the pull
	begun
)

// pullOn returns the progress of the job's pull on the Node of a NodeImage.
func (f *Facts) pullOn(image fields.Object) pullState {
	images, _ := fields.At(image, "spec.images")
	byName, _ := images.(fields.Object)
	for name, entry := range byName {
		content, _ := entry.(fields.Object)
		for _, tag := range fields.List(content, "tags") {
			isOurs := slices.ContainsFunc(fields.List(tag, "ownerReferences"), func(ref fields.Object) bool {
				return fields.String(ref, "uid") == string(f.Object.GetUID())
			})
			if !isOurs {
				continue
			}
			phase := phaseOf(image, name, tag)
			switch phase {
			case "Succeeded", "Failed":
				return none
			case "":
				return waits
			}
			return begun
		}
	}
	return none
}

// phaseOf returns the phase that an agent has reported for the present version of a tag in a NodeImage; empty without
// a report.
func phaseOf(image fields.Object, name string, tag fields.Object) string {
	statuses, _ := fields.At(image, "status.imageStatuses")
	byName, _ := statuses.(fields.Object)
	content, _ := byName[name].(fields.Object)
	for _, status := range fields.List(content, "tags") {
		if fields.String(status, "tag") == fields.String(tag, "tag") && fields.Int(status, "version") == fields.Int(tag, "version") {
			return fields.String(status, "phase")
		}
	}
	return ""
}

// mostNamed is the largest number of Nodes that a cause names.
const mostNamed = 5

// some returns a text with the names of at most mostNamed Nodes, sorted.
func some(nodes []string) string {
	slices.Sort(nodes)
	if len(nodes) == 1 {
		return "Node " + nodes[0]
	}
	text := fmt.Sprintf("%d Nodes (%s", len(nodes), strings.Join(nodes[:min(len(nodes), mostNamed)], ", "))
	if len(nodes) > mostNamed {
		text += ", ..."
	}
	return text + ")"
}
