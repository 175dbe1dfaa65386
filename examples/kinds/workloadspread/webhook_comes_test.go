package workloadspread

import (
	"testing"
	"time"
)

// TestIsHeld: isHeld returns false for a place that may become free for another Pod before this Pod is stored.
func TestIsHeld(t *testing.T) {
	books := ledger{"v1": {{Name: "a", CreatingPods: times{"p": ago(10 * time.Second)}}, {Name: "b"}}, "v2": {{Name: "a", CreatingPods: times{"q": ago(0)}}}}
	for _, c := range []struct {
		name, subset, key string
		passing           time.Duration
		want              bool
	}{
		{"young", "a", "p", 10 * time.Second, true},
		{"old", "a", "p", 9 * time.Second, false},
		{"of another version", "a", "q", time.Second, true},
		{"in another subset", "b", "p", time.Minute, false},
		{"of another Pod", "a", "r", time.Minute, false},
		{"without a key", "a", "", time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := isHeld(books, c.subset, c.key, c.passing, start); got != c.want {
				t.Errorf("%t", got)
			}
		})
	}
}
