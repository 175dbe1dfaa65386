package imagepull_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// nodes parses Nodes from text. Each word is a name with states, such as "n1:active,notready,lacks".
func nodes(words string) (out []imagepull.Node) {
	for word := range strings.FieldsSeq(words) {
		name, states, _ := strings.Cut(word, ":")
		n := imagepull.Node{Name: name, Standing: imagepull.Standing{State: imagepull.Unclaimed}}
		for s := range strings.SplitSeq(states, ",") {
			switch s {
			case "active":
				n.Standing = imagepull.Standing{State: imagepull.Active, After: time.Minute}
			case "done":
				n.Standing.State = imagepull.Done
			case "broken":
				n.Standing = imagepull.Standing{State: imagepull.Broken, Why: reason.Reason{Code: imagepull.PullFailed}}
			case "silent":
				n.Standing = imagepull.Standing{State: imagepull.Silent, Why: reason.Reason{Code: imagepull.AgentSilentOnNode}}
			case "notready":
				n.NotReady = "NotReady"
			case "lacks":
				n.LacksSecret = true
			}
		}
		out = append(out, n)
	}
	return out
}

// jobStep contains the fields of a JobStep that the test compares.
type jobStep struct {
	State  completion.State
	Start  string
	Counts imagepull.Counts
	Failed string
	Add    string
	After  time.Duration
	Why    string
}

func TestPlan(t *testing.T) {
	type (
		rules  = completion.Rules
		counts = imagepull.Counts
	)
	const underWay, complete, failed = completion.Running, completion.Complete, completion.Failed
	for _, c := range []struct {
		name     string
		nodes    string
		rules    rules
		window   imagepull.Window
		progress imagepull.Progress
		want     jobStep
	}{
		{"IP-10 as many as are free", "a:active b c d e f", rules{Parallelism: 2}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Start: "b", Counts: counts{6, 2, 0, 0, 4}, After: time.Minute, Why: "ParallelismReached"}},
		{"IP-10 parallelism 0 holds", "a b", rules{}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Counts: counts{2, 0, 0, 0, 2}, Why: "ParallelismReached"}},
		{"IP-10 more active than allowed", "a:active b:active c", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Counts: counts{3, 2, 0, 0, 1}, After: time.Minute, Why: "OverParallelism"}},
		{"IP-60 the caller's order is kept", "z m a", rules{Parallelism: 2}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Start: "z m", Counts: counts{3, 2, 0, 0, 1}, Why: "ParallelismReached"}},
		{"IP-11 complete", "a:done b:broken", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: complete, Counts: counts{2, 0, 1, 1, 0}, Failed: "b", After: time.Second, Why: "PullFailed"}},
		{"IP-11 no Nodes", "", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: complete, After: time.Second}},
		{"IP-11 no Nodes of an endless job", "", rules{Parallelism: 1, Endless: true}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay}},
		{"IP-11 over, new Nodes are ignored", "a", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{Ended: at(-5)}, jobStep{State: completion.Over}},
		{"IP-12 the deadline", "b:active c:done a d:broken", rules{Parallelism: 1, Deadline: ptr.To(time.Minute)}, imagepull.Window{}, imagepull.Progress{Started: at(-60)}, jobStep{State: failed, Counts: counts{4, 0, 1, 3, 0}, Failed: "a b d", After: time.Second, Why: "DeadlineExceeded PullFailed"}},
		{"IP-12 before the deadline", "b:active", rules{Parallelism: 1, Deadline: ptr.To(90 * time.Second)}, imagepull.Window{}, imagepull.Progress{Started: at(-60)}, jobStep{State: underWay, Counts: counts{1, 1, 0, 0, 0}, After: 30 * time.Second}},
		{"IP-63 a Node is counted once", "b:active,lacks a:active,lacks", rules{Parallelism: 1, Deadline: ptr.To(time.Minute)}, imagepull.Window{}, imagepull.Progress{Started: at(-60)}, jobStep{State: failed, Counts: counts{2, 0, 0, 2, 0}, Failed: "a b", After: time.Second, Why: "DeadlineExceeded"}},
		{"IP-13 the TTL", "", rules{TTL: ptr.To(time.Minute)}, imagepull.Window{}, imagepull.Progress{Ended: at(-5)}, jobStep{State: completion.Over, After: 55 * time.Second}},
		{"IP-66 a Node that is not ready waits", "a:notready b:active,notready c", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Start: "c", Counts: counts{3, 1, 0, 0, 2}, Why: "NodesNotReady"}},
		{"IP-66 a silent Node that is not ready has not failed", "a:silent,notready", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Counts: counts{1, 0, 0, 0, 1}, Why: "NodesNotReady"}},
		{"IP-34 a silent Node that is ready has failed", "a:silent b:active", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Counts: counts{2, 1, 0, 1, 0}, Failed: "a", After: time.Minute, Why: "AgentSilentOnNode"}},
		{"IP-69 a missing Secret does not wait", "a:active,lacks b:active,lacks c:lacks d:done,lacks", rules{Parallelism: 1}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: underWay, Counts: counts{4, 2, 1, 0, 1}, Add: "a b", After: time.Minute, Why: "OverParallelism"}},
		{"the window is closed", "a:active b", rules{Parallelism: 3}, imagepull.Window{Opens: at(30).UTC().Sub(at(0).UTC().Truncate(24 * time.Hour)), Lasts: time.Hour}, imagepull.Progress{}, jobStep{State: underWay, Counts: counts{2, 1, 0, 0, 1}, After: 30 * time.Second, Why: "WindowClosed"}},
		{"paused", "a b:active,lacks", rules{Parallelism: 3, Paused: true}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: completion.Paused, Counts: counts{2, 1, 0, 0, 1}, Why: "JobPaused"}},
		{"a failure ends the job, and the rest has not failed", "a:broken b:active", rules{Parallelism: 3, OnFailure: completion.End}, imagepull.Window{}, imagepull.Progress{}, jobStep{State: failed, Counts: counts{2, 1, 0, 1, 0}, Failed: "a", After: time.Second, Why: "FailureNotTolerated PullFailed"}},
		{"a known failure does not hold the job", "a:broken b", rules{Parallelism: 3, OnFailure: completion.Hold}, imagepull.Window{}, imagepull.Progress{Known: 1}, jobStep{State: underWay, Start: "b", Counts: counts{2, 1, 0, 1, 0}, Failed: "a", Why: "PullFailed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := imagepull.Plan(nodes(c.nodes), imagepull.Rules{Rules: c.rules, Window: c.window}, c.progress, at(0))
			got := jobStep{s.State, strings.Join(s.Start, " "), s.Counts, strings.Join(s.FailedNodes, " "), strings.Join(s.AddSecrets, " "), s.After, ""}
			var why []string
			for _, r := range s.Why {
				why = append(why, string(r.Code))
			}
			got.Why = strings.Join(why, " ")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanNames(t *testing.T) {
	s := imagepull.Plan(nodes("a:broken b:notready c:notready d:notready e:notready"), imagepull.Rules{Rules: completion.Rules{Parallelism: 1}}, imagepull.Progress{}, at(0))
	const wanted = "PullFailed: Node a; NodesNotReady: b (NotReady), c (NotReady), d (NotReady) and 1 more; make the Nodes ready, or exclude the Nodes"
	if s.Why.String() != wanted {
		t.Errorf("IP-70: %s", s.Why)
	}
}

// FuzzPlan: each Node is counted once, pulls begin on no more Nodes than allowed, and no pull begins twice on a Node.
func FuzzPlan(f *testing.F) {
	f.Add([]byte("0123456789"), 3, byte(0), int64(10))
	f.Add([]byte{5, 5, 5, 25, 45, 65, 33}, 0, byte(255), int64(-1))
	f.Add([]byte{}, 1, byte(1), int64(100))
	f.Fuzz(func(t *testing.T, states []byte, parallelism int, bits byte, deadline int64) {
		all := []imagepull.State{imagepull.Unclaimed, imagepull.Active, imagepull.Silent, imagepull.Done, imagepull.Broken}
		var list []imagepull.Node
		fresh := map[string]bool{}
		for i, b := range states[:min(len(states), 200)] {
			n := imagepull.Node{Name: string(rune('a' + i)), Standing: imagepull.Standing{State: all[int(b)%len(all)]}, LacksSecret: b&32 > 0}
			if b&64 > 0 {
				n.NotReady = "x"
			}
			fresh[n.Name] = n.Standing.State == imagepull.Unclaimed && n.NotReady == ""
			list = append(list, n)
		}
		r := imagepull.Rules{Rules: completion.Rules{Parallelism: parallelism & 0xff, Endless: bits&1 > 0, OnFailure: completion.OnFailure(bits >> 1 & 3)}}
		if bits&8 > 0 {
			r.Deadline = completion.Seconds(ptr.To(deadline))
		}
		if bits&16 > 0 {
			r.Window = imagepull.Window{Lasts: time.Second}
		}
		s := imagepull.Plan(list, r, imagepull.Progress{Started: at(0)}, at(50))
		if c := s.Counts; c.Desired != len(list) || c.Desired != c.Active+c.Succeeded+c.Failed+c.Waiting || min(c.Active, c.Waiting, c.Failed) < 0 || c.Failed != len(s.FailedNodes) {
			t.Errorf("%+v", s)
		}
		if len(s.Start) > 0 && (s.Counts.Active > r.Parallelism || s.State != completion.Running || bits&16 > 0) || s.After < 0 || !slices.IsSorted(s.FailedNodes) {
			t.Errorf("%+v", s)
		}
		for _, name := range s.Start {
			if !fresh[name] {
				t.Errorf("%s is begun: %+v", name, s)
			}
			fresh[name] = false
		}
	})
}
