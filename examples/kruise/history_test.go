package kruise

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// TestIsLeftBy: only a revision named like the CloneSet's own counts as left by an earlier CloneSet of the name. Any
// user may create revisions with the CloneSet's labels.
func TestIsLeftBy(t *testing.T) {
	for _, tc := range []struct {
		name, revision string
		labels         map[string]string
		want           bool
	}{
		{"its own", "web-6d5f8b", map[string]string{apps.LabelRevisionHash: "6d5f8b"}, true},
		{"another's", "api-6d5f8b", map[string]string{apps.LabelRevisionHash: "6d5f8b"}, false},
		{"one whose name begins alike", "web-api-6d5f8b", map[string]string{apps.LabelRevisionHash: "6d5f8b"}, false},
		{"another hash", "web-6d5f8b", map[string]string{apps.LabelRevisionHash: "123456"}, false},
		{"no hash", "web-6d5f8b", map[string]string{"app": "web"}, false},
		{"an empty hash", "web-", map[string]string{apps.LabelRevisionHash: ""}, false},
		{"no labels", "web-6d5f8b", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rev := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: tc.revision, Labels: tc.labels}}
			if got := isLeftBy(rev, "web", rev.Labels[apps.LabelRevisionHash]); got != tc.want {
				t.Errorf("isLeftBy is %v, want %v", got, tc.want)
			}
		})
	}
}
