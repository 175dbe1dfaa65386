package ownercache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestNumberedOwners: S-3 the name of a claim gives the names of its Pod's owner, with every hyphen tried.
func TestNumberedOwners(t *testing.T) {
	for _, tc := range []struct {
		claim string
		want  []string
	}{
		{"data-db-0", []string{"db"}},
		{"data-hot-my-db-12", []string{"hot-my-db", "my-db", "db"}},
		{"data-db", nil},
		{"data-0", nil},
		{"0", nil},
		{"", nil},
		{"data-db-01", nil}, // no ordinal
	} {
		if diff := cmp.Diff(tc.want, numberedOwners(tc.claim)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.claim, diff)
		}
	}
}

// TestNilIndex: the missing option is named.
func TestNilIndex(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "PersistentVolumeClaim") || !strings.Contains(text, "Claims") {
			t.Errorf("panics with %q", text)
		}
	}()
	var claims *Index[*corev1.PersistentVolumeClaim]
	claims.Get("default", "data-db-0")
}
