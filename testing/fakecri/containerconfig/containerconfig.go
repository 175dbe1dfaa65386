// Package containerconfig answers the question: which configuration does a kubelet send to a runtime for a container
// of a Pod? The package returns the labels and annotations, the environment and the command, as kubelet 1.36 does.
package containerconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/workloadkit/workloadkit/testing/fakecri"
)

// These are labels that a kubelet sets on containers and sandboxes.
const (
	PodNameLabel       = "io.kubernetes.pod.name"
	PodNamespaceLabel  = "io.kubernetes.pod.namespace"
	PodUIDLabel        = "io.kubernetes.pod.uid"
	ContainerNameLabel = "io.kubernetes.container.name"
)

// These are annotations that a kubelet sets on containers.
const (
	HashAnnotation             = "io.kubernetes.container.hash"
	RestartCountAnnotation     = "io.kubernetes.container.restartCount"
	MessagePathAnnotation      = "io.kubernetes.container.terminationMessagePath"
	MessagePolicyAnnotation    = "io.kubernetes.container.terminationMessagePolicy"
	PreStopAnnotation          = "io.kubernetes.container.preStopHandler"
	PortsAnnotation            = "io.kubernetes.container.ports"
	DeletionGraceAnnotation    = "io.kubernetes.pod.deletionGracePeriod"
	TerminationGraceAnnotation = "io.kubernetes.pod.terminationGracePeriod"
)

// New returns a container of a Pod with the given attempt number, without ID, image ID and times.
func New(pod *corev1.Pod, spec *corev1.Container, attempt uint32) fakecri.Container {
	labels := podLabels(pod)
	labels[ContainerNameLabel] = spec.Name
	return fakecri.Container{
		SandboxID: SandboxID(pod), Name: spec.Name, Attempt: attempt, Image: spec.Image,
		Labels: labels, Annotations: annotations(pod, spec, attempt),
		Env: Env(pod, spec), Argv: slices.Concat(spec.Command, spec.Args),
	}
}

// SpecOf returns a container of a Pod by name, or nil. The container belongs to the Pod, so do not modify it.
func SpecOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon); c.Name == name {
			return &c
		}
	}
	return nil
}

// Sandbox returns the sandbox of a Pod.
func Sandbox(pod *corev1.Pod) fakecri.Sandbox {
	labels := podLabels(pod)
	for key, value := range pod.Labels {
		if _, own := labels[key]; !own {
			labels[key] = value
		}
	}
	s := fakecri.Sandbox{
		ID: SandboxID(pod), Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), IP: pod.Status.PodIP,
		Labels: labels, Annotations: maps.Clone(pod.Annotations),
		Ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	if pod.Status.StartTime != nil {
		s.Created = pod.Status.StartTime.Time
	}
	return s
}

// SandboxID returns the ID of a Pod's sandbox.
func SandboxID(pod *corev1.Pod) string {
	sum := sha256.Sum256([]byte("sandbox of " + pod.UID))
	return hex.EncodeToString(sum[:])
}

func podLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{PodNameLabel: pod.Name, PodNamespaceLabel: pod.Namespace, PodUIDLabel: string(pod.UID)}
}

func annotations(pod *corev1.Pod, spec *corev1.Container, attempt uint32) map[string]string {
	out := map[string]string{
		HashAnnotation:          strconv.FormatUint(uint64(Hash(spec)), 16),
		RestartCountAnnotation:  strconv.FormatUint(uint64(attempt), 10),
		MessagePathAnnotation:   spec.TerminationMessagePath,
		MessagePolicyAnnotation: string(spec.TerminationMessagePolicy),
	}
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		out[DeletionGraceAnnotation] = strconv.FormatInt(*seconds, 10)
	}
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		out[TerminationGraceAnnotation] = strconv.FormatInt(*seconds, 10)
	}
	if spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil {
		out[PreStopAnnotation] = inJSON(spec.Lifecycle.PreStop)
	}
	if len(spec.Ports) > 0 {
		out[PortsAnnotation] = inJSON(spec.Ports)
	}
	return out
}

// inJSON encodes a part of a Pod as JSON. Every part can be encoded, because the Pod was decoded from JSON.
func inJSON(part any) string {
	data, err := json.Marshal(part)
	if err != nil {
		return ""
	}
	return string(data)
}

// Hash returns the kubelet's hash of a container: a change of the hash restarts the container.
func Hash(spec *corev1.Container) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash([]byte(inJSON(map[string]string{"name": spec.Name, "image": spec.Image}))))
	return h.Sum32()
}

// Env returns the environment of a container that starts now, sorted by name, because a kubelet's order is not fixed.
// If several variables have the same name, the last value is used. Variables from ConfigMaps, Secrets, resources and
// services are left out.
func Env(pod *corev1.Pod, spec *corev1.Container) []fakecri.Variable {
	var out []fakecri.Variable
	for i := range spec.Env {
		e := &spec.Env[i]
		value := e.Value
		switch {
		case e.ValueFrom == nil:
			for _, known := range out {
				value = strings.ReplaceAll(value, "$("+known.Name+")", known.Value)
			}
		case e.ValueFrom.FieldRef == nil:
			continue
		default:
			value = field(pod, e.ValueFrom.FieldRef.FieldPath)
		}
		out = slices.DeleteFunc(out, func(v fakecri.Variable) bool { return v.Name == e.Name })
		out = append(out, fakecri.Variable{Name: e.Name, Value: value})
	}
	slices.SortFunc(out, func(a, b fakecri.Variable) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// field returns a field of a Pod, by a path of the downward API; for unknown paths the result is empty.
func field(pod *corev1.Pod, path string) string {
	if root, rest, keyed := strings.Cut(path, "['"); keyed {
		key := strings.TrimSuffix(rest, "']")
		switch root {
		case "metadata.labels":
			return pod.Labels[key]
		case "metadata.annotations":
			return pod.Annotations[key]
		}
		return ""
	}
	return map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.hostIP": pod.Status.HostIP, "status.podIP": pod.Status.PodIP,
	}[path]
}
