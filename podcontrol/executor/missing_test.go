package executor_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

// TestMissingArguments: the error names the missing argument, and nothing is sent.
func TestMissingArguments(t *testing.T) {
	target := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}
	for _, tc := range []struct {
		name, want string
		do         func(w *world, p *turn, pod *corev1.Pod) error
	}{
		{"no template", "Templates.Pod", func(_ *world, p *turn, _ *corev1.Pod) error {
			return (&executor.Parts[owner]{}).SyncHistory(t.Context(), p, executor.Templates{})
		}},
		{"no target", "target revision", func(_ *world, p *turn, pod *corev1.Pod) error {
			_, err := p.UpdateTo(nil, nil)(t.Context(), pod)
			return err
		}},
		{"nobody plans", "no plan", func(_ *world, p *turn, pod *corev1.Pod) error {
			_, err := p.UpdateTo(target, nil)(t.Context(), pod)
			return err
		}},
		{"no plan", "no plan", func(_ *world, p *turn, pod *corev1.Pod) error {
			_, err := p.UpdateTo(target, func(*corev1.Pod) *inplaceupdate.Plan { return nil })(t.Context(), pod)
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			pod := w.add("a")
			err := tc.do(w, w.begin(), pod)
			if !reason.IsFinal(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q for good", err, tc.want)
			}
			w.check(tc.name, nil, nil)
		})
	}
}

// TestUnknownCounting: NewParts returns an error with the unknown value, before making any part.
func TestUnknownCounting(t *testing.T) {
	_, err := executor.NewParts(t.Context(), nil, &appsv1.ReplicaSet{}, executor.Config[*appsv1.ReplicaSet]{Counting: "Some"})
	if err == nil || !strings.Contains(err.Error(), `Counting "Some"`) {
		t.Errorf("NewParts = %v", err)
	}
}
