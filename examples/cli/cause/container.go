package cause

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// containers returns a cause for each container that does not run or is not ready. Init containers come first,
// because the other containers wait for the init containers.
func (f *Facts) containers(pod *corev1.Pod) (causes []Cause) {
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		isSidecar := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == s.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
		if s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 || isSidecar && s.Started != nil && *s.Started {
			continue
		}
		if c, waits := f.container(pod, s, "init container "); waits {
			return append(causes, c)
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if c, waits := f.container(pod, &pod.Status.ContainerStatuses[i], "container "); waits {
			causes = append(causes, c)
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		detail := "the kubelet of Node " + pod.Spec.NodeName + " has not started the containers"
		return append(causes, podCause(pod, Node, onNode, NotStarted, f.warning(pod, detail), "see the kubelet of the Node"))
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return weight(a.Code) - weight(b.Code) })
	return causes
}

// weight orders the causes of containers: the cause of a container that cannot start comes before the cause of a
// container that is starting or waits for other containers.
func weight(code reason.Code) int {
	switch code {
	case LaunchPriority, "PodInitializing":
		return 2
	case NotReady, "ContainerCreating":
		return 1
	}
	return 0
}

// container returns the reason why a container does not run or is not ready; the result is false if there is none.
func (f *Facts) container(pod *corev1.Pod, s *corev1.ContainerStatus, word string) (Cause, bool) {
	name := word + s.Name
	switch {
	case s.State.Waiting != nil:
		return f.waiting(pod, s, name), true
	case s.State.Terminated != nil:
		t := s.State.Terminated
		detail := strings.TrimSpace(fmt.Sprintf("%s has ended: exit code %d %s %s", name, t.ExitCode, t.Reason, t.Message))
		return podCause(pod, Runtime, inContainer, reason.Code(or(t.Reason, "Terminated")), detail, "see the container's log"), true
	case strings.HasPrefix(word, "init") && !s.Ready:
		return podCause(pod, Runtime, inContainer, "PodInitializing", name+" runs, and the containers start after its end", "the end of the init container"), true
	case !s.Ready:
		detail := f.warning(pod, name+" runs and is not ready")
		return podCause(pod, Runtime, inContainer, NotReady, detail, "see the readiness probe and the log of the container"), true
	}
	return Cause{}, false
}

// waiting returns the cause of a container that does not run.
func (f *Facts) waiting(pod *corev1.Pod, s *corev1.ContainerStatus, name string) Cause {
	w := s.State.Waiting
	code := reason.Code(or(w.Reason, string(NotStarted)))
	detail := strings.TrimSuffix(name+": "+w.Message, ": ")
	switch code {
	case "CrashLoopBackOff":
		if t := s.LastTerminationState.Terminated; t != nil {
			detail = strings.TrimSpace(fmt.Sprintf("%s keeps ending (restarts: %d), last with exit code %d %s %s", name, s.RestartCount, t.ExitCode, t.Reason, t.Message))
		}
		return podCause(pod, Runtime, inContainer, code, detail, fmt.Sprintf("see kubectl logs %s -c %s --previous", pod.Name, s.Name))
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull":
		if image := imageOf(pod, s); !strings.Contains(detail, image) { // the status may have the image of the last instance
			detail += " (image " + image + ")"
		}
		return podCause(pod, Runtime, inContainer, code, detail, "an image that the Node can pull, or credentials for the registry")
	case "CreateContainerConfigError":
		if strings.Contains(w.Message, pod.Name+"-barrier") {
			return podCause(pod, Controller, inContainer, LaunchPriority, name+" waits for containers that start before: "+w.Message, "the start of the containers of higher launch priority, by the manager")
		}
		return podCause(pod, Runtime, inContainer, code, detail, "the missing ConfigMap, Secret or key")
	case "ContainerCreating", "PodInitializing":
		return podCause(pod, Node, onNode, code, f.warning(pod, name+" is being created"), "see the kubelet's events of the Pod")
	}
	return podCause(pod, Runtime, inContainer, code, detail, "see the kubelet's events of the Pod")
}

// imageOf returns the wanted image of a container.
func imageOf(pod *corev1.Pod, s *corev1.ContainerStatus) string {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == s.Name {
				return list[i].Image
			}
		}
	}
	return s.Image
}

// warning adds the newest warning event about a Pod to a detail. Events about a former Pod of the same name are
// ignored.
func (f *Facts) warning(pod *corev1.Pod, detail string) string {
	var newest *corev1.Event
	for i := range f.Events {
		e := &f.Events[i]
		isAbout := e.InvolvedObject.Name == pod.Name && (e.InvolvedObject.UID == "" || e.InvolvedObject.UID == pod.UID)
		if isAbout && e.Type == corev1.EventTypeWarning && (newest == nil || eventTime(e).After(eventTime(newest))) {
			newest = e
		}
	}
	if newest == nil {
		return detail
	}
	return fmt.Sprintf("%s: %s: %s", detail, newest.Reason, newest.Message)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
