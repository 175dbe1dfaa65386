package ownercache_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/ownercache"
)

// decoded returns a Pod that shares no strings and maps, like a Pod decoded from JSON.
func decoded(t testing.TB, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-a", UID: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			Labels:          map[string]string{"app": "web", "instance": "a"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "CloneSet", Name: "web", UID: "owner", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "app:v1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
				Resources: corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()},
			}},
			Tolerations: []corev1.Toleration{{Key: "k"}},
			Volumes: []corev1.Volume{{Name: "token-x1", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "R"}, {Type: corev1.PodScheduled}, {Type: corev1.PodInitialized}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Image: "app:v1", AllocatedResources: list.DeepCopy(), Resources: &corev1.ResourceRequirements{Requests: list.DeepCopy()},
			}},
		},
	}
	for _, edit := range edits {
		edit(pod)
	}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := out.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	return out
}

// keyOf returns the address of the bytes of a map's key.
func keyOf(m map[string]string, name string) *byte {
	for key := range m {
		if key == name {
			return unsafe.StringData(key)
		}
	}
	return nil
}

// TestShare: Share does not change the content of a Pod, whichever parts of the two Pods are equal.
func TestShare(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*corev1.Pod){
		"equal":            func(*corev1.Pod) {},
		"another instance": func(p *corev1.Pod) { p.Name, p.UID, p.Labels["instance"] = "web-b", "b", "b" },
		"another image":    func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:v2" },
		"other resources": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("200m")
		},
		"no resources":       func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
		"fewer containers":   func(p *corev1.Pod) { p.Spec.Containers, p.Status.ContainerStatuses = nil, nil },
		"no labels":          func(p *corev1.Pod) { p.Labels = nil },
		"more labels":        func(p *corev1.Pod) { p.Labels["zone"] = "z" },
		"another owner":      func(p *corev1.Pod) { p.OwnerReferences[0].Name = "api" },
		"other conditions":   func(p *corev1.Pod) { p.Status.Conditions[0] = corev1.PodCondition{Type: "Other", Message: "m"} },
		"another volume":     func(p *corev1.Pod) { p.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.Path = "other" },
		"another toleration": func(p *corev1.Pod) { p.Spec.Tolerations[0].Value = "v" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, pod := decoded(t), decoded(t, edit)
			wantModel, want := model.DeepCopy(), pod.DeepCopy()
			ownercache.Share(pod, model)
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("the Pod (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(wantModel, model); diff != "" {
				t.Errorf("the other Pod (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSharer(t *testing.T) {
	t.Parallel()
	var sharer ownercache.Sharer
	first, second := decoded(t), decoded(t, func(p *corev1.Pod) { p.Name, p.Labels["instance"], p.Spec.Volumes[0].Name = "web-b", "b", "token-x2" })
	fresh := decoded(t, func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })
	foreign := decoded(t, func(p *corev1.Pod) { p.OwnerReferences = nil })
	for _, pod := range []*corev1.Pod{first, fresh, second, foreign} {
		if got, err := sharer.Transform(pod); err != nil || got != any(pod) || pod.ManagedFields != nil {
			t.Errorf("Transform = %v, %v", got, err)
		}
	}
	if node, err := sharer.Transform(&corev1.Node{}); err != nil || node == nil {
		t.Errorf("a Node becomes %v, %v", node, err)
	}
	for what, same := range map[string]bool{
		"label keys":   keyOf(first.Labels, "instance") == keyOf(second.Labels, "instance"),
		"label values": unsafe.StringData(first.Labels["app"]) == unsafe.StringData(second.Labels["app"]),
		"owners":       &first.OwnerReferences[0] == &second.OwnerReferences[0],
		"env":          &first.Spec.Containers[0].Env[0] == &second.Spec.Containers[0].Env[0],
		"images":       unsafe.StringData(first.Spec.Containers[0].Image) == unsafe.StringData(second.Spec.Containers[0].Image),
		"volumes":      first.Spec.Volumes[0].Projected == second.Spec.Volumes[0].Projected,
		"containers":   &first.Spec.Containers[0] == &second.Spec.Containers[0],
		"resources that nodes reported before the last creation": first.Status.ContainerStatuses[0].Resources == second.Status.ContainerStatuses[0].Resources,
		"reasons": unsafe.StringData(first.Status.Conditions[0].Reason) == unsafe.StringData(second.Status.Conditions[0].Reason),
	} {
		if !same {
			t.Errorf("%s are not shared", what)
		}
	}
	if room := cap(first.Status.Conditions) - len(first.Status.Conditions); room > 0 {
		t.Errorf("%d conditions of %d take the room of %d more", len(first.Status.Conditions), len(first.Status.Conditions), room)
	}
	if keyOf(first.Labels, "app") == keyOf(foreign.Labels, "app") {
		t.Error("a Pod without controller shares")
	}
}

// TestSharerLeavesOthersAlone: while a Pod is made to share memory with two earlier Pods, neither earlier Pod is
// modified.
func TestSharerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	var sharer ownercache.Sharer
	another := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:v2" }
	reported := decoded(t, another)
	last := decoded(t, func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })
	for _, pod := range []*corev1.Pod{reported, last} {
		if _, err := sharer.Transform(pod); err != nil {
			t.Fatal(err)
		}
	}
	stop, done := make(chan struct{}), make(chan int)
	go func() { // this goroutine reads the Pod as another user of the cache would, for the race detector
		n := 0
		for { // no synchronisation orders the first read after the writes
			n += len(last.Spec.Containers[0].Env[0].Name) + len(reported.Spec.Containers[0].Env[0].Name)
			select {
			case <-stop:
				done <- n
				return
			default:
			}
		}
	}()
	for range 100 {
		if _, err := sharer.Transform(decoded(t)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if <-done == 0 {
		t.Error("the Pods had no names to read")
	}
}

// BenchmarkSharer measures the memory of a Pod and the time that sharing takes.
func BenchmarkSharer(b *testing.B) {
	for name, share := range map[string]bool{"own": false, "shared": true} {
		b.Run(name, func(b *testing.B) {
			var sharer ownercache.Sharer
			pods := make([]*corev1.Pod, 0, b.N)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				pod := decoded(b)
				if share {
					_, _ = sharer.Transform(pod)
				}
				pods = append(pods, pod)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(pods)), "bytes/Pod")
		})
	}
}

// TestSharerHoldsNoPods: a Sharer keeps no Pod in memory that is otherwise unused, whatever owner the Pod names,
// because everybody can write owner references.
func TestSharerHoldsNoPods(t *testing.T) {
	var sharer ownercache.Sharer
	var pods []weak.Pointer[corev1.Pod]
	for i := range 100 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps.kruise.io/v1", Kind: "Foo", Name: "x", UID: types.UID(fmt.Sprint("u", i)), Controller: new(true)},
		}}}
		if _, err := sharer.Transform(pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, weak.Make(pod))
	}
	runtime.GC()
	kept := 0
	for _, pod := range pods {
		if pod.Value() != nil {
			kept++
		}
	}
	if kept > 1 { // a register may still refer to the last Pod
		t.Errorf("%d of %d Pods are kept", kept, len(pods))
	}
	runtime.KeepAlive(&sharer)
}
