package ownercache

import (
	"reflect"
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Share replaces strings, maps and slices of pod by equal values of like, so that both Pods use the same memory.
// Thousands of Pods made from the same template then take less memory and are compared faster, because comparing
// strings at the same address reads no bytes. Share does not change the Pod's content. Nobody else may use the Pod yet,
// and neither Pod may be modified afterwards, as is the rule for objects of a cache. Call Share only once for a Pod.
func Share(pod, like *corev1.Pod) {
	shareEntries(pod.Labels, like.Labels)
	shareEntries(pod.Annotations, like.Annotations)
	shareString(&pod.Namespace, like.Namespace)
	shareString(&pod.GenerateName, like.GenerateName)
	share(&pod.OwnerReferences, like.OwnerReferences)
	shareSpec(&pod.Spec, &like.Spec)
	shareStatus(pod, like)
}

// shareStatus shares only the status. shareStatus does not modify memory that another Pod may already use, and so may
// be called after Share for the same Pod.
func shareStatus(pod, like *corev1.Pod) {
	shareString((*string)(&pod.Status.Phase), string(like.Status.Phase))
	shareString((*string)(&pod.Status.QOSClass), string(like.Status.QOSClass))
	shareString(&pod.Status.HostIP, like.Status.HostIP)
	share(&pod.Status.HostIPs, like.Status.HostIPs)
	for i := range min(len(pod.Status.Conditions), len(like.Status.Conditions)) {
		c, other := &pod.Status.Conditions[i], &like.Status.Conditions[i]
		shareString((*string)(&c.Type), string(other.Type))
		shareString((*string)(&c.Status), string(other.Status))
		shareString(&c.Reason, other.Reason)
		shareString(&c.Message, other.Message)
	}
	for i := range min(len(pod.Status.ContainerStatuses), len(like.Status.ContainerStatuses)) {
		c, other := &pod.Status.ContainerStatuses[i], &like.Status.ContainerStatuses[i]
		shareString(&c.Name, other.Name)
		shareString(&c.Image, other.Image)
		shareString(&c.ImageID, other.ImageID)
		share(&c.VolumeMounts, other.VolumeMounts)
		share(&c.User, other.User)
		share(&c.Started, other.Started)
		share(&c.AllocatedResources, other.AllocatedResources)
		share(&c.Resources, other.Resources)
	}
}

func shareSpec(spec, like *corev1.PodSpec) {
	shareString(&spec.ServiceAccountName, like.ServiceAccountName)
	shareString(&spec.DeprecatedServiceAccount, like.DeprecatedServiceAccount)
	shareString(&spec.SchedulerName, like.SchedulerName)
	share(&spec.Tolerations, like.Tolerations)
	share(&spec.ReadinessGates, like.ReadinessGates)
	share(&spec.NodeSelector, like.NodeSelector)
	share(&spec.Affinity, like.Affinity)
	for i := range min(len(spec.Volumes), len(like.Volumes)) {
		share(&spec.Volumes[i].VolumeSource, like.Volumes[i].VolumeSource)
	}
	shareString(&spec.NodeName, like.NodeName)
	share(&spec.Containers, like.Containers)
	share(&spec.InitContainers, like.InitContainers)
	for _, containers := range [][2][]corev1.Container{{spec.Containers, like.Containers}, {spec.InitContainers, like.InitContainers}} {
		for i := range min(len(containers[0]), len(containers[1])) {
			if &containers[0][i] == &containers[1][i] {
				break // the whole value is shared
			}
			c, other := &containers[0][i], &containers[1][i]
			shareString(&c.Name, other.Name)
			shareString(&c.Image, other.Image)
			shareString(&c.TerminationMessagePath, other.TerminationMessagePath)
			share(&c.Command, other.Command)
			share(&c.Args, other.Args)
			share(&c.Ports, other.Ports)
			share(&c.Env, other.Env)
			share(&c.Resources.Requests, other.Resources.Requests)
			share(&c.Resources.Limits, other.Resources.Limits)
			share(&c.ReadinessProbe, other.ReadinessProbe)
			share(&c.LivenessProbe, other.LivenessProbe)
		}
	}
}

func shareString(s *string, like string) {
	if *s == like {
		*s = like
	}
}

// shareEntries shares the keys of maps even if the values differ. An assignment to an existing entry keeps the old
// key, so the entry is deleted first.
func shareEntries(m, like map[string]string) {
	for key, other := range like {
		value, ok := m[key]
		if !ok {
			continue
		}
		shareString(&value, other)
		m[key] = value
	}
}

func share[T any](value *T, like T) {
	if reflect.DeepEqual(*value, like) {
		*value = like
	}
}

const (
	// maxModels limits the number of owners remembered by a Sharer.
	maxModels = 10_000
	// maxUID is the length of the longest UID that a Sharer remembers; real UIDs are shorter. Without this limit, owner
	// references with long texts as UID, which anybody may write, would fill the memory.
	maxUID = 64
)

// Sharer makes each Pod of a controller share memory with an earlier Pod of the controller: the previous Pod, or the
// previous Pod with container statuses, as long as these Pods are in memory. The zero value is ready. A Sharer is safe
// for concurrent use.
type Sharer struct {
	mu     sync.Mutex
	models map[types.UID]models
}

// models are earlier Pods of a controller: the last Pod, and the last Pod with container statuses. The last Pod may
// be a new Pod without container statuses.
type models struct{ last, reported weak.Pointer[corev1.Pod] }

// Transform is a transform function for a cache of Pods (client-go's TransformFunc). Transform also removes
// metadata.managedFields. Objects of other types are not modified.
func (s *Sharer) Transform(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	if n := len(pod.Status.Conditions); n > 0 { // the decoder allocates slices with spare capacity
		pod.Status.Conditions = append(make([]corev1.PodCondition, 0, n), pod.Status.Conditions...)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || len(owner.UID) > maxUID {
		return pod, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.models[owner.UID]
	if s.models == nil || !ok && len(s.models) >= maxModels {
		// If there are too many owners, all models are removed; owners get new models with their next Pods.
		s.models = map[types.UID]models{}
	}
	last, reported := known.last.Value(), known.reported.Value()
	if last != nil {
		Share(pod, last)
	}
	if reported != nil && reported != last {
		// The containers of the spec may now be shared with the last Pod, and must not be modified.
		shareStatus(pod, reported)
	}
	known.last = weak.Make(pod)
	if len(pod.Status.ContainerStatuses) > 0 {
		known.reported = known.last
	}
	s.models[types.UID(strings.Clone(string(owner.UID)))] = known
	return pod, nil
}
