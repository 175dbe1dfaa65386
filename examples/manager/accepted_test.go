package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/internal/hostile"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// chance builds random Pods and SidecarSets. Their names come from short lists, so that names often collide.
type chance struct{ *rand.Rand }

func (c chance) one(choices ...string) string { return choices[c.IntN(len(choices))] }

func (c chance) often() bool  { return c.IntN(3) > 0 }
func (c chance) seldom() bool { return c.IntN(5) == 0 }

func (c chance) containerName() string { return c.one("a", "b", "c", "d", "mesh", "mesh-1") }

func (c chance) volumes(most int) (out []corev1.Volume) {
	for _, name := range []string{"v", "w", "x"}[:c.IntN(most+1)] {
		source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		switch c.IntN(6) {
		case 0:
			source = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}
		case 1:
			source = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
		}
		out = append(out, corev1.Volume{Name: name, VolumeSource: source})
	}
	return out
}

// container returns a random container, which may mount the volumes.
func (c chance) container(name string, volumes []corev1.Volume) corev1.Container {
	out := corev1.Container{Name: name, Image: "example.test/" + name + ":v1"}
	if c.often() {
		out.Env = append(out.Env, corev1.EnvVar{Name: c.one("A", "B"), Value: c.one("1", "$(A)")})
	}
	if c.seldom() {
		out.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	}
	paths := map[string]bool{}
	for _, v := range volumes {
		mount := corev1.VolumeMount{Name: v.Name, MountPath: c.one("/v", "/w", "/x"), SubPathExpr: c.one("", "", "$(A)")}
		if claim := v.PersistentVolumeClaim != nil; claim && c.seldom() {
			out.VolumeDevices = append(out.VolumeDevices, corev1.VolumeDevice{Name: v.Name, DevicePath: c.one("/dev/a", "/dev/b")})
			continue
		}
		if !paths[mount.MountPath] && c.often() {
			out.VolumeMounts, paths[mount.MountPath] = append(out.VolumeMounts, mount), true
		}
	}
	if c.seldom() {
		out.Ports = []corev1.ContainerPort{{Name: c.one("http", "admin"), ContainerPort: int32(8000 + c.IntN(2)), HostPort: int32(c.IntN(2) * 9000)}}
	}
	if c.often() {
		out.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(c.IntN(300)), resource.DecimalSI)}
	}
	if c.seldom() {
		out.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(300+c.IntN(300)), resource.DecimalSI)}
	}
	if c.seldom() {
		out.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	}
	return out
}

func (c chance) pod(namespace string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, GenerateName: "whatever-", Labels: map[string]string{"whatever": "yes", "biz": c.containerName()}, Annotations: map[string]string{},
	}}
	if c.seldom() {
		pod.Annotations["example.com/a"] = c.one("x", "{}", `{"b":1}`)
	}
	pod.Spec.Volumes = c.volumes(3)
	for _, name := range []string{"app", c.containerName()}[:1+c.IntN(2)] {
		pod.Spec.Containers = append(pod.Spec.Containers, c.container(name, pod.Spec.Volumes))
	}
	if c.seldom() {
		init := c.container("init", pod.Spec.Volumes)
		init.LivenessProbe = nil
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if c.seldom() {
		pod.Spec.HostNetwork = true
		for i := range pod.Spec.Containers {
			for j := range pod.Spec.Containers[i].Ports {
				pod.Spec.Containers[i].Ports[j].HostPort = pod.Spec.Containers[i].Ports[j].ContainerPort
			}
		}
	}
	if c.seldom() {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if c.seldom() {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(c.IntN(40)))
	}
	if c.seldom() {
		of := func(milli int) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(milli), resource.DecimalSI)}
		}
		pod.Spec.Resources = &corev1.ResourceRequirements{Limits: of(600 + c.IntN(600))}
		if c.often() {
			pod.Spec.Resources.Requests = of(c.IntN(600))
		}
	}
	return pod
}

func (c chance) sidecar(volumes []corev1.Volume, init bool) pub.SidecarContainer {
	out := pub.SidecarContainer{Container: c.container(c.containerName(), volumes)}
	if init && c.often() {
		out.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	} else if init {
		out.LivenessProbe = nil
	}
	if c.seldom() {
		out.PodInjectPolicy = pub.AfterAppContainer
	}
	if c.seldom() {
		out.ShareVolumePolicy.Type = pub.ShareVolumePolicyEnabled
		out.ShareVolumeDevicePolicy = &pub.ShareVolumePolicy{Type: pub.ShareVolumePolicyEnabled}
	}
	if c.seldom() {
		out.TransferEnv = []pub.TransferEnvVar{{SourceContainerName: c.one("app", "b", "nobody"), EnvName: "A", EnvNames: []string{"B"}}}
	}
	if (!init || out.RestartPolicy != nil) && c.seldom() {
		out.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(1 + c.IntN(30))}}}
	}
	if c.seldom() {
		out.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}
	if !init && c.seldom() {
		out.UpgradeStrategy = pub.SidecarUpgradeStrategy{UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: "example.test/empty:v1"}
	}
	return out
}

func (c chance) set(name, namespace string) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "whatever", Operator: metav1.LabelSelectorOpIn, Values: []string{"yes", name}},
	}}
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	set.Spec.UpdateStrategy.Type = pub.SidecarSetNotUpdate
	set.Spec.Volumes = c.volumes(2)
	for range c.IntN(3) {
		set.Spec.Containers = append(set.Spec.Containers, c.sidecar(set.Spec.Volumes, false))
	}
	for range c.IntN(2) {
		set.Spec.InitContainers = append(set.Spec.InitContainers, c.sidecar(set.Spec.Volumes, true))
	}
	if c.seldom() {
		set.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	}
	return set
}

// untilServed waits until the Pod webhook injects the sidecars of each SidecarSet. Each SidecarSet selects Pods by a
// label with the SidecarSet's name.
func (c *cluster) untilServed(sets []client.Object) {
	c.t.Helper()
	for _, set := range sets {
		controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe", Labels: map[string]string{"whatever": set.GetName()}}}
			pod.Spec.Containers = []corev1.Container{{Name: "probe", Image: "example.test/probe:v1"}}
			if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
				return err
			}
			if got := pod.Annotations[apps.AnnotationSidecarSetInjected]; got != set.GetName() {
				return fmt.Errorf("SidecarSets %q are injected, want %s", got, set.GetName())
			}
			return nil
		})
	}
}

// whateverPasses checks that admission and the API server agree. If the API server accepts a Pod, and admission
// accepts the SidecarSets, then the API server also accepts the Pod with the injected sidecars. If a Pod and a
// SidecarSet do not fit together, the webhook for Pods refuses the Pod.
func whateverPasses(t *testing.T, c *cluster, _ *process) {
	const rounds, podsPerRound = 40, 12
	ch := chance{rand.New(rand.NewPCG(1, 2))} //nolint:gosec // The same Pods in every run.
	var made, refusedSets, injected, denied int
	for round := range rounds {
		var sets []client.Object
		for i := range 1 + ch.IntN(3) {
			set := ch.set(fmt.Sprintf("whatever-%d-%d", round, i), namespace)
			switch err := c.Create(t.Context(), set); {
			case err == nil:
				sets = append(sets, set)
			case apierrors.IsInvalid(err):
				refusedSets++
			default:
				t.Fatal(err)
			}
		}
		made += len(sets)
		c.untilServed(sets)
		for range podsPerRound {
			pod := ch.pod(namespace)
			spared := pod.DeepCopy()
			spared.Namespace = "kube-system"
			if err := c.Create(t.Context(), spared, client.DryRunAll); err != nil {
				continue // refused even without sidecars
			}
			plain := pod.DeepCopy()
			err := c.Create(t.Context(), pod, client.DryRunAll)
			switch {
			case err == nil:
				if len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > len(plain.Spec.Containers)+len(plain.Spec.InitContainers) {
					injected++
				}
			case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "mpod.kb.io"):
				denied++
			default:
				t.Errorf("round %d: %v", round, err)
			}
		}
		for _, set := range sets {
			if err := c.Delete(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d SidecarSets, %d refused; %d Pods injected, %d denied", made, refusedSets, injected, denied)
	if made < rounds/2 || injected < 3*rounds || denied == 0 {
		t.Errorf("%d SidecarSets, %d Pods injected, %d denied: too few to tell", made, injected, denied)
	}
}

// harmIsAnswered checks that the webhook never fails. The test creates Pods and SidecarSets that make the injection
// of sidecars as expensive as possible. The webhook admits or refuses each Pod within a short time.
func harmIsAnswered(t *testing.T, c *cluster, _ *process) {
	mesh := &unstructured.Unstructured{Object: hostile.Mesh()}
	if err := c.Create(t.Context(), mesh); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"mesh": "yes"}
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe", Labels: labels}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil || pod.Annotations[apps.AnnotationSidecarSetInjected] != mesh.GetName() {
			return fmt.Errorf("it is not injected: %w", err)
		}
		return nil
	})
	for _, object := range hostile.Pods() {
		pod := &unstructured.Unstructured{Object: object.Content}
		pod.SetNamespace(namespace)
		pod.SetName("harm")
		err := c.Create(t.Context(), pod, client.DryRunAll)
		if (err == nil) != object.Passes {
			t.Errorf("%s: admitted: %v, want %v: %.300v", object.Name, err == nil, object.Passes, err)
		}
		if err == nil {
			continue
		}
		tooLarge := strings.Contains(err.Error(), "status code 413") // for the webhook, not for the API server
		if code := apierrors.APIStatus(nil); !tooLarge && (!errors.As(err, &code) || code.Status().Code >= http.StatusInternalServerError) {
			t.Errorf("%s: %.300v", object.Name, err)
		}
		if size := len(err.Error()); size > 64<<10 {
			t.Errorf("%s: an answer of %d bytes: %.300v", object.Name, size, err)
		}
	}
	if err := c.Delete(t.Context(), mesh); err != nil {
		t.Fatal(err)
	}
}
