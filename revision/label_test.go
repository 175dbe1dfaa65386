package revision_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/revision"
)

func TestSame(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		want       bool
	}{
		{"R-7 equal long names", "web-7d9f8c6b5d", "web-7d9f8c6b5d", true},
		{"R-7 long and short", "web-7d9f8c6b5d", "7d9f8c6b5d", true},
		{"R-7 owner name with dashes", "my-web-7d9f", "7d9f", true},
		{"R-7 other hash", "web-7d9f8c6b5d", "web-7d9f8c6b5e", false},
		{"an unset label is no revision", "", "", false},
		{"unset against set", "", "web-1", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := revision.Same(tc.a, tc.b); got != tc.want {
				t.Errorf("Same(%q, %q) = %v, want %v", tc.a, tc.b, got, tc.want)
			}
		})
	}
}
