package pvc_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/pvc"
)

func TestUnmounted(t *testing.T) {
	mount := func(names ...string) (c corev1.Container) {
		for _, name := range names {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name})
		}
		return c
	}
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{mount("init", "data")},
		Containers:     []corev1.Container{mount("tmp", "data", "log"), {VolumeDevices: []corev1.VolumeDevice{{Name: "disk"}}}, mount("log")},
		Volumes:        []corev1.Volume{{Name: "tmp"}},
	}
	for _, tc := range []struct{ templates, want []string }{
		{nil, []string{"data", "disk", "init", "log"}},
		{[]string{"log", "other"}, []string{"data", "disk", "init"}},
		{[]string{"data", "disk", "init", "log"}, []string{}},
	} {
		if diff := cmp.Diff(tc.want, pvc.Unmounted(spec, templates(tc.templates...))); diff != "" {
			t.Errorf("with %v (-want +got):\n%s", tc.templates, diff)
		}
	}
}

func TestClaimsOfAPodThatExists(t *testing.T) {
	pod := newPod("web-0", "data-web-0", "logs-web-0", "shared")
	if diff := cmp.Diff([]string{"cache"}, pvc.Lacking(pod, templates("data", "cache", "logs"))); diff != "" {
		t.Errorf("it lacks (-want +got):\n%s", diff)
	}
	missing := pvc.MissingOf(pod, templates("data", "cache", "logs"), map[string]string{"app": "web"}, nil, func(name string) bool { return name == "data-web-0" })
	if len(missing) != 1 || missing[0].Name != "logs-web-0" || missing[0].Namespace != "default" || missing[0].Labels["app"] != "web" {
		t.Errorf("missing %+v, want the claim that it uses and that does not exist", missing)
	}
}

func TestUnion(t *testing.T) {
	first := templates("data", "logs")
	more := templates("logs", "cache")
	more[0].Labels = nil
	var names []string
	for _, template := range pvc.Union(first[:1:2], more) {
		names = append(names, template.Name)
	}
	if diff := cmp.Diff([]string{"data", "logs", "cache"}, names); diff != "" || first[1].Labels == nil {
		t.Errorf("-want +got, first list %v:\n%s", first, diff)
	}
	if both := pvc.Union(first, more); both[1].Labels == nil {
		t.Error("a template of the second list takes the place of one of the first")
	}
}

// TestFormerAsksAFew: if the Pod's own claim is missing, the claim template is derived from another Pod's claim. Even
// with many Pods, Former looks up only a few claims of other Pods.
func TestFormerAsksAFew(t *testing.T) {
	claims := map[string]*corev1.PersistentVolumeClaim{
		"data-web-1": {Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1", DataSource: &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "s"}}},
	}
	asked := 0
	former := &pvc.Former{
		Claim: func(name string) (*corev1.PersistentVolumeClaim, bool) {
			asked++
			claim, ok := claims[name]
			return claim, ok
		},
		Pods: func(yield func(string) bool) {
			for i := range 1000 {
				if !yield(fmt.Sprint("web-", i)) {
					return
				}
			}
		},
	}
	spec := &corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "data"}, {Name: "gone"}}}}}
	for i := range 1000 {
		templates, unknown := former.Templates(spec, fmt.Sprint("web-", i))
		if diff := cmp.Diff([]string{"gone"}, unknown); diff != "" || len(templates) != 1 || templates[0].Spec.VolumeName != "" {
			t.Fatalf("web-%d: %+v (-want +got):\n%s", i, templates, diff)
		}
		if own := i == 1; (templates[0].Spec.DataSource != nil) != own {
			t.Errorf("web-%d is filled from %v", i, templates[0].Spec.DataSource)
		}
	}
	if asked > 2*1000+100 {
		t.Errorf("%d claims were asked for", asked)
	}
}
