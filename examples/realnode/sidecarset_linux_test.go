package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/controllertest"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarset"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// SidecarSets upgrade sidecars of each sort in a Pod that a real kubelet runs; the application's container goes on.
func TestSidecarSet(t *testing.T) {
	f := start(t)
	controllertest.Manager(t, f.cp, manager.Options{Namespace: f.namespace}) // which has the revisions
	for _, s := range []struct {
		name string
		run  func(*fixture, *v1beta1.SidecarSet)
	}{
		{"cold", (*fixture).coldSidecar},
		{"native", (*fixture).nativeSidecar},
		{"hot", (*fixture).hotSidecar},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			own := *f
			own.t = t
			s.run(&own, &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-" + s.name}})
		})
	}
}

// coldSidecar: the sidecar of a running Pod gets another image and is restarted, once.
func (f *fixture) coldSidecar(set *v1beta1.SidecarSet) {
	set.Spec.Containers = []pub.SidecarContainer{{Container: f.container("proxy", 8081)}}
	before := f.inject(set)
	after := f.upgrade(set, &set.Spec.Containers[0].Container, f.image("v2"))
	f.upgradedOnce(before, after, "proxy")
	if got := f.ask(after, 8081, http.MethodGet, "/", nil, ""); got != "v2" {
		f.t.Errorf("the sidecar serves %q, want v2", got)
	}
}

// nativeSidecar: so is one that is an init container, without a new run of what comes after it.
func (f *fixture) nativeSidecar(set *v1beta1.SidecarSet) {
	proxy := f.container("proxy", 8081)
	proxy.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	set.Spec.InitContainers = []pub.SidecarContainer{{Container: proxy}}
	before := f.inject(set)
	after := f.upgrade(set, &set.Spec.InitContainers[0].Container, f.image("v2"))
	f.upgradedOnce(before, after, "proxy")
	if got := f.ask(after, 8081, http.MethodGet, "/", nil, ""); got != "v2" {
		f.t.Errorf("the sidecar serves %q, want v2", got)
	}
}

// hotSidecar: of two containers one works at any time, through a whole cycle: the second takes over from the first, and the first again.
func (f *fixture) hotSidecar(set *v1beta1.SidecarSet) {
	empty := f.image("empty")
	// Both run side by side: neither asks for a certain port.
	mesh := corev1.Container{Name: "mesh", Image: f.image("v1"), Env: []corev1.EnvVar{{Name: "PORT", Value: "0"}}}
	set.Spec.Containers = []pub.SidecarContainer{{
		Container: mesh, UpgradeStrategy: pub.SidecarUpgradeStrategy{UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: empty},
	}}
	before := f.inject(set)
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	restarted := map[string]int32{"app": 0, "mesh-1": 0, "mesh-2": 0}
	for i, image := range []string{f.image("v2"), f.image("v3")} {
		after := f.upgrade(set, &set.Spec.Containers[0].Container, image)
		works, idle := "mesh-2", "mesh-1"
		if i == 1 {
			works, idle = idle, works
		}
		restarted[works]++ // to the new image
		restarted[idle]++  // and then to the empty one
		if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" {
			f.t.Errorf("the Pod changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(restarted, restarts(after)); diff != "" {
			f.t.Errorf("restarts after upgrade %d (-want +got):\n%s", i+1, diff)
		}
		got := map[string]string{}
		for _, name := range []string{works, idle} {
			got[name] = podstate.ContainerStatus(after, name).Image
		}
		if diff := cmp.Diff(map[string]string{works: image, idle: empty}, got); diff != "" {
			f.t.Errorf("images after upgrade %d (-want +got):\n%s", i+1, diff)
		}
		if instances(before)["app"] != instances(after)["app"] {
			f.t.Errorf("the application's container was %s and is %s", instances(before)["app"], instances(after)["app"])
		}
		before = after
	}
	for _, event := range recorder.Events() {
		if event.Pod.Name == before.Name && !oneWorks(event.Pod, empty, "mesh-1", "mesh-2") {
			f.t.Errorf("neither of the two works:\n%+v", event.Pod.Status.ContainerStatuses)
		}
	}
}

// oneWorks reports whether one of the containers is ready with another image than the empty one, in its spec and as the kubelet says.
func oneWorks(pod *corev1.Pod, empty string, names ...string) bool {
	for _, name := range names {
		status := podstate.ContainerStatus(pod, name)
		if status != nil && status.Ready && status.Image != empty && podstate.Container(pod, name).Image != empty {
			return true
		}
	}
	return false
}

// inject creates a SidecarSet for Pods of its name, and one such Pod as the webhook makes it. It returns the Pod when it is ready.
func (f *fixture) inject(set *v1beta1.SidecarSet) *corev1.Pod {
	f.t.Helper()
	labels := map[string]string{"app": set.Name}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.namespace}}
	set.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	set.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	if err := errors.Join(api.Default(set), f.Create(f.t.Context(), set)); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = f.Delete(context.WithoutCancel(f.t.Context()), set) })
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: set.Name, Labels: labels},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), DNSPolicy: corev1.DNSDefault,
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{f.container("app", 8080)}, Volumes: set.Spec.Volumes,
		},
	}
	if err := errors.Join(sidecarset.Inject(pod, set, time.Now()), f.Create(f.t.Context(), pod)); err != nil {
		f.t.Fatal(err)
	}
	return f.upgraded(set)
}

// upgrade gives a sidecar of the set another image and returns the Pod when it serves with that.
func (f *fixture) upgrade(set *v1beta1.SidecarSet, sidecar *corev1.Container, image string) *corev1.Pod {
	f.t.Helper()
	began := time.Now()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		sidecar.Image = image
		wanted := set.Spec
		if err := f.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		set.Spec = wanted
		if err := api.Default(set); err != nil {
			return err
		}
		return f.Update(ctx, set)
	})
	pod := f.upgraded(set)
	f.t.Logf("upgraded to %s after %s", image, time.Since(began).Round(100*time.Millisecond))
	return pod
}

// upgraded waits until the SidecarSet says that its Pod serves with the newest sidecars, and returns the Pod.
func (f *fixture) upgraded(set *v1beta1.SidecarSet) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{}
	controlplanetest.Eventually(f.t, 2*within, func(ctx context.Context) error {
		var now v1beta1.SidecarSet
		if err := errors.Join(f.Get(ctx, client.ObjectKeyFromObject(set), &now), f.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: set.Name}, pod)); err != nil {
			return err
		}
		if s := &now.Status; s.ObservedGeneration < set.Generation || s.MatchedPods != 1 || s.UpdatedReadyPods != 1 || !podstate.IsReady(pod) {
			return fmt.Errorf("generation %d, status %+v, condition %v: %w", set.Generation, *s, podstate.Condition(pod, apps.ConditionSidecarSetUpgradable), f.troubles(ctx))
		}
		return nil
	})
	return pod
}

// upgradedOnce demands that a Pod is what it was but for one restart of a sidecar.
func (f *fixture) upgradedOnce(before, after *corev1.Pod, sidecar string) {
	f.t.Helper()
	if diff := cmp.Diff(identityOf(before), identityOf(after)); diff != "" {
		f.t.Errorf("the Pod changed (-before +after):\n%s", diff)
	}
	want := restarts(before)
	want[sidecar]++
	if diff := cmp.Diff(want, restarts(after)); diff != "" {
		f.t.Errorf("restarts (-want +got):\n%s", diff)
	}
	was, is := instances(before), instances(after)
	f.t.Logf("containers before: %v, after: %v", was, is)
	if was[sidecar] == is[sidecar] || was["app"] != is["app"] {
		f.t.Errorf("containers before: %v, after: %v; want another %s alone", was, is, sidecar)
	}
}
