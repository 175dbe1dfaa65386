package executor_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// prepares returns PodTemplates of revision web-1 with the given Prepare; the API server generates the names.
func prepares(change func(*corev1.Pod)) executor.PodTemplates {
	return executor.PodTemplates{
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}, Revision: "web-1",
		Prepare: change,
	}
}

// TestCreatePodsRefuses: CreatePods sends no request for a Pod that the owner would not count, or would consider
// outdated. Otherwise the controller would create such a Pod in each reconcile.
func TestCreatePodsRefuses(t *testing.T) {
	for name, change := range map[string]func(p *turn, from *executor.PodTemplates){
		"no revision": func(p *turn, from *executor.PodTemplates) {
			p.History, from.Revision = &revision.History{}, ""
		},
		"Prepare drops the revision": func(_ *turn, from *executor.PodTemplates) {
			from.Prepare = func(pod *corev1.Pod) { delete(pod.Labels, revisionLabel) }
		},
		"Prepare writes another revision": func(_ *turn, from *executor.PodTemplates) {
			from.Prepare = func(pod *corev1.Pod) { pod.Labels[revisionLabel] = "web-2" }
		},
		"Prepare writes a revision where Pods have none": func(_ *turn, from *executor.PodTemplates) {
			from.Revision, from.Prepare = "", func(pod *corev1.Pod) { pod.Labels[revisionLabel] = "web-2" }
		},
		"another namespace": func(_ *turn, from *executor.PodTemplates) {
			from.Prepare = func(pod *corev1.Pod) { pod.Namespace = "other" }
		},
		"another name": func(_ *turn, from *executor.PodTemplates) {
			from.Name, from.Prepare = func(int) string { return "web-a" }, func(pod *corev1.Pod) { pod.Name = "web-b" }
		},
		"a name where the API server gives names": func(_ *turn, from *executor.PodTemplates) {
			from.Prepare = func(pod *corev1.Pod) { pod.Name = "web-b" }
		},
		"another generated name": func(_ *turn, from *executor.PodTemplates) {
			from.Prepare = func(pod *corev1.Pod) { pod.GenerateName = "other-" }
		},
		"a name without the owner's name": func(_ *turn, from *executor.PodTemplates) {
			from.Name = func(int) string { return "elsewhere" }
		},
		"no owner reference": func(_ *turn, from *executor.PodTemplates) {
			from.Prepare = func(pod *corev1.Pod) { pod.OwnerReferences = nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, from := w.begin(), prepares(nil)
			change(p, &from)
			from.Before = func(context.Context, *corev1.Pod) error {
				t.Error("preconditions are made")
				return nil
			}
			if made, err := p.CreatePods(t.Context(), 1, from); made != 0 || !reason.IsFinal(err) || !errors.Is(err, executor.UnusablePod) {
				t.Errorf("CreatePods = %d, %v", made, err)
			}
			if got := w.Requests(); len(got) > 0 {
				t.Errorf("requests %q", got)
			}
		})
	}
}

// TestBeforeChanges: PodTemplates.Before may complete a Pod, but may not change the Pod's name, namespace, owner
// reference or revision label.
func TestBeforeChanges(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"name":      func(pod *corev1.Pod) { pod.Name = "web-7" },
		"namespace": func(pod *corev1.Pod) { pod.Namespace = "other" },
		"revision":  func(pod *corev1.Pod) { pod.Labels[revisionLabel] = "web-9" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := historyOf(w)
			made, err := w.beginAt(h).CreateNumbered(t.Context(), []numbered.Create{{Ordinal: 0}}, executor.NumberedTemplates{
				Current: h.Update, Before: func(_ context.Context, pod *corev1.Pod) error { change(pod); return nil },
			})
			if made != 0 || !errors.Is(err, executor.UnusablePod) || len(w.Requests()) > 0 {
				t.Errorf("CreateNumbered = %d, %v", made, err)
			}
		})
	}
}

// TestOwnerDeletingComesFirst: Before is not called for an owner being deleted, so no claims are created.
func TestOwnerDeletingComesFirst(t *testing.T) {
	w := newWorld(t)
	h := historyOf(w)
	before := func(context.Context, *corev1.Pod) error {
		t.Error("preconditions are made")
		return nil
	}
	p := w.beginAt(h)
	p.Owner = p.Owner.DeepCopy()
	p.Owner.DeletionTimestamp = new(metav1.NewTime(begin))
	from := prepares(nil)
	from.Before = before
	if made, err := p.CreatePods(t.Context(), 1, from); made != 0 || !errors.Is(err, executor.OwnerDeleting) {
		t.Errorf("CreatePods = %d, %v", made, err)
	}
	made, err := p.CreateNumbered(t.Context(), []numbered.Create{{Ordinal: 0}}, executor.NumberedTemplates{Current: h.Update, Before: before})
	if made != 0 || !errors.Is(err, executor.OwnerDeleting) {
		t.Errorf("CreateNumbered = %d, %v", made, err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-0"}}
	if err := p.CreateClaims(t.Context(), []*corev1.PersistentVolumeClaim{claim}); !errors.Is(err, executor.OwnerDeleting) || !reason.IsFinal(err) {
		t.Errorf("CreateClaims = %v", err)
	}
	if got := w.Requests(); len(got) > 0 {
		t.Errorf("requests %q", got)
	}
}
