package revision_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/revision"
)

// TestIsNamedFor: IsNamedFor accepts only revisions whose names have the form of the owner's revisions, because any
// user may create revisions with the owner's labels.
func TestIsNamedFor(t *testing.T) {
	const hash = "example.com/hash"
	histories, err := revision.NewHistories(revision.Keys{HashLabel: hash}, revision.NewDecoder(0, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, revision string
		labels         map[string]string
		want           bool
	}{
		{"its own", "web-6d5f8b", map[string]string{hash: "6d5f8b"}, true},
		{"another's", "api-6d5f8b", map[string]string{hash: "6d5f8b"}, false},
		{"a name that begins alike", "web-api-6d5f8b", map[string]string{hash: "6d5f8b"}, false},
		{"another hash", "web-6d5f8b", map[string]string{hash: "123456"}, false},
		{"no hash", "web-6d5f8b", map[string]string{"app": "web"}, false},
		{"an empty hash", "web-", map[string]string{hash: ""}, false},
		{"no labels", "web-6d5f8b", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rev := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: tc.revision, Labels: tc.labels}}
			if got := histories.IsNamedFor(rev, "web"); got != tc.want {
				t.Errorf("IsNamedFor is %v, want %v", got, tc.want)
			}
		})
	}
}
