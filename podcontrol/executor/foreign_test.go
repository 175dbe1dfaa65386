package executor_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// controlled gives an object another controller.
func controlled(object metav1.Object, name string, uid types.UID) {
	other := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(other, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))})
}

// TestForeignPods: a Turn changes the Pods of its owner, and Pods that the owner may adopt or has just released.
func TestForeignPods(t *testing.T) {
	foreign := func(pod *corev1.Pod) { controlled(pod, "db", "uid-db") }
	orphan := func(pod *corev1.Pod) { pod.OwnerReferences = nil }
	for name, tc := range map[string]struct {
		change   func(*corev1.Pod)
		selector labels.Selector
		released bool
		refused  string // part of the error, empty if the Pod is changed
	}{
		"its own":                       {change: func(*corev1.Pod) {}},
		"of another owner":              {change: foreign, refused: "ReplicaSet db"},
		"of another owner, selected":    {change: foreign, selector: labels.Everything(), refused: "ReplicaSet db"},
		"an orphan":                     {change: orphan, refused: "ReplicaSet default/web"},
		"an orphan that is selected":    {change: orphan, selector: labels.Everything()},
		"an orphan that is not":         {change: orphan, selector: labels.Nothing(), refused: "ReplicaSet default/web"},
		"just released":                 {change: orphan, selector: labels.Nothing(), released: true},
		"released, and somebody else's": {change: foreign, released: true, refused: "ReplicaSet db"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			pod := w.add("a")
			p := w.begin()
			p.Selector = tc.selector
			pod = pod.DeepCopy()
			if tc.change(pod); !tc.released {
				pod.UID = "uid-pod"
				if tc.refused == "" {
					pod.UID = w.pod("a").UID
				}
			}
			for action, do := range map[string]func(context.Context, *corev1.Pod) (bool, error){
				"Cancel": p.Cancel, "Settle": p.Settle,
				"DeleteFrom": func(ctx context.Context, pod *corev1.Pod) (bool, error) { return p.DeleteFrom(ctx, pod, "n") },
				"update":     func(_ context.Context, pod *corev1.Pod) (bool, error) { return w.update(p, pod, true) },
				"Delete":     p.Delete,
				"Each": func(ctx context.Context, pod *corev1.Pod) (bool, error) {
					err := p.Each(ctx, fanout.Task{Name: "x"}, []*corev1.Pod{pod}, func(context.Context, *corev1.Pod) (bool, error) { return true, nil })()
					return err == nil, err
				},
			} {
				changed, err := do(t.Context(), pod)
				refused := errors.Is(err, executor.NotOwned)
				if want := tc.refused != ""; refused != want || want && (changed || !reason.IsFinal(err) || !strings.Contains(err.Error(), tc.refused)) {
					t.Errorf("%s = %t, %v", action, changed, err)
				}
			}
			if sent := w.Requests(); tc.refused != "" && len(sent) > 0 {
				t.Errorf("requests %q", sent)
			}
		})
	}
}

// TestPodOfAnotherNamespace: a Turn never changes Pods of another namespace, whatever their names and UIDs.
func TestPodOfAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	pod := w.add("a").DeepCopy()
	pod.Namespace = "other"
	if changed, err := w.begin().Delete(t.Context(), pod); changed || !errors.Is(err, executor.NotOwned) || len(w.Requests()) > 0 {
		t.Errorf("Delete = %t, %v", changed, err)
	}
}

// TestForeignClaims: a Turn changes only claims in the owner's namespace that have no other controller.
func TestForeignClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(w *world, claim *corev1.PersistentVolumeClaim)
		refused bool
	}{
		"nobody's":          {func(*world, *corev1.PersistentVolumeClaim) {}, false},
		"its own":           {func(_ *world, claim *corev1.PersistentVolumeClaim) { controlled(claim, "web", "uid-web") }, false},
		"of another owner":  {func(_ *world, claim *corev1.PersistentVolumeClaim) { controlled(claim, "db", "uid-db") }, true},
		"another namespace": {func(_ *world, claim *corev1.PersistentVolumeClaim) { claim.Namespace = "other" }, true},
		"of its Pod":        {func(w *world, claim *corev1.PersistentVolumeClaim) { ofPod(claim, w.add("a")) }, false},
		"of another's Pod": {func(w *world, claim *corev1.PersistentVolumeClaim) {
			ofPod(claim, w.add("b", func(pod *corev1.Pod) { controlled(pod, "db", "uid-db") }))
		}, true},
		"of a Pod that is gone": {func(_ *world, claim *corev1.PersistentVolumeClaim) {
			ofPod(claim, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c"}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			claim := w.claim("data-a").DeepCopy()
			tc.change(w, claim)
			p, claims := w.begin(), []*corev1.PersistentVolumeClaim{claim}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid-a"}}
			for action, do := range map[string]func() error{
				"GrowClaims": func() error {
					return p.GrowClaims(t.Context(), []pvc.Small{{PersistentVolumeClaim: claim, Template: w.template("2Gi")}}, nil, nil)
				},
				"TendClaims to hand over": func() error { return p.TendClaims(t.Context(), []pvc.Transfer{{Claim: claim, Pod: pod}}, nil) },
				"TendClaims to delete":    func() error { return w.beginWith().TendClaims(t.Context(), nil, claims) },
				"DeleteClaims":            func() error { return p.DeleteClaims(t.Context(), claims) },
				"CreateClaims":            func() error { return w.beginWith().CreateClaims(t.Context(), claims) },
			} {
				w.Requests()
				err := do()
				if errors.Is(err, executor.NotOwned) != tc.refused {
					t.Errorf("%s = %v", action, err)
				}
				if sent := w.Requests(); tc.refused && len(sent) > 0 {
					t.Errorf("%s: requests %q", action, sent)
				}
			}
		})
	}
}

// TestTransferToAnotherNamespace: an owner reference across namespaces would make the garbage collector delete the
// claim.
func TestTransferToAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a", UID: "uid-a"}}
	err := w.begin().TendClaims(t.Context(), []pvc.Transfer{{Claim: w.claim("data-a"), Pod: pod}}, nil)
	if !errors.Is(err, executor.NotOwned) || !strings.Contains(err.Error(), "Pod other/a") {
		t.Errorf("TendClaims = %v", err)
	}
}

// ofPod makes a Pod the controller of a claim.
func ofPod(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) {
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
}
