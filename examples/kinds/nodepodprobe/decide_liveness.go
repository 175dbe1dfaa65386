package nodepodprobe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// LivenessFailed means that a container has failed its liveness probe.
const LivenessFailed reason.Code = "LivenessFailed"

// moved is a liveness probe that admission has moved from a container to an annotation.
type moved struct {
	Name          string        `json:"name"`
	LivenessProbe *corev1.Probe `json:"livenessProbe"`
}

// move moves the liveness probes of a new Pod to the annotation, if the annotation AnnotationUsingEnhancedLiveness
// asks for the move and a workload of this API group controls the Pod.
func move(pod *corev1.Pod) error {
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.Annotations[apps.AnnotationUsingEnhancedLiveness] != "true" || owner == nil || !isOurs(owner.APIVersion) {
		return nil
	}
	var all []moved
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.LivenessProbe != nil {
			all = append(all, moved{c.Name, c.LivenessProbe})
		}
	}
	if len(all) == 0 {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("liveness probes: %w", err)
	}
	pod.Annotations[apps.AnnotationContainerProbeContext] = string(raw)
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].LivenessProbe = nil
	}
	return nil
}

func isOurs(apiVersion string) bool {
	return len(apiVersion) > len(apps.Group) && apiVersion[:len(apps.Group)+1] == apps.Group+"/"
}

// livenessName returns the name of a container's liveness probe in a NodePodProbe. The names of all other probes
// there contain a #, so the names never collide.
func livenessName(pod *corev1.Pod, container string) string { return pod.Name + "-" + container }

// livenessOf returns the entries of a NodePodProbe for the liveness probes that admission has moved to annotations of
// Pods, with the defaults of the kubelet. Probes that the agent cannot run are left out, and unusable contains the
// reasons.
func livenessOf(pods []*corev1.Pod) (entries []probing.Entry, unusable reason.List) {
	for _, pod := range pods {
		raw := pod.Annotations[apps.AnnotationContainerProbeContext]
		if raw == "" || !probing.IsProbed(pod) {
			continue
		}
		refuse := func(detail string) {
			unusable = append(unusable, reason.Reason{
				Code: probing.UnusableProbe, Object: reason.ObjectOf("Pod", pod), Path: "metadata.annotations[" + apps.AnnotationContainerProbeContext + "]", Detail: detail,
			})
		}
		var all []moved
		if err := json.Unmarshal([]byte(raw), &all); err != nil {
			refuse("the annotation cannot be read")
			continue
		}
		e := probing.Entry{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, IP: pod.Status.PodIP}
		for _, m := range all {
			container := podstate.Container(pod, m.Name)
			if container == nil || m.LivenessProbe == nil {
				continue
			}
			resolved, err := probing.Resolve(m.LivenessProbe, container)
			if err != nil {
				refuse(reason.Shorten(err.Error(), 256))
				continue
			}
			if resolved.Exec != nil {
				expand(resolved.Exec.Command, container.Env)
			}
			resolved.PeriodSeconds = cmp.Or(resolved.PeriodSeconds, 10)
			resolved.FailureThreshold = cmp.Or(resolved.FailureThreshold, 3)
			e.Probes = append(e.Probes, probing.Assigned{Name: livenessName(pod, m.Name), Container: m.Name, Probe: resolved})
		}
		if len(e.Probes) > 0 {
			entries = append(entries, e)
		}
	}
	return entries, unusable
}

// expand replaces $(NAME) in a command by the value of the environment variable in the container's spec. The kubelet
// does the same for its own probes (ExpandContainerCommandOnlyStatic in pkg/kubelet/container/helpers.go), where the
// value of a variable with valueFrom is empty. The text "$$" stands for "$", and a reference to an unknown name
// stays. Commands of PodProbeMarkers are not expanded, as in OpenKruise.
func expand(command []string, env []corev1.EnvVar) {
	values := map[string]string{}
	for i := range env {
		values[env[i].Name] = env[i].Value
	}
	for i, rest := range command {
		var out strings.Builder
		for {
			before, after, found := strings.Cut(rest, "$")
			out.WriteString(before)
			if !found {
				break
			}
			name, behind, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
			value, known := values[name]
			switch {
			case strings.HasPrefix(after, "$"):
				after = after[1:]
				out.WriteString("$")
			case strings.HasPrefix(after, "(") && closed && known:
				after = behind
				out.WriteString(value)
			case strings.HasPrefix(after, "(") && closed: // an escaped reference stays as text
				after = behind
				out.WriteString("$(" + name + ")")
			default:
				out.WriteString("$")
			}
			rest = after
		}
		command[i] = out.String()
	}
}

// failing returns the name of the first running container that has failed its liveness probe; empty if there is none.
// The result must be newer than the start of the container, because an older result is about a former instance.
func failing(pod *corev1.Pod, states []probing.ProbeState) (container, message string) {
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		status := podstate.ContainerStatus(pod, name)
		if status == nil || status.State.Running == nil || !ptr.Deref(status.Started, true) {
			continue
		}
		for _, s := range states {
			if s.Name == livenessName(pod, name) && s.State == probing.Failed && s.Probed.After(status.State.Running.StartedAt.Time) {
				return name, s.Message
			}
		}
	}
	return "", ""
}

// These are the times in a ContainerRecreateRequest, in seconds. The grace period is short, because a container that
// has failed its liveness probe seldom reacts to SIGTERM.
const (
	livenessGrace    = 1
	livenessDeadline = 300
	livenessKept     = 60
)

// requestOf returns the request for the restart of a container. The name depends only on the container instance, so
// the API server refuses a second request for the same instance.
func requestOf(pod *corev1.Pod, container string) *v1beta1.ContainerRecreateRequest {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(string(pod.UID) + "/" + container + "/" + podstate.ContainerStatus(pod, container).ContainerID)) // a hash returns no error
	return &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: fmt.Sprintf("liveness-%016x", sum.Sum64()), Labels: labelsOf(pod),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{
			PodName: pod.Name, Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: container}},
			ActiveDeadlineSeconds: ptr.To[int64](livenessDeadline), TTLSecondsAfterFinished: ptr.To[int32](livenessKept),
			Strategy: &v1beta1.ContainerRecreateRequestStrategy{
				FailurePolicy: v1beta1.ContainerRecreateRequestFailurePolicyFail, TerminationGracePeriodSeconds: ptr.To[int64](livenessGrace),
			},
		},
	}
}

// labelsOf returns the labels with the UID and the name of the Pod. A name that is too long for a label is left out.
// Admission sets the UID as well.
func labelsOf(pod *corev1.Pod) map[string]string {
	labels := map[string]string{apps.LabelRequestPodUID: string(pod.UID)}
	if len(pod.Name) <= 63 {
		labels[apps.LabelRequestPodName] = pod.Name
	}
	return labels
}
