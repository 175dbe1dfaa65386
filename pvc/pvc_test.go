package pvc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/pvc"
)

const owner = types.UID("uid-of-web")

// controlled returns a controller reference to the tests' owner.
func controlled() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: owner, Controller: ptr.To(true)}}
}

func templates(names ...string) (out []corev1.PersistentVolumeClaim) {
	for _, name := range names {
		out = append(out, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"from": "template"}}})
	}
	return out
}

// newPod returns a Pod of the owner that uses the given claims.
func newPod(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), OwnerReferences: controlled()}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

func released(pod *corev1.Pod)    { pod.OwnerReferences = nil }
func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) }

// claim returns the claim of a template for a Pod. A label of the claim names the Pod.
func claim(template, pod string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: pvc.Name(template, pod), Labels: map[string]string{"pod": pod}, OwnerReferences: controlled(),
	}}
}

func dying(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.DeletionTimestamp = ptr.To(metav1.Now())
	return claim
}

// known returns a Known with the given Pods.
func known(pods ...*corev1.Pod) pvc.Known {
	return pvc.Known{
		Owner: owner,
		PodOf: func(claim *corev1.PersistentVolumeClaim) string { return claim.Labels["pod"] },
		Pod: func(name string) (*corev1.Pod, bool) {
			i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == name })
			if i < 0 {
				return nil, false
			}
			return pods[i], true
		},
		Users: func(claim *corev1.PersistentVolumeClaim) (out []*corev1.Pod) {
			for _, pod := range pods {
				if slices.Contains(pvc.UsedBy(pod), claim.Name) {
					out = append(out, pod)
				}
			}
			return out
		},
	}
}

func claimNames(claims []*corev1.PersistentVolumeClaim) (out []string) {
	for _, claim := range claims {
		out = append(out, claim.Name)
	}
	return out
}

func transfers(list []pvc.Transfer) (out []string) {
	for _, t := range list {
		out = append(out, t.Claim.Name+" to "+t.Pod.Name)
	}
	return out
}

func Example() {
	volumes := templates("data", "logs")
	// A new Pod, and the claims to create before the Pod.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-a"}}
	pvc.Mount(pod, volumes)
	exists := func(name string) bool { return name == "data-web-a" }
	for _, claim := range pvc.Missing(volumes, pod.Namespace, pod.Name, map[string]string{"pod": pod.Name}, nil, exists) {
		fmt.Println("create", claim.Name)
	}
	// Later the Pod is gone, and no Pod uses the claims.
	isActive := func(pod string) bool { return false }
	keep := func(pod string) bool { return false }
	_, remove := known().Lost([]*corev1.PersistentVolumeClaim{claim("data", "web-a"), claim("logs", "web-a")}, isActive, nil, keep)
	fmt.Println("delete", claimNames(remove))
	// Output:
	// create logs-web-a
	// delete [data-web-a logs-web-a]
}

func TestMount(t *testing.T) {
	empty := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	other := corev1.Volume{Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	mounted := func(template string) corev1.Volume {
		return corev1.Volume{Name: template, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: template + "-web-a"},
		}}
	}
	for _, tc := range []struct {
		name      string
		volumes   []corev1.Volume
		templates []corev1.PersistentVolumeClaim
		want      []corev1.Volume
		uses      []string
	}{
		{"no templates", []corev1.Volume{other}, nil, []corev1.Volume{other}, nil},
		{"C-9 added", []corev1.Volume{other}, templates("data", "logs"), []corev1.Volume{other, mounted("data"), mounted("logs")}, []string{"data-web-a", "logs-web-a"}},
		{"C-9 one of the name is replaced where it is", []corev1.Volume{empty, other}, templates("data"), []corev1.Volume{mounted("data"), other}, []string{"data-web-a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod("web-a")
			pod.Spec.Volumes = tc.volumes
			pvc.Mount(pod, tc.templates)
			if diff := cmp.Diff(tc.want, pod.Spec.Volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.uses, pvc.UsedBy(pod)); diff != "" {
				t.Errorf("used (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	volumes := templates("data", "logs")
	volumes[0].Namespace, volumes[0].Status.Phase = "mine", corev1.ClaimBound
	volumes[0].OwnerReferences = []metav1.OwnerReference{{UID: "a template's"}}
	volumes[1].Labels = nil
	untouched := volumes[0].DeepCopy()
	claim := func(name string, labels map[string]string, owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, OwnerReferences: owners}}
	}
	for _, tc := range []struct {
		name   string
		owner  *metav1.OwnerReference
		exists []string
		want   []*corev1.PersistentVolumeClaim
	}{
		{"all are there", nil, []string{"data-web-a", "logs-web-a"}, nil},
		{"one is there", nil, []string{"data-web-a"}, []*corev1.PersistentVolumeClaim{claim("logs-web-a", map[string]string{"pod": "web-a"})}},
		{"none is there, and they have an owner", &controlled()[0], nil, []*corev1.PersistentVolumeClaim{
			claim("data-web-a", map[string]string{"from": "template", "pod": "web-a"}, controlled()[0]), claim("logs-web-a", map[string]string{"pod": "web-a"}, controlled()[0]),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			exists := func(name string) bool { return slices.Contains(tc.exists, name) }
			got := pvc.Missing(volumes, "default", "web-a", map[string]string{"pod": "web-a"}, tc.owner, exists)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched, &volumes[0]); diff != "" {
				t.Errorf("a template was modified:\n%s", diff)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	type claims = []*corev1.PersistentVolumeClaim
	for _, tc := range []struct {
		name   string
		pods   []*corev1.Pod
		claims claims
		want   []string
	}{
		{"the Pod is the owner's", []*corev1.Pod{newPod("a", "data-a")}, claims{claim("data", "a")}, nil},
		{"C-4 the Pod was released", []*corev1.Pod{with(newPod("a", "data-a", "logs-a"), released)}, claims{claim("data", "a"), claim("logs", "a")}, []string{"data-a to a", "logs-a to a"}},
		{"C-4 the Pod was released, and does not use it", []*corev1.Pod{with(newPod("a", "data-a"), released)}, claims{claim("data", "a"), claim("logs", "a")}, []string{"data-a to a"}},
		{"another Pod uses it as well", []*corev1.Pod{with(newPod("a", "data-a"), released), newPod("b", "data-a")}, claims{claim("data", "a")}, nil},
		{"the claim is on its way out", []*corev1.Pod{with(newPod("a", "data-a"), released)}, claims{dying(claim("data", "a"))}, nil},
		{"the Pod is lost", nil, claims{claim("data", "a")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, transfers(known(tc.pods...).Release(tc.claims))); diff != "" {
				t.Errorf("transfers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLost(t *testing.T) {
	type claims = []*corev1.PersistentVolumeClaim
	ended := newPod("a", "data-a")
	for _, tc := range []struct {
		name     string
		pods     []*corev1.Pod
		claims   claims
		inactive []*corev1.Pod
		handOver []string
		remove   []string
	}{
		{"C-36 the Pod is active", []*corev1.Pod{newPod("active", "data-active")}, claims{claim("data", "active")}, nil, nil, nil},
		{"the Pod is active, and uses another claim by now", []*corev1.Pod{newPod("active")}, claims{claim("data", "active")}, nil, nil, nil},
		{"the Pod is still to be made", nil, claims{claim("data", "unborn")}, nil, nil, nil},
		{"C-36 nobody uses it", nil, claims{claim("data", "a")}, nil, nil, []string{"data-a"}},
		{"C-36 its Pod has ended", []*corev1.Pod{ended}, claims{claim("data", "a"), claim("logs", "a")}, []*corev1.Pod{ended}, []string{"data-a to a", "logs-a to a"}, nil},
		{"its Pod has ended, and another uses it", []*corev1.Pod{ended, newPod("b", "data-a")}, claims{claim("data", "a")}, []*corev1.Pod{ended}, nil, nil},
		{"its Pod is lost, and another uses it", []*corev1.Pod{newPod("b", "data-a")}, claims{claim("data", "a")}, nil, nil, nil},
		{"it is on its way out", nil, claims{dying(claim("data", "a"))}, nil, nil, nil},
		{"no claim of the owner's making", nil, claims{claim("data", "")}, nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			is := func(name string) func(string) bool { return func(pod string) bool { return pod == name } }
			handOver, remove := known(tc.pods...).Lost(tc.claims, is("active"), tc.inactive, is("unborn"))
			if diff := cmp.Diff([][]string{tc.handOver, tc.remove}, [][]string{transfers(handOver), claimNames(remove)}); diff != "" {
				t.Errorf("handed over and removed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOf(t *testing.T) {
	pod := newPod("a", "data-a")
	all := []*corev1.PersistentVolumeClaim{claim("data", "a"), claim("logs", "a"), dying(claim("old", "a")), claim("shared", "a"), claim("data", "b")}
	got := known(pod, newPod("b", "shared-a")).Of(all, pod)
	if diff := cmp.Diff([]string{"data-a", "logs-a"}, claimNames(got)); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestReusable(t *testing.T) {
	type claims = []*corev1.PersistentVolumeClaim
	edited := claim("data", "a")
	edited.Labels["pod"] = "other"
	for _, tc := range []struct {
		name   string
		claims claims
		want   []string
	}{
		{"none", nil, nil},
		{"C-36 sorted, each once", claims{claim("data", "b"), claim("logs", "b"), claim("data", "a")}, []string{"a", "b"}},
		{"one of its claims is on its way out", claims{claim("data", "a"), dying(claim("logs", "a"))}, nil},
		{"the first of its claims is on its way out", claims{dying(claim("data", "a")), claim("logs", "a")}, nil},
		{"nobody wants the Pod", claims{claim("data", "unwanted")}, nil},
		{"somebody has changed the label", claims{edited}, nil},
		{"no claim of the owner's making", claims{claim("data", "")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := known().Reusable(tc.claims, func(pod string) bool { return pod != "unwanted" })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetOf(t *testing.T) {
	set := pvc.SetOf([]*corev1.PersistentVolumeClaim{claim("data", "a"), claim("data", "b")})
	if set.Len() != 2 || !set.HasAll("data-a", "data-b") {
		t.Errorf("set %v", set)
	}
}
