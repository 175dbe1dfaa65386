package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/internal/clustertest"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

func never(string) bool { return false }

// TestCreatePods: Before is called before each Pod is created. If the creation then fails, Unborn remembers the Pod
// until the Pod exists, and the same failure has the same message for all names.
func TestCreatePods(t *testing.T) {
	w := newWorld(t)
	unborn := &pvc.Unborn{}
	names := []string{"web-x7", "web-k2"}
	from := executor.PodTemplates{
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}, Revision: "web-1",
		Name: func(i int) string { return names[i] }, Prepare: func(pod *corev1.Pod) { pod.Spec.Hostname = pod.Name }, Unborn: unborn,
		Before: func(_ context.Context, pod *corev1.Pod) error {
			if pod.Spec.Hostname == "" {
				return errors.New("not prepared")
			}
			return nil
		},
	}
	w.Answer = refuses("create Pod")
	p := w.begin()
	made, err := p.CreatePods(t.Context(), 2, from)
	why := reason.From(err)
	if made != 0 || len(why) == 0 || why[0].Code != executor.PodNotCreated || why[0].Object.Name != "web-*" {
		t.Fatalf("CreatePods = %d, %v", made, err)
	}
	if diff := cmp.Diff(`pods "web-*" is forbidden: a policy says no`, why[0].Detail); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if got := unborn.Of(p.Owner.UID, never); !got.Has("web-x7") {
		t.Errorf("remembered are %v", got)
	}
	if diff := cmp.Diff([]string{"web-x7"}, unborn.Refused(p.Owner.UID)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	w.Answer = func(clustertest.Request) error { return errors.New("no response") }
	w.clock.SetTime(begin.Add(time.Minute))
	if _, err := w.begin().CreatePods(t.Context(), 1, from); err == nil || len(unborn.Refused(p.Owner.UID)) > 0 {
		t.Errorf("the request may still be under way: %v, refused %v", err, unborn.Refused(p.Owner.UID))
	}
	w.Answer = nil
	w.clock.SetTime(begin.Add(time.Hour))
	p = w.begin()
	if made, err := p.CreatePods(t.Context(), 2, from); made != 2 || err != nil {
		t.Fatalf("CreatePods = %d, %v", made, err)
	}
	w.deliver()
	for _, name := range names {
		if pod := w.pod(name); pod.Labels[revisionLabel] != "web-1" || pod.Spec.Hostname != name {
			t.Errorf("Pod %+v", pod)
		}
	}
	if got := unborn.Of(p.Owner.UID, never); len(got) > 0 {
		t.Errorf("remembered are %v", got)
	}
}

// TestCreatePodsWithoutTemplate: without a template, CreatePods sends no request.
func TestCreatePodsWithoutTemplate(t *testing.T) {
	w := newWorld(t)
	if made, err := w.begin().CreatePods(t.Context(), 1, executor.PodTemplates{}); made != 0 || !reason.IsFinal(err) || len(w.Requests()) > 0 {
		t.Errorf("CreatePods = %d, %v", made, err)
	}
}

// TestReadSelects: if Want has no selector, Read uses the Turn's selector.
func TestReadSelects(t *testing.T) {
	w := newWorld(t)
	w.add("a")
	p := w.begin()
	if set := p.Read(podcontrol.Want{}); len(set.Active) != 1 || p.Set != set {
		t.Errorf("without a selector: %+v", set)
	}
	p.Selector = labels.Nothing()
	if set := p.Read(podcontrol.Want{}); len(set.NotSelected) != 1 || len(set.Active) != 0 {
		t.Errorf("with a selector that selects nothing: %+v", set)
	}
}
