package containerrestart_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

func TestPick(t *testing.T) {
	candidate := func(name string, created int, progress containerrestart.Progress) containerrestart.Candidate {
		return containerrestart.Candidate{
			Object: reason.Object{Kind: "Restart", Namespace: "shop", Name: name}, Created: at(created), Progress: progress, HasDeadline: true,
		}
	}
	endless := candidate("slow", 0, containerrestart.Begun)
	endless.HasDeadline = false
	stuck := endless
	stuck.Why = reason.List{{Code: containerrestart.ReadyAwaited, Path: "containers[app]"}, {Code: "B"}, {Code: "C"}}
	for _, c := range []struct {
		name       string
		candidates []containerrestart.Candidate
		want       []string // the next request, and the waiting requests with the texts of their reasons
	}{
		{"none", nil, []string{"-1"}},
		{"CR-20 alone", []containerrestart.Candidate{candidate("a", 0, containerrestart.New)}, []string{"0"}},
		{"CR-20 under way before known before new, then the oldest", []containerrestart.Candidate{
			candidate("new", 0, containerrestart.New), candidate("waits", 1, containerrestart.Waiting), candidate("older", 0, containerrestart.Waiting), candidate("begun", 9, containerrestart.Begun),
		}, []string{
			"3",
			"2 BehindRequest: Restart shop/begun: goes first; wait for the end of Restart shop/begun",
			"1 BehindRequest: Restart shop/begun: goes first; wait for the end of Restart shop/begun",
			"0 BehindRequest: Restart shop/begun: goes first; wait for the end of Restart shop/begun",
		}},
		{"CR-20 the oldest, whatever its name", []containerrestart.Candidate{candidate("a", 1, containerrestart.New), candidate("b", 0, containerrestart.New)}, []string{
			"1", "0 BehindRequest: Restart shop/b: goes first; wait for the end of Restart shop/b",
		}},
		{"CR-20 of the same second by name", []containerrestart.Candidate{candidate("b", 0, containerrestart.New), candidate("a", 0, containerrestart.New)}, []string{
			"1", "0 BehindRequest: Restart shop/a: goes first; wait for the end of Restart shop/a",
		}},
		{"CR-61 behind a request that may never end", []containerrestart.Candidate{candidate("a", 0, containerrestart.New), endless}, []string{
			"1", "0 BehindRequest: Restart shop/slow: goes first, and has no deadline; wait for the end of Restart shop/slow, or delete it",
		}},
		{"CR-61 and its reasons", []containerrestart.Candidate{stuck, candidate("a", 0, containerrestart.New)}, []string{
			"0", "1 BehindRequest: Restart shop/slow: goes first, and has no deadline (ReadyAwaited: containers[app]; B; and 1 more); wait for the end of Restart shop/slow, or delete it",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, waiting := containerrestart.Pick(c.candidates)
			got := []string{fmt.Sprint(next)}
			for _, w := range waiting {
				got = append(got, fmt.Sprint(w.Index, " ", w.Why))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
