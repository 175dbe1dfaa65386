package inplaceupdate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/workloadkit/workloadkit/reason"
)

// planRefMetadata moves the keys read by containers through env to RefMetadata. Removed keys stay, because they have no
// new value to wait for.
func (u *Updater) planRefMetadata(p *Plan, containers []corev1.Container) {
	var labels, annotations []string
	for i := range containers {
		var ref RefMetadata
		for _, key := range u.envKeys(&containers[i], "labels") {
			if value := p.Labels[key]; value != nil {
				put(&ref.Labels, key, *value)
				labels = append(labels, key)
			}
		}
		for _, key := range u.envKeys(&containers[i], "annotations") {
			if value := p.Annotations[key]; value != nil {
				put(&ref.Annotations, key, *value)
				annotations = append(annotations, key)
			}
		}
		if len(ref.Labels)+len(ref.Annotations) > 0 {
			put(&p.RefMetadata, containers[i].Name, ref)
		}
	}
	for _, key := range labels {
		delete(p.Labels, key)
	}
	for _, key := range annotations {
		delete(p.Annotations, key)
	}
}

// envKeys returns the keys of labels or annotations read by a container through env.
func (u *Updater) envKeys(container *corev1.Container, kind string) []string {
	var keys []string
	for i := range container.Env {
		env := &container.Env[i]
		if slices.Contains(u.config.IgnoredEnv, env.Name) {
			continue
		}
		if of, key, ok := envRef(env); ok && of == kind {
			keys = append(keys, key)
		}
	}
	return keys
}

// envRef returns the source of an env variable: "labels" or "annotations", and the key. ok is false for every other
// variable.
func envRef(env *corev1.EnvVar) (kind, key string, ok bool) {
	if env.Value != "" || env.ValueFrom == nil || env.ValueFrom.FieldRef == nil {
		return "", "", false
	}
	path := env.ValueFrom.FieldRef.FieldPath
	for _, kind := range []string{"labels", "annotations"} {
		if key, found := strings.CutPrefix(path, "metadata."+kind+"['"); found {
			key, found = strings.CutSuffix(key, "']")
			return kind, key, found
		}
	}
	return "", "", false
}

// runtimeMeta is a node agent's report about running containers (apps.kruise.io/runtime-containers-meta).
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

// runtimeMeta returns the agent's report, nil if missing. An unreadable report counts as missing, because the agent
// will write again.
func (v *view) runtimeMeta() *runtimeMeta {
	key := v.config.Keys.RuntimeMetaAnnotation
	raw, found := v.pod.Annotations[key]
	if key == "" || !found {
		return nil
	}
	meta := &runtimeMeta{}
	if json.Unmarshal([]byte(raw), meta) != nil {
		return nil
	}
	return meta
}

// envUnreported names the containers not known to run with the present labels and annotations, but for containers about
// to be restarted for one of the images.
func (v *view) envUnreported(images map[string]string) reason.List {
	meta := v.runtimeMeta()
	var list reason.List
	for i := range v.containers {
		c := &v.containers[i]
		if c.init || !c.readsMetadata() || c.restartsFor(images) {
			continue
		}
		if meta == nil {
			return reason.List{{
				Code: EnvNotReported, Object: v.object(),
				Path:   "metadata.annotations[" + v.config.Keys.RuntimeMetaAnnotation + "]",
				Detail: "no node agent has reported what container " + c.name + " runs with",
				Remedy: "run the node agent on node " + v.pod.Spec.NodeName + ", or recreate the Pod",
			}}
		}
		if hash := c.envHash(); !meta.matches(c, func(_, env uint64) bool { return env == hash }) {
			list = append(list, reason.Reason{
				Code: EnvNotReported, Object: v.object(), Path: "status.containerStatuses[" + c.name + "]",
				Detail: "container " + c.name + " still runs with the old value of a label or annotation",
			})
		}
	}
	return list
}

// deliversEnv reports whether the restarts for images deliver the metadata to every container that reads any: a restart
// reads the metadata delivered with or before the image, and needs nobody's report.
func (v *view) deliversEnv(images map[string]string) bool {
	delivers := false
	for i := range v.containers {
		c := &v.containers[i]
		if c.init || !c.readsMetadata() {
			continue
		}
		if !c.restartsFor(images) {
			return false
		}
		delivers = true
	}
	return delivers
}

// restartsFor reports whether one of the images certainly restarts the container.
func (c *container) restartsFor(images map[string]string) bool {
	image, changes := images[c.name]
	return changes && !c.mayStay(image)
}

// readsMetadata reports whether an env variable of a container is a label or annotation of the Pod.
func (c *container) readsMetadata() bool {
	return slices.ContainsFunc(c.spec.Env, func(env corev1.EnvVar) bool {
		_, _, ok := envRef(&env)
		return ok
	})
}

// plainHashesMatch reports whether the agent confirms the exact present spec for every container.
func (v *view) plainHashesMatch() bool {
	meta := v.runtimeMeta()
	if meta == nil {
		return false
	}
	for i := range v.containers {
		c := &v.containers[i]
		if c.init {
			continue
		}
		short, full := containerHashes(c.spec)
		if !meta.matches(c, func(plain, _ uint64) bool { return plain == short || plain == full }) {
			return false
		}
	}
	return true
}

// matches reports whether the report about a container belongs to the running instance and satisfies the test.
func (m *runtimeMeta) matches(c *container, test func(plain, env uint64) bool) bool {
	if c.status == nil {
		return false
	}
	for i := range m.Containers {
		if r := &m.Containers[i]; r.Name == c.name {
			return r.ContainerID == c.status.ContainerID &&
				test(r.Hashes.PlainHash, r.Hashes.ExtractedEnvFromMetadataHash)
		}
	}
	return false
}

// containerHashes returns the kubelet's hash of a container in both forms: name and image since 1.31, the whole
// container before.
func containerHashes(container *corev1.Container) (short, full uint64) {
	return hashOf(map[string]string{"name": container.Name, "image": container.Image}), hashOf(container)
}

// envHash returns the hash of the env variables read by a container from the Pod's labels and annotations, with their
// present values, computed like OpenKruise's node agent.
func (c *container) envHash() uint64 {
	var envs []corev1.EnvVar
	for i := range c.spec.Env {
		name, pod := c.spec.Env[i].Name, c.view.pod
		switch kind, key, ok := envRef(&c.spec.Env[i]); {
		case ok && kind == "labels":
			envs = append(envs, corev1.EnvVar{Name: name, Value: pod.Labels[key]})
		case ok:
			envs = append(envs, corev1.EnvVar{Name: name, Value: pod.Annotations[key]})
		}
	}
	slices.SortStableFunc(envs, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return hashOf(envs)
}

// hashOf is the kubelet's way to hash: FNV-32a over the printed form of the JSON.
func hashOf(v any) uint64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0 // hardly the hash of any container; the caller waits then, which is safe
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash(raw))
	return uint64(h.Sum32())
}
