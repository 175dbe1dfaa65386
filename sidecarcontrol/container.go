package sidecarcontrol

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// build makes a sidecar's container for the Pod. twin is the number of the container, 1 or 2, if the sidecar is
// injected twice for hot upgrades.
func (d *draft) build(set *Set, s *sidecar, twin int, name string) corev1.Container {
	c := s.Container
	c.Name = name
	c.Env = slices.Concat(s.Env, []corev1.EnvVar{{Name: d.control.keys.InjectedEnv, Value: marked}})
	c.Env = firstOfEach(c.Env)
	if s.Hot != nil {
		d.addTwin(set, s, &c, twin)
	}
	for _, t := range s.transfer {
		c.Env = appendEnv(c.Env, d.transferred(t))
	}
	c.VolumeMounts, c.VolumeDevices = slices.Clip(c.VolumeMounts), slices.Clip(c.VolumeDevices)
	if s.ShareMounts || s.ShareDevices {
		d.share(s, &c)
	}
	if s.resources != nil {
		d.computeResources(set, s, &c)
	}
	return c
}

// share adds the volume mounts of the Pod's own containers, and then their volume devices.
func (d *draft) share(s *sidecar, c *corev1.Container) {
	taken := placesOf(c)
	for _, own := range d.own {
		if s.ShareMounts {
			shareMounts(c, taken, own)
		}
	}
	for _, own := range d.own {
		if s.ShareDevices {
			shareDevices(c, taken, own)
		}
	}
}

// firstOfEach removes each env variable whose name an earlier variable has. Of several variables with the same name,
// Kubernetes would use the last.
func firstOfEach(env []corev1.EnvVar) []corev1.EnvVar {
	return appendEnv(make([]corev1.EnvVar, 0, len(env)), env)
}

// few is the number of elements up to which a loop is cheaper than a map.
const few = 20

func appendEnv(env, more []corev1.EnvVar) []corev1.EnvVar {
	if len(env)+len(more) <= few {
		for i := range more {
			if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == more[i].Name }) {
				env = append(env, more[i])
			}
		}
		return env
	}
	there := make(map[string]bool, len(env)+len(more))
	for i := range env {
		there[env[i].Name] = true
	}
	for i := range more {
		if name := more[i].Name; !there[name] {
			there[name] = true
			env = append(env, more[i])
		}
	}
	return env
}

// transferred returns the env variables that a sidecar copies from the Pod's own containers. Before each variable come
// the variables that its value refers to, because a value can only refer to earlier variables.
func (d *draft) transferred(t transfer) (env []corev1.EnvVar) {
	from := t.container
	switch {
	case t.label != "":
		from = d.pod.Labels[t.label]
	case t.annotation != "":
		from = d.annotations[t.annotation]
	}
	for _, own := range d.own {
		if own.Name != from {
			continue
		}
		taken := map[string]bool{}
		for _, name := range t.names {
			env = withReferences(env, own.Env, name, taken)
		}
	}
	return env
}

// withReferences appends the named variable, after the earlier variables to which its value refers.
func withReferences(env, own []corev1.EnvVar, name string, taken map[string]bool) []corev1.EnvVar {
	i := slices.IndexFunc(own, func(e corev1.EnvVar) bool { return e.Name == name })
	if i < 0 || taken[name] {
		return env
	}
	taken[name] = true
	for _, other := range expanded(own[i].Value) {
		env = withReferences(env, own[:i], other, taken)
	}
	return append(env, own[i])
}

// places holds the mount paths and the volumes that a container uses already. The fields are maps because a Pod may
// have thousands of mounts.
type places struct{ paths, mounted, mapped map[string]bool }

func placesOf(c *corev1.Container) places {
	p := places{paths: map[string]bool{}, mounted: map[string]bool{}, mapped: map[string]bool{}}
	for i := range c.VolumeMounts {
		p.mount(&c.VolumeMounts[i])
	}
	for i := range c.VolumeDevices {
		p.device(&c.VolumeDevices[i])
	}
	return p
}

func (p places) mount(m *corev1.VolumeMount) { p.paths[m.MountPath], p.mounted[m.Name] = true, true }

func (p places) device(d *corev1.VolumeDevice) { p.paths[d.DevicePath], p.mapped[d.Name] = true, true }

// shareMounts adds the volume mounts of the Pod's own container, except paths in use and volumes that the sidecar maps
// as devices. shareMounts also adds the env variables used in the mounts' paths, with the variables that their values
// refer to.
func shareMounts(c *corev1.Container, taken places, own *corev1.Container) {
	wanted := map[string]bool{}
	for i := range own.VolumeMounts {
		mount := &own.VolumeMounts[i]
		if taken.paths[mount.MountPath] || taken.mapped[mount.Name] {
			continue
		}
		taken.mount(mount)
		shared := *mount
		if p := shared.MountPropagation; p != nil && *p == corev1.MountPropagationBidirectional && !isPrivileged(c) {
			// An unprivileged container may not have the mount propagation Bidirectional.
			shared.MountPropagation = new(corev1.MountPropagationHostToContainer)
		}
		c.VolumeMounts = append(c.VolumeMounts, shared)
		for _, name := range expanded(mount.SubPathExpr) {
			wanted[name] = true
		}
	}
	if len(wanted) == 0 {
		return
	}
	for i := range slices.Backward(own.Env) { // a variable may refer to earlier variables
		if wanted[own.Env[i].Name] {
			for _, name := range expanded(own.Env[i].Value) {
				wanted[name] = true
			}
		}
	}
	c.Env = appendEnv(c.Env, slices.DeleteFunc(slices.Clone(own.Env), func(e corev1.EnvVar) bool { return !wanted[e.Name] }))
}

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// shareDevices adds the volume devices of the Pod's own container, except paths in use and volumes that the sidecar
// uses already.
func shareDevices(c *corev1.Container, taken places, own *corev1.Container) {
	for i := range own.VolumeDevices {
		device := &own.VolumeDevices[i]
		if !taken.paths[device.DevicePath] && !taken.mounted[device.Name] && !taken.mapped[device.Name] {
			taken.device(device)
			c.VolumeDevices = append(c.VolumeDevices, *device)
		}
	}
}

// expanded returns the names of the env variables that an expression such as "a/$(NAME)" refers to. The expression
// "$$(NAME)" refers to no variable.
func expanded(expression string) (names []string) {
	for {
		_, rest, found := strings.Cut(expression, "$")
		if !found {
			return names
		}
		if escaped, is := strings.CutPrefix(rest, "$"); is {
			expression = escaped
			continue
		}
		inner, is := strings.CutPrefix(rest, "(")
		name, after, closed := strings.Cut(inner, ")")
		if expression = rest; is && closed {
			names, expression = append(names, name), after
		}
	}
}

// computeResources sets the container's resources as the sidecar's ResourcesPolicy says.
func (d *draft) computeResources(set *Set, s *sidecar, c *corev1.Container) {
	var targets []corev1.ResourceRequirements
	add := func(list []corev1.Container, native bool) {
		for i := range list {
			own := &list[i]
			if d.injected[own.Name] == nil && (!native || podstate.IsNativeSidecar(own)) && s.resources.Selects(own.Name) {
				targets = append(targets, own.Resources)
			}
		}
	}
	add(d.pod.Spec.Containers, false)
	add(d.pod.Spec.InitContainers, true)
	resources, err := s.resources.Of(targets)
	list, _, _ := strings.Cut(s.path, "[")
	d.addProblems(reason.Object{Kind: "set", Name: set.spec.Name}, list+"["+s.Name+"].resourcesPolicy", err)
	c.Resources = resources
}

// mounts reports whether a sidecar of the set itself mounts the volume, or uses the volume in its env.
func (s *Set) mounts(volume string) bool {
	for side := range s.all() {
		if slices.ContainsFunc(side.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) ||
			slices.ContainsFunc(side.VolumeDevices, func(v corev1.VolumeDevice) bool { return v.Name == volume }) ||
			slices.ContainsFunc(side.Env, func(e corev1.EnvVar) bool {
				return e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil && e.ValueFrom.FileKeyRef.VolumeName == volume
			}) {
			return true
		}
	}
	return false
}

func (s *Set) hasVolume(volume *corev1.Volume) bool {
	return slices.ContainsFunc(s.spec.Volumes, func(v corev1.Volume) bool { return equality.Semantic.DeepEqual(&v, volume) })
}
