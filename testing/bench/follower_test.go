package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

// podOf returns a Pod running a template, ready or not.
func podOf(name string, template corev1.PodTemplateSpec, ready bool) *corev1.Pod {
	template = *template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.UID, pod.Labels = name, types.UID(name), map[string]string{objectLabel: "bench-0000"}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return pod
}

// gated gives a Pod a readiness gate, and its condition unless the status is empty.
func gated(pod *corev1.Pod, status corev1.ConditionStatus) *corev1.Pod {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
	if status != "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "gate", Status: status})
	}
	return pod
}

func TestFollowerKeepsLives(t *testing.T) {
	before := newTemplate(Options{})
	after := *before.DeepCopy()
	changes()[0].apply(&after, 1)
	f := &follower{records: map[types.UID]*record{}, template: &before, began: time.Unix(0, 0)}
	at := func(d time.Duration) time.Time { return f.began.Add(d) }
	for _, name := range []string{"stays", "goes", "untouched"} {
		f.see(podOf(name, before, true), at(0))
	}
	f.begin(&after)
	f.see(gated(podOf("stays", before, false), corev1.ConditionFalse), at(1*ms))
	f.see(gated(podOf("stays", after, false), corev1.ConditionFalse), at(2*ms))
	f.see(gated(podOf("stays", after, false), ""), at(3*ms)) // an irrelevant change
	f.see(gated(podOf("stays", after, true), corev1.ConditionTrue), at(4*ms))
	ending := podOf("goes", before, true)
	ending.DeletionTimestamp = &metav1.Time{Time: at(5 * ms)}
	f.see(ending, at(5*ms))
	if diff := cmp.Diff(map[string]int{"bench-0000": 2}, f.count().pods); diff != "" {
		t.Errorf("Pods while one is ending (-want +got):\n%s", diff)
	}
	f.lose(cache.DeletedFinalStateUnknown{Obj: ending}, at(6*ms))
	f.see(ending, at(7*ms)) // the Pod was deleted before, so the event is ignored
	f.see(podOf("comes", after, true), at(8*ms))
	f.see(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "foreign", UID: "foreign"}}, at(9*ms))

	want := []life{
		{pod: "comes", object: "bench-0000", touched: true, moments: []moment{{8 * ms, true, true, false}}},
		{pod: "goes", object: "bench-0000", existed: true, touched: true, gone: 5 * ms, moments: []moment{{0, false, true, false}}},
		{pod: "stays", object: "bench-0000", existed: true, touched: true, moments: []moment{
			{0, false, true, false}, {1 * ms, false, false, true}, {2 * ms, true, false, true}, {4 * ms, true, true, false},
		}},
		{pod: "untouched", object: "bench-0000", existed: true, moments: []moment{{0, false, true, false}}},
	}
	got := f.lives()
	slices.SortFunc(got, func(a, b life) int { return strings.Compare(a.pod, b.pod) })
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(life{}, moment{})); diff != "" {
		t.Errorf("lives (-want +got):\n%s", diff)
	}
	census := f.count()
	if diff := cmp.Diff([]map[string]int{{"bench-0000": 3}, {"bench-0000": 2}}, []map[string]int{census.pods, census.done}); diff != "" {
		t.Errorf("census (-want +got):\n%s", diff)
	}
	f.begin(&after)
	if got := f.lives(); len(got) != 3 || slices.ContainsFunc(got, func(l life) bool { return l.touched || !l.existed }) {
		t.Errorf("a new phase begins with %+v", got)
	}
}

func TestEveryChangeIsSeen(t *testing.T) {
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			first := newTemplate(Options{StartDelay: time.Second})
			c.apply(&first, 1)
			second := *first.DeepCopy()
			c.apply(&second, 2)
			third := *second.DeepCopy()
			c.apply(&third, 3)
			pod := podOf("p", second, true)
			got := []bool{carries(pod, &first), carries(pod, &second), carries(pod, &third)}
			if diff := cmp.Diff([]bool{false, true, false}, got); diff != "" {
				t.Errorf("carries the template before, its own and the next one (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodThatRunsTheOldImageIsNotReady(t *testing.T) {
	template := newTemplate(Options{})
	pod := podOf("p", template, true)
	pod.Status.ContainerStatuses[0].Image = "example.test/app:v0"
	f := &follower{template: &template}
	if diff := cmp.Diff(moment{updated: true}, f.stateOf(pod, 0), cmp.AllowUnexported(moment{})); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestReadCRDs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	release := write("release.yaml", "kind: Service\n---\nkind: CustomResourceDefinition\nname: one\n---\nkind: CustomResourceDefinition\nname: two\n")
	write("three.yml", "kind: CustomResourceDefinition\nname: three\n")
	write("notes.txt", "kind: CustomResourceDefinition\nname: four\n")
	none := write("none.yaml", "kind: Service\n")

	crds, err := readCRDs([]string{dir, release})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, crd := range crds {
		_, name, _ := strings.Cut(string(crd), "name: ")
		got = append(got, strings.TrimSpace(name))
	}
	if diff := cmp.Diff([]string{"one", "two", "three", "one", "two"}, got); diff != "" {
		t.Errorf("CRDs of the directory and of the file (-want +got):\n%s", diff)
	}
	for _, path := range []string{none, filepath.Join(dir, "missing")} {
		if _, err := readCRDs([]string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one that names it", path, err)
		}
	}
}

func TestProcessIsMeasuredWithItsChildren(t *testing.T) {
	// The shell's child allocates and counts; the shell itself waits.
	cmd := exec.Command("sh", "-c", `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; sleep 60' & wait`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Process: started}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	cpu, err := p.cpu()
	if err != nil || cpu <= 0 {
		t.Errorf("%g CPU seconds, error %v; want some", cpu, err)
	}
	if err := p.resetPeak(); err != nil {
		t.Logf("peaks cannot be reset here: %v", err)
	}
	if peak, err := p.peak(); err != nil || peak <= 0 || peak > 100 {
		t.Errorf("peak of %g MiB, error %v", peak, err)
	}
	p.stop()
	// A killed process may take a moment to disappear from /proc.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := p.cpu(); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the CPU of a process that has ended is read without an error")
		}
		if err := sleep.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
