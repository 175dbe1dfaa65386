package scaledown_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/scaledown"
)

func TestChoose(t *testing.T) {
	yes := true
	pods := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: &yes}}}})
	}
	tests := []struct {
		name, kind string
		replicas   int64
		pods       []string
		want       []any
		left       int64
		err        string
	}{
		{"KC-26 two of five", "CloneSet", 5, []string{"a", "b"}, []any{"c", "a", "b"}, 3, ""},
		{"5.8 a Pod of somebody else", "CloneSet", 5, []string{"other"}, nil, 0, "does not belong"},
		{"a Pod that does not exist", "CloneSet", 5, []string{"none"}, nil, 0, "there is no Pod"},
		{"a Pod that is marked already", "CloneSet", 5, []string{"c"}, nil, 0, "is already in"},
		{"5.8 more than there are", "CloneSet", 1, []string{"a", "b"}, nil, 0, "more than the replicas"},
		{"another kind", "StatefulSet", 5, []string{"a"}, nil, 0, "not supported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps.kruise.io/v1beta1", "kind": tt.kind, "metadata": map[string]any{"name": "web", "uid": "u"},
				"spec": map[string]any{"replicas": tt.replicas, "scaleStrategy": map[string]any{"podsToDelete": []any{"c"}}},
			}}
			err := scaledown.Choose(u, pods, tt.pods)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"replicas": tt.left, "scaleStrategy": map[string]any{"podsToDelete": tt.want}}
			if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
