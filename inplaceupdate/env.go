package inplaceupdate

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// planRefMetadata moves the labels and annotations that containers and native sidecars read through env from the plan's
// Labels and Annotations to RefMetadata. Removed keys stay in Labels and Annotations, because there is no new value to
// wait for.
func (u *Updater) planRefMetadata(p *Plan, template *corev1.PodSpec) {
	var labels, annotations []string
	for c := range live(template) {
		var ref RefMetadata
		for v := range runtimemeta.Variables(c, u.config.IgnoredEnv) {
			switch v.Source {
			case runtimemeta.Labels:
				if value := p.Labels[v.Key]; value != nil {
					put(&ref.Labels, v.Key, *value)
					labels = append(labels, v.Key)
				}
			case runtimemeta.Annotations:
				if value := p.Annotations[v.Key]; value != nil {
					put(&ref.Annotations, v.Key, *value)
					annotations = append(annotations, v.Key)
				}
			}
		}
		if len(ref.Labels)+len(ref.Annotations) > 0 {
			put(&p.RefMetadata, c.Name, ref)
		}
	}
	for _, key := range labels {
		delete(p.Labels, key)
	}
	for _, key := range annotations {
		delete(p.Annotations, key)
	}
}

// live iterates over the containers that run as long as the Pod: regular containers and native sidecars.
func live(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; podstate.IsNativeSidecar(c) && !yield(c) {
				return
			}
		}
	}
}

// report returns the node agent's report, nil if missing. An unreadable report counts as missing, because the agent
// will write a new report.
func (v *view) report() *runtimemeta.Report {
	key := v.config.Keys.RuntimeMetaAnnotation
	raw, found := v.pod.Annotations[key]
	if key == "" || !found {
		return nil
	}
	report, err := runtimemeta.Decode(raw)
	if err != nil {
		return nil
	}
	return &report
}

// envUnreported returns a reason for each container that may still run with old labels and annotations in its env.
// images maps containers to new images; a container that certainly restarts for its new image is left out.
func (v *view) envUnreported(images map[string]string) reason.List {
	report := v.report()
	var list reason.List
	for i := range v.containers {
		c := &v.containers[i]
		if !c.readsMetadata() || c.restartsFor(images) {
			continue
		}
		entry := c.entry(report)
		if c.init && !v.awaitsSidecar(c.name) && (entry == nil || entry.Hashes.ExtractedEnvFromMetadataHash == 0) {
			continue // some agents do not report native sidecars, and the update did not change the sidecar's env
		}
		if report == nil {
			return reason.List{v.noReport(c)}
		}
		if entry == nil || entry.Hashes.ExtractedEnvFromMetadataHash != c.envHash() {
			list = append(list, v.oldEnv(c, report))
		}
	}
	return list
}

// awaitsSidecar reports whether the update changed the env of a native sidecar, so that the agent must report the
// sidecar.
func (v *view) awaitsSidecar(name string) bool {
	return v.state != nil && slices.Contains(v.state.EnvSidecars, name)
}

// noReport is the reason to wait for a container of a Pod without a report from the node agent.
func (v *view) noReport(c *container) reason.Reason {
	return reason.Reason{
		Code: EnvNotReported, Object: v.object(),
		Path:   "metadata.annotations[" + v.config.Keys.RuntimeMetaAnnotation + "]",
		Detail: "no node agent has reported what container " + c.name + " runs with",
		Remedy: "run the node agent on node " + v.pod.Spec.NodeName + ", or recreate the Pod",
	}
}

// oldEnv is the reason to wait for a container whose reported env is outdated.
func (v *view) oldEnv(c *container, report *runtimemeta.Report) reason.Reason {
	why := reason.Reason{
		Code: EnvNotReported, Object: v.object(), Path: "status.containerStatuses[" + c.name + "]",
		Detail: "container " + c.name + " still runs with the old value of a label or annotation",
	}
	if !c.init {
		return why
	}
	why.Path = "status.initContainerStatuses[" + c.name + "]"
	if !slices.ContainsFunc(report.Containers, func(r runtimemeta.Container) bool { return r.Name == c.name }) {
		why.Detail = "the node agent has not reported what native sidecar " + c.name + " runs with, and OpenKruise's reports none"
		why.Remedy = "run a node agent that reports native sidecars on node " + v.pod.Spec.NodeName + ", or recreate the Pod"
	}
	return why
}

// deliversEnv reports whether the new images restart every container that reads metadata through env. A restarted
// container reads the metadata written with or before the image, so no report is needed.
func (v *view) deliversEnv(images map[string]string) bool {
	delivers := false
	for i := range v.containers {
		c := &v.containers[i]
		if c.init && !v.awaitsSidecar(c.name) || !c.readsMetadata() {
			continue
		}
		if !c.restartsFor(images) {
			return false
		}
		delivers = true
	}
	return delivers
}

// restartsFor reports whether one of the image changes certainly restarts the container.
func (c *container) restartsFor(images map[string]string) bool {
	image, changes := images[c.name]
	return changes && !c.mayStay(image)
}

// readsMetadata reports whether an env variable of a container is set from a label or annotation of the Pod.
func (c *container) readsMetadata() bool {
	return c.spec != nil && runtimemeta.ReadsMetadata(c.spec, c.view.config.IgnoredEnv)
}

// envHash returns the hash of the container's env, computed with the Pod's present labels and annotations.
func (c *container) envHash() uint64 {
	return runtimemeta.ExpectedHash(c.view.pod, c.spec, c.view.config.IgnoredEnv)
}

// entry returns the part of the report about the container's present instance, nil if missing.
func (c *container) entry(report *runtimemeta.Report) *runtimemeta.Container {
	switch {
	case c.ahead != nil:
		return c.ahead
	case report == nil || c.status == nil:
		return nil
	}
	return report.Instance(c.name, c.status.ContainerID)
}

// confirms reports whether the agent has reported that the container runs exactly the present spec.
func (c *container) confirms(report *runtimemeta.Report) bool {
	entry := c.entry(report)
	if entry == nil {
		return false
	}
	short, full := runtimemeta.PlainHashes(c.spec)
	return entry.Hashes.PlainHash == short || entry.Hashes.PlainHash == full
}

// confirmsAll reports whether the agent has reported, for every container except native sidecars, that the container
// runs exactly the present spec.
func (v *view) confirmsAll(report *runtimemeta.Report) bool {
	for i := range v.containers {
		if c := &v.containers[i]; !c.init && !c.confirms(report) {
			return false
		}
	}
	return true
}
