package inplaceupdate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
