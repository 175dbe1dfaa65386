package executor_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// TestOneNameRefused: a policy against one name does not keep the Pods of all others from being created, whatever their order.
func TestOneNameRefused(t *testing.T) {
	w := newWorld(t)
	histories, err := revision.NewHistories(revision.Keys{HashLabel: "example.com/hash"}, revision.NewDecoder(0, nil))
	w.must(err)
	h := histories.Of(revision.Owner{Namespace: "default", Name: "web"}, nil, nil)
	decision, err := h.Decide(&corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}},
	})
	w.must(err)
	h.Update = decision.Revision
	w.Answer = refuses("create Pod web-0")
	create := func(want ...string) {
		t.Helper()
		var missing []rollout.NumberedCreate
		for ordinal := range 4 {
			if _, ok := w.cache.Pods.Get("default", "web-"+string(rune('0'+ordinal))); !ok {
				missing = append(missing, rollout.NumberedCreate{Ordinal: ordinal})
			}
		}
		if _, err := w.begin().CreateNumbered(t.Context(), missing, executor.NumberedTemplates{History: h, Current: h.Update}); err == nil {
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
