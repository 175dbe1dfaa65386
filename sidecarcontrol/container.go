package sidecarcontrol

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/podstate"
)

// build makes the container that a sidecar becomes in this Pod: the twin of this number, for a hot one.
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
	if s.ShareMounts {
		for _, own := range d.own {
			shareMounts(&c, s, own)
		}
	}
	if s.ShareDevices {
		for _, own := range d.own {
			shareDevices(&c, own)
		}
	}
	if s.resources != nil {
		d.computeResources(s, &c)
	}
	return c
}

// firstOfEach drops env variables whose name was there before. Kubernetes would take the last one.
func firstOfEach(env []corev1.EnvVar) []corev1.EnvVar {
	return appendEnv(make([]corev1.EnvVar, 0, len(env)), env)
}

func appendEnv(env, more []corev1.EnvVar) []corev1.EnvVar {
	for i := range more {
		if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == more[i].Name }) {
			env = append(env, more[i])
		}
	}
	return env
}

// transferred returns the env variables that a sidecar wants of one of the Pod's own containers.
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
		for _, name := range t.names {
			if i := slices.IndexFunc(own.Env, func(e corev1.EnvVar) bool { return e.Name == name }); i >= 0 {
				env = append(env, own.Env[i])
			}
		}
	}
	return env
}

// shareMounts adds the mounts of one of the Pod's own containers, but for paths that are taken and volumes that the sidecar maps as devices, and
// the env variables that they expand.
func shareMounts(c *corev1.Container, s *sidecar, own *corev1.Container) {
	for i := range own.VolumeMounts {
		mount := &own.VolumeMounts[i]
		if mountsAt(c, mount.MountPath) || hasDeviceAt(s.VolumeDevices, mount.MountPath) || hasDeviceOf(c, mount.Name) {
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, *mount)
		for _, name := range expanded(mount.SubPathExpr) {
			if at := slices.IndexFunc(own.Env, func(e corev1.EnvVar) bool { return e.Name == name }); at >= 0 {
				c.Env = appendEnv(c.Env, own.Env[at:at+1])
			}
		}
	}
}

// shareDevices adds the devices of one of the Pod's own containers, but for paths that are taken and volumes that the sidecar has already.
func shareDevices(c *corev1.Container, own *corev1.Container) {
	for _, device := range own.VolumeDevices {
		if !mountsAt(c, device.DevicePath) && !hasDeviceAt(c.VolumeDevices, device.DevicePath) && !mountsVolume(c, device.Name) && !hasDeviceOf(c, device.Name) {
			c.VolumeDevices = append(c.VolumeDevices, device)
		}
	}
}

func mountsAt(c *corev1.Container, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
}

func mountsVolume(c *corev1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
}

func hasDeviceOf(c *corev1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume })
}

func hasDeviceAt(devices []corev1.VolumeDevice, path string) bool {
	return slices.ContainsFunc(devices, func(d corev1.VolumeDevice) bool { return d.DevicePath == path })
}

// expanded returns the names of the env variables that an expression expands.
func expanded(expression string) (names []string) {
	if expression == "" {
		return nil
	}
	for _, found := range regexp.MustCompile(`\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)`).FindAllStringSubmatch(expression, -1) {
		names = append(names, found[1])
	}
	return names
}

// computeResources sets what a policy says.
func (d *draft) computeResources(s *sidecar, c *corev1.Container) {
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
	d.addProblems(s.path+".resourcesPolicy", err)
	c.Resources = resources
}

// mounts reports whether one of the set's sidecars mounts the volume itself.
func (s *Set) mounts(volume string) bool {
	for side := range s.all() {
		if mountsVolume(&side.Container, volume) || hasDeviceOf(&side.Container, volume) {
			return true
		}
	}
	return false
}

func (s *Set) hasVolume(volume *corev1.Volume) bool {
	return slices.ContainsFunc(s.spec.Volumes, func(v corev1.Volume) bool { return equality.Semantic.DeepEqual(&v, volume) })
}
