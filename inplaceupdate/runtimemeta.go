package inplaceupdate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/utils/dump"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// runtimeMeta is what a node agent reports about running containers (apps.kruise.io/runtime-containers-meta).
type runtimeMeta struct {
	Containers []struct {
		Name         string `json:"name"`
		ContainerID  string `json:"containerID"`
		RestartCount int32  `json:"restartCount"`
		Hashes       struct {
			PlainHash                    uint64 `json:"plainHash"`
			ExtractedEnvFromMetadataHash uint64 `json:"extractedEnvFromMetadataHash"`
		} `json:"hashes"`
	} `json:"containers"`
}

// runtimeMeta returns the agent's report; ok is false when there is none. A report that cannot be read is none: the agent
// will write it again.
func (u *Updater) runtimeMeta(pod *corev1.Pod) (meta *runtimeMeta, ok bool) {
	raw, found := pod.Annotations[u.config.Keys.RuntimeMetaAnnotation]
	if u.config.Keys.RuntimeMetaAnnotation == "" || !found {
		return nil, false
	}
	meta = &runtimeMeta{}
	return meta, json.Unmarshal([]byte(raw), meta) == nil
}

// envUnreported says which containers are not known to run with today's labels and annotations.
func (u *Updater) envUnreported(pod *corev1.Pod) reason.List {
	meta, ok := u.runtimeMeta(pod)
	if !ok {
		return reason.List{{
			Code: EnvNotReported, Object: podObject(pod), Path: "metadata.annotations[" + u.config.Keys.RuntimeMetaAnnotation + "]",
			Detail: "no node agent has reported what containers run with", Remedy: "run the node agent on node " + pod.Spec.NodeName,
		}}
	}
	var waiting reason.List
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		hash := envHash(pod, container)
		if !meta.matches(pod, container.Name, func(_, env uint64) bool { return env == hash }) {
			waiting = append(waiting, reason.Reason{
				Code: EnvNotReported, Object: podObject(pod), Path: "status.containerStatuses[" + container.Name + "]",
				Detail: "container " + container.Name + " still runs with the old value of a label or annotation",
			})
		}
	}
	return waiting
}

// plainHashesMatch reports whether the agent confirms that every container runs exactly today's spec.
func (u *Updater) plainHashesMatch(pod *corev1.Pod) bool {
	meta, ok := u.runtimeMeta(pod)
	if !ok {
		return false
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		short, full := containerHashes(container)
		if !meta.matches(pod, container.Name, func(plain, _ uint64) bool { return plain == short || plain == full }) {
			return false
		}
	}
	return true
}

// matches reports whether the report about a container is of the instance that runs and satisfies the test.
func (m *runtimeMeta) matches(pod *corev1.Pod, name string, test func(plain, env uint64) bool) bool {
	status := podstate.ContainerStatus(pod, name)
	if status == nil {
		return false
	}
	for i := range m.Containers {
		if r := &m.Containers[i]; r.Name == name {
			return r.ContainerID == status.ContainerID && test(r.Hashes.PlainHash, r.Hashes.ExtractedEnvFromMetadataHash)
		}
	}
	return false
}

// containerHashes returns the kubelet's hash of a container in both of its forms: name and image since 1.31, the whole
// container before.
func containerHashes(container *corev1.Container) (short, full uint64) {
	return hashOf(map[string]string{"name": container.Name, "image": container.Image}), hashOf(container)
}

// envHash returns the hash of the env variables that a container reads from the Pod's labels and annotations, with
// today's values (1.2 of the reference).
func envHash(pod *corev1.Pod, container *corev1.Container) uint64 {
	var envs []corev1.EnvVar
	for i := range container.Env {
		switch kind, key, ok := envRef(&container.Env[i]); {
		case ok && kind == "labels":
			envs = append(envs, corev1.EnvVar{Name: container.Env[i].Name, Value: pod.Labels[key]})
		case ok:
			envs = append(envs, corev1.EnvVar{Name: container.Env[i].Name, Value: pod.Annotations[key]})
		}
	}
	slices.SortStableFunc(envs, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return hashOf(envs)
}

// hashOf is the kubelet's way to hash: FNV-32a over the printed form of the JSON.
func hashOf(v any) uint64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0 // no hash of a container is 0 but by chance; the caller then waits, which is safe
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash(raw))
	return uint64(h.Sum32())
}
