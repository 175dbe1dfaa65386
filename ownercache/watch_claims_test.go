package ownercache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestNumberedOwners: numberedOwners returns a possible name of the owner for each hyphen in the name of the claim.
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

// TestNilIndex: the panic of a nil Index names the missing option.
func TestNilIndex(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "PersistentVolumeClaim") || !strings.Contains(text, "Claims") {
			t.Errorf("panics with %q", text)
		}
	}()
	var claims *Index[*corev1.PersistentVolumeClaim]
	claims.Get("default", "data-db-0")
}
