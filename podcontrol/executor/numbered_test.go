package executor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// historyOf is the history of an owner with a single revision.
func historyOf(w *world) *revision.History {
	w.t.Helper()
	histories, err := revision.NewHistories(revision.Keys{HashLabel: "example.com/hash"}, revision.NewDecoder(0, nil))
	w.must(err)
	h := histories.Of(revision.Owner{Namespace: "default", Name: "web"}, nil, nil)
	decision, err := h.Decide(&corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}},
	})
	w.must(err)
	h.Update = decision.Revision
	return h
}

// TestBefore: Before is called before a Pod is created, and after an error of Before the Pod is not created.
func TestBefore(t *testing.T) {
	w := newWorld(t)
	h := historyOf(w)
	_, err := w.beginAt(h).CreateNumbered(t.Context(), []numbered.Create{{Ordinal: 0}, {Ordinal: 1}}, executor.NumberedTemplates{
		Current: h.Update, Prepare: func(pod *corev1.Pod, _ int) { pod.Spec.Hostname = pod.Name },
		Before: func(_ context.Context, pod *corev1.Pod) error {
			if pod.Spec.Hostname == "web-1" {
				return errors.New("no claim for it")
			}
			return nil
		},
	})
	if err == nil || !strings.Contains(err.Error(), "no claim for it") || !strings.Contains(err.Error(), "web-1") {
		t.Errorf("got %v, want what went wrong, and for which Pod", err)
	}
	w.deliver()
	_, first := w.cache.Pods.Get("default", "web-0")
	if _, second := w.cache.Pods.Get("default", "web-1"); !first || second {
		t.Errorf("Pod 0 was created: %t, Pod 1: %t", first, second)
	}
}

// TestOneNameRefused: if a policy refuses a single name, all other Pods are still created, in any order.
func TestOneNameRefused(t *testing.T) {
	w := newWorld(t)
	h := historyOf(w)
	w.Answer = refuses("create Pod web-0")
	create := func(want ...string) {
		t.Helper()
		var missing []numbered.Create
		for ordinal := range 4 {
			if _, ok := w.cache.Pods.Get("default", "web-"+string(rune('0'+ordinal))); !ok {
				missing = append(missing, numbered.Create{Ordinal: ordinal})
			}
		}
		if _, err := w.beginAt(h).CreateNumbered(t.Context(), missing, executor.NumberedTemplates{Current: h.Update}); err == nil {
			t.Error("the refusal is not told")
		}
		w.deliver()
		var names []string
		for _, pod := range w.cache.Pods.Of("default", "uid-web") {
			names = append(names, pod.Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("Pods %q, want %q", names, want)
		}
	}
	create()
	w.clock.SetTime(begin.Add(2 * time.Second))
	create("web-1", "web-2", "web-3")
}
