package workloadspread

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTakeAhead(t *testing.T) {
	keys := []string{"k1", "k2", "k3", "k4"}
	of := func(subset string, keys ...string) (out []spare) {
		for _, key := range keys {
			out = append(out, spare{key, subset, start})
		}
		return out
	}
	now := ago(0)
	for _, tc := range []struct {
		name     string
		maximums []any // of the subsets a, b and so on
		books    ledger
		want     []spare
		changed  bool
	}{
		{"room for all", []any{20}, nil, of("a", keys...), true},
		{"half of the room stays", []any{5}, nil, of("a", "k1", "k2"), true},
		{"counted and awaited Pods leave less", []any{9}, ledger{ignored: {{Name: "a", Replicas: 2, CreatingPods: times{"x": now}}}}, of("a", "k1", "k2", "k3"), true},
		{"a last place stays", []any{3}, ledger{ignored: {{Name: "a", Replicas: 2}}}, nil, false},
		{"the next subset is for the next time", []any{2, 20}, nil, of("a", "k1"), true},
		{"a full subset is left out", []any{2, 20}, ledger{ignored: {{Name: "a", Replicas: 2}}}, of("b", keys...), true},
		{"no maximum, no places", []any{nil}, nil, nil, false},
		{
			"taken before, by an attempt with a lost answer",
			[]any{20},
			ledger{ignored: {{Name: "a", CreatingPods: times{"k1": now, "k2": now, "k3": now, "k4": now}}}},
			of("a", keys...), false,
		},
		{"taken before, and little room", []any{5}, ledger{ignored: {{Name: "a", CreatingPods: times{"k1": now, "k2": now}}}}, of("a", "k1", "k2"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := settled(t, spread(maximums(tc.maximums...)))
			places := placesOf(t, s, &status{}, 50)
			after, got, changed := s.takeAhead(tc.books, places, ignored, keys, start)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(spare{}), cmp.Comparer(time.Time.Equal)); diff != "" || changed != tc.changed {
				t.Errorf("changed %t (-want +got):\n%s", changed, diff)
			}
			unused := map[string]bool{}
			for _, one := range got {
				if !awaits(bookOf(after[ignored]), one.key) {
					t.Errorf("%s is not in the ledger: %+v", one.key, after)
				}
				unused[one.key] = true
			}
			back, _ := giveBackAhead(after, places, ignored, unused)
			for key := range unused {
				if awaits(bookOf(back[ignored]), key) {
					t.Errorf("%s is not given back: %+v", key, back)
				}
			}
		})
	}
}
