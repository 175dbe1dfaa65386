package sidecarcontrol_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// BenchmarkInject finds and injects 3 of 1,000 sets: a sidecar with volume and shared mounts, a sidecar with
// transferred env, and a native sidecar.
func BenchmarkInject(b *testing.B) {
	index := sidecarcontrol.NewIndex()
	for i := range 997 {
		s := spec(fmt.Sprintf("set-%03d", i), "a")
		s.Selector = selector("app", fmt.Sprintf("other-%d", i))
		index.Put(newSet(b, s))
	}
	log, mesh, proxy := spec("log"), spec("mesh"), spec("proxy")
	log.Containers = []sidecarcontrol.Sidecar{side("log", func(s *sidecarcontrol.Sidecar) {
		s.VolumeMounts, s.ShareMounts = []corev1.VolumeMount{{Name: "log", MountPath: "/var/log"}}, true
	})}
	log.Volumes = []corev1.Volume{{Name: "log", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	mesh.Containers = []sidecarcontrol.Sidecar{side("mesh", func(s *sidecarcontrol.Sidecar) {
		s.TransferEnv = []sidecarcontrol.TransferEnv{{Container: "app", Names: []string{"REGION"}}}
	})}
	proxy.InitContainers = []sidecarcontrol.Sidecar{native("proxy")}
	for _, s := range []sidecarcontrol.Spec{log, mesh, proxy} {
		index.Put(newSet(b, s))
	}
	control, template := newControl(b), newPod("app", "side")
	template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "REGION", Value: "eu"}}
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	b.ReportAllocs()
	for b.Loop() {
		pod := *template
		sets := index.Match(&pod, nil)
		if injected, err := control.Inject(&pod, sets, sidecarcontrol.Facts{Now: now}); err != nil || len(injected) != 3 {
			b.Fatal(len(injected), err)
		}
	}
}
