package executor_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestOneNodeOnePod: CreatePerNode decides from the Turn's view which names are in use. If another process has since
// created a Pod for the Node, the request for the same name fails, even if the cache shows the Pod by now. If the
// name belongs to a Pod in the view, or to a Pod of somebody else, the next name is used.
func TestOneNodeOnePod(t *testing.T) {
	world := newWorld(t)
	first := world.nameFor("n1")
	second := world.nameFor("n1", first)
	released := func(pod *corev1.Pod) { pod.OwnerReferences = nil }
	for _, tc := range []struct {
		name          string
		before, after []func(*corev1.Pod) // edits of the Pod, before and after the view is taken; nil for no Pod
		want          []string
		refused       bool
	}{
		{"the name is free", nil, nil, []string{first}, false},
		{"the pass knows the Pod", []func(*corev1.Pod){}, nil, []string{first, second}, false},
		{"the Pod is somebody else's", []func(*corev1.Pod){released}, nil, []string{first, second}, false},
		{"the Pod has come since", nil, []func(*corev1.Pod){}, []string{first}, true},
		{"somebody else's has come since", nil, []func(*corev1.Pod){released}, []string{first, second}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			if tc.before != nil {
				w.add(first, tc.before...)
			}
			pass := w.beginAt(historyOf(w))
			if tc.after != nil {
				w.add(first, tc.after...)
			}
			_, err := pass.CreatePerNode(t.Context(), []string{"n1"}, perNode(w))
			if (err != nil) != tc.refused || tc.refused && !apierrors.IsAlreadyExists(err) {
				t.Errorf("error %v, refused: %t", err, tc.refused)
			}
			w.deliver()
			var list corev1.PodList
			w.must(w.List(t.Context(), &list))
			var names []string
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			slices.Sort(names)
			if slices.Sort(tc.want); !slices.Equal(names, tc.want) {
				t.Errorf("Pods %q, want %q", names, tc.want)
			}
		})
	}
}
