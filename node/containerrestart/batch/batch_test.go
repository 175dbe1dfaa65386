package batch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/node/containerrestart/batch"
	"github.com/workloadkit/workloadkit/reason"
)

func at(second int) time.Time { return time.Unix(1_000_000+int64(second), 0) }

// pods returns the Pods a, b, c and so on. Each letter is the state of a Pod: w waits and is available, u waits and
// is unavailable, x waits, is available and is refused, r restarts, d is done, n is done and unavailable, f has
// failed.
func pods(letters string) (out []batch.Member) {
	for i, letter := range letters {
		m := batch.Member{Name: string(rune('a' + i)), Available: true}
		switch letter {
		case 'u':
			m.Available = false
		case 'x':
			m.Refused = reason.Reason{Code: "BudgetSpent"}
		case 'r':
			m.Standing = batch.Restarting
		case 'd':
			m.Standing = batch.Restarted
		case 'n':
			m.Standing, m.Available = batch.Restarted, false
		case 'f':
			m.Standing = batch.Failed
		}
		out = append(out, m)
	}
	return out
}

func TestNext(t *testing.T) {
	type step struct {
		State   completion.State
		Restart string
		After   time.Duration
		Why     string
	}
	type rules = batch.Rules
	running := completion.Running
	for _, c := range []struct {
		name   string
		r      rules
		record batch.Record
		pods   string
		now    int
		want   step
	}{
		{"as many as may be away", rules{Replicas: 4, MaxUnavailable: 2}, batch.Record{}, "wwww", 0, step{running, "a b", 0, ""}},
		{"those under way are away, though they still serve", rules{Replicas: 4, MaxUnavailable: 2}, batch.Record{}, "rwww", 0, step{running, "b", 0, ""}},
		{"those that do not serve are away", rules{Replicas: 4, MaxUnavailable: 2}, batch.Record{}, "nrww", 0, step{running, "", 0, "UpdateLimited"}},
		{"missing Pods are away", rules{Replicas: 5, MaxUnavailable: 1}, batch.Record{}, "wwww", 0, step{running, "", 0, "UpdateLimited"}},
		{"a Pod that does not serve loses nothing", rules{Replicas: 4, MaxUnavailable: 1}, batch.Record{}, "wwwu", 0, step{running, "d", 0, "UpdateLimited"}},
		{"Pods beyond the wanted number make the budget no larger", rules{Replicas: 2, MaxUnavailable: 1}, batch.Record{}, "wwww", 0, step{running, "a", 0, ""}},
		{"and are restarted too", rules{Replicas: 2, MaxUnavailable: 1}, batch.Record{}, "dddw", 0, step{running, "d", 0, ""}},
		{"none may be away", rules{Replicas: 2}, batch.Record{}, "ww", 0, step{running, "", 0, "UpdateLimited"}},
		{"a partition keeps the last", rules{Replicas: 4, Partition: 3, MaxUnavailable: 4}, batch.Record{}, "wwww", 0, step{running, "a", 0, ""}},
		{"a partition that is reached", rules{Replicas: 4, Partition: 3, MaxUnavailable: 4}, batch.Record{}, "dwww", 0, step{running, "", 0, "PartitionReached"}},
		{"a refused Pod gives its turn", rules{Replicas: 3, MaxUnavailable: 1}, batch.Record{}, "xww", 0, step{running, "b", 5 * time.Second, "BudgetSpent"}},
		{"not to a Pod that the partition keeps", rules{Replicas: 3, Partition: 2, MaxUnavailable: 1}, batch.Record{}, "xww", 0, step{running, "", 5 * time.Second, "BudgetSpent"}},
		{"all are refused", rules{Replicas: 2, MaxUnavailable: 1}, batch.Record{}, "xx", 0, step{running, "", 5 * time.Second, "BudgetSpent BudgetSpent"}},
		{"refused, with a deadline far away", rules{Replicas: 2, MaxUnavailable: 1, Deadline: ptr.To(time.Hour)}, batch.Record{}, "xx", 0, step{running, "", 5 * time.Second, "BudgetSpent BudgetSpent"}},
		{"paused", rules{Replicas: 2, MaxUnavailable: 1, Paused: true}, batch.Record{}, "ww", 0, step{completion.Paused, "", 0, "JobPaused"}},
		{"a failure ends it", rules{Replicas: 2, MaxUnavailable: 1, OnFailure: completion.End}, batch.Record{}, "fw", 0, step{completion.Failed, "", time.Second, "FailureNotTolerated"}},
		{"or holds it", rules{Replicas: 2, MaxUnavailable: 1, OnFailure: completion.Hold}, batch.Record{}, "fw", 0, step{completion.Held, "", 0, "HeldByFailures"}},
		{"until somebody has looked", rules{Replicas: 2, MaxUnavailable: 1, OnFailure: completion.Hold}, batch.Record{Known: 1}, "fw", 0, step{running, "b", 0, ""}},
		{"or not even so", rules{Replicas: 2, MaxUnavailable: 1, OnFailure: completion.Hold}, batch.Record{Known: 1, Held: true}, "fw", 0, step{completion.Held, "", 0, "HeldByFailures"}},
		{"or does nothing", rules{Replicas: 2, MaxUnavailable: 1}, batch.Record{}, "fw", 0, step{running, "b", 0, ""}},
		{"complete", rules{Replicas: 2, MaxUnavailable: 1}, batch.Record{}, "fd", 0, step{completion.Complete, "", time.Second, ""}},
		{"complete, though the last does not serve any more", rules{Replicas: 2, MaxUnavailable: 1}, batch.Record{}, "dn", 0, step{completion.Complete, "", time.Second, ""}},
		{"complete without Pods", rules{}, batch.Record{}, "", 0, step{completion.Complete, "", time.Second, ""}},
		{"too late", rules{Replicas: 2, MaxUnavailable: 1, Deadline: ptr.To(9 * time.Second)}, batch.Record{Started: at(0)}, "rw", 9, step{completion.Failed, "", time.Second, "DeadlineExceeded"}},
		{"almost", rules{Replicas: 2, MaxUnavailable: 1, Deadline: ptr.To(9 * time.Second)}, batch.Record{Started: at(0)}, "rw", 8, step{running, "", time.Second, "UpdateLimited"}},
		{"over", rules{Replicas: 2, MaxUnavailable: 1, TTL: ptr.To(9 * time.Second)}, batch.Record{Ended: at(0)}, "dw", 8, step{completion.Over, "", time.Second, ""}},
		{"senseless", rules{Replicas: 2, MaxUnavailable: -1}, batch.Record{}, "ww", 0, step{running, "", 0, "InvalidRollout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := batch.Next(c.r, c.record, pods(c.pods), at(c.now))
			var why []string
			for _, r := range s.Why {
				why = append(why, string(r.Code))
			}
			if diff := cmp.Diff(c.want, step{s.State, strings.Join(s.Restart, " "), s.After, strings.Join(why, " ")}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzCourse: Pods are created and deleted, and become unavailable and available again. No step restarts an available
// Pod while as many Pods are unavailable as MaxUnavailable allows, and every restart with a positive MaxUnavailable
// ends.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 3))
		members := pods(strings.Repeat("w", 1+random.IntN(6)))
		rules := batch.Rules{Replicas: len(members), MaxUnavailable: 1 + random.IntN(3)}
		for turn := range 400 {
			step := batch.Next(rules, batch.Record{}, members, at(turn))
			if step.State == completion.Complete {
				return
			}
			away := rules.Replicas - len(members)
			for _, m := range members {
				if !m.Available || m.Standing == batch.Restarting {
					away++
				}
			}
			for _, name := range step.Restart {
				m := &members[slices.IndexFunc(members, func(m batch.Member) bool { return m.Name == name })]
				if m.Standing != batch.Waiting || m.Refused.Code != "" {
					t.Fatalf("seed %d: %s is restarted: %+v", seed, name, members)
				}
				if m.Available {
					if away++; away > rules.MaxUnavailable {
						t.Fatalf("seed %d: %d are away, %d may be: %+v", seed, away, rules.MaxUnavailable, members)
					}
				}
				m.Standing = batch.Restarting
			}
			for i := range members {
				switch m := &members[i]; {
				case m.Standing == batch.Restarting && random.IntN(3) == 0:
					m.Standing, m.Available = batch.Restarted, true
				case turn < 100 && random.IntN(8) == 0:
					m.Available = !m.Available
				case turn < 100 && random.IntN(8) == 0:
					*m = batch.Member{Name: fmt.Sprint(m.Name[:1], turn), Standing: batch.Restarted} // the Pod was deleted and created again
				case turn < 100 && random.IntN(8) == 0:
					m.Refused = reason.Reason{Code: "BudgetSpent"}
				case turn >= 100 || random.IntN(2) == 0:
					m.Available, m.Refused = true, reason.Reason{}
				}
			}
		}
		t.Fatalf("seed %d does not end: %+v", seed, members)
	})
}

func TestIsRestarted(t *testing.T) {
	running := func(name string, second int) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(second))}}}
	}
	ended := func(second int) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(at(second))}
	}
	for _, c := range []struct {
		name     string
		names    []string
		statuses []corev1.ContainerStatus
		want     bool
	}{
		{"all since", nil, []corev1.ContainerStatus{running("b", 5), running("a", 4)}, true},
		{"one before", nil, []corev1.ContainerStatus{running("a", 5), running("b", 3)}, false},
		{"one before, of which nobody asked", []string{"a"}, []corev1.ContainerStatus{running("a", 5), running("b", 3)}, true},
		{"one has never started", nil, []corev1.ContainerStatus{running("a", 5), {Name: "b"}}, false},
		{"one has ended since", nil, []corev1.ContainerStatus{running("a", 5), {Name: "b", State: corev1.ContainerState{Terminated: ended(4)}}}, true},
		{"one ended before", nil, []corev1.ContainerStatus{running("a", 5), {Name: "b", State: corev1.ContainerState{Terminated: ended(3)}}}, false},
		{"one crashes in a loop since", nil, []corev1.ContainerStatus{running("a", 5), {Name: "b", LastTerminationState: corev1.ContainerState{Terminated: ended(4)}}}, true},
		{"one is unknown", nil, []corev1.ContainerStatus{running("a", 5)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}, Status: corev1.PodStatus{ContainerStatuses: c.statuses}}
			if got := batch.IsRestarted(pod, c.names, at(4).Add(900*time.Millisecond)); got != c.want {
				t.Error(got)
			}
		})
	}
	if batch.IsRestarted(&corev1.Pod{}, nil, at(0)) {
		t.Error("a Pod without containers has restarted")
	}
}
