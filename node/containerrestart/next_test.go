package containerrestart_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

type (
	request   = containerrestart.Request
	container = containerrestart.Container
	observed  = containerrestart.Observed
	instance  = containerrestart.Instance
	view      = containerrestart.View
	stop      = containerrestart.Stop
)

func at(second int) time.Time { return time.Unix(1_000_000+int64(second), 0) }

// running returns an instance that started at the given second. The ID is the name with the attempt: a0, a1.
func running(name string, attempt int32, started int) instance {
	return instance{
		ID: fmt.Sprint(name, attempt), Name: name, Attempt: attempt, State: containerrestart.Running,
		Created: at(started - 1), Started: at(started),
	}
}

// exited returns an instance that ended at the given second.
func exited(name string, attempt int32, finished int) instance {
	i := running(name, attempt, finished-1)
	i.State, i.Finished, i.ExitCode = containerrestart.Exited, at(finished), 137
	return i
}

func ready(ids ...string) (out []view) {
	for _, id := range ids {
		out = append(out, view{Name: id[:1], ID: "containerd://" + id, Ready: true})
	}
	return out
}

// of returns containers of a request without recorded progress. Before is the ID of each container's first instance.
func of(names ...string) (out []container) {
	for _, name := range names {
		out = append(out, container{Name: name, Before: "containerd://" + name + "0"})
	}
	return out
}

// recorded returns a container with recorded progress.
func recorded(name string, phase containerrestart.Phase, stopped bool) container {
	c := of(name)[0]
	c.Phase, c.Stopped = phase, stopped
	return c
}

// step contains the fields of a Step that the test compares, with the record and the reasons as text.
type step struct {
	State  completion.State
	Stop   string
	Record string
	After  time.Duration
	Why    string
}

func short(s containerrestart.Step) step {
	out := step{State: s.State, After: s.After}
	if s.Stop != nil {
		out.Stop = s.Stop.Instance.ID
	}
	var record, why []string
	for _, c := range s.Containers {
		word := c.Name + " " + string(c.Phase)
		if c.Stopped {
			word += " stopped"
		}
		record = append(record, word)
	}
	for _, r := range s.Why {
		why = append(why, string(r.Code))
	}
	out.Record, out.Why = strings.Join(record, ", "), strings.Join(why, " ")
	return out
}

const (
	soonest  = 200 * time.Millisecond
	underWay = completion.Running
)

func TestNext(t *testing.T) {
	two := []instance{running("a", 0, -100), running("b", 0, -100)}
	refused := errors.New("the container is not known")
	for _, c := range []struct {
		name string
		r    request
		o    observed
		now  int
		want step
	}{
		{
			"CR-25 the first is stopped",
			request{Containers: of("a", "b")},
			observed{Instances: two},
			0,
			step{underWay, "a0", "a Restarting stopped, b Pending", soonest, ""},
		},
		{
			"CR-25 a single stop is under way",
			request{Containers: []container{recorded("a", "Restarting", true), of("b")[0]}},
			observed{Instances: two, Stops: []stop{{ID: "a0"}}},
			0,
			step{underWay, "", "a Restarting stopped, b Pending", 3 * time.Second, "StopAwaited"},
		},
		{
			"CR-25 the second is stopped before the first is back",
			request{Containers: []container{recorded("a", "Restarting", true), of("b")[0]}},
			observed{Instances: []instance{exited("a", 0, 0), two[1]}},
			10,
			step{underWay, "b0", "a Restarting stopped, b Restarting stopped", soonest, "StartAwaited"},
		},
		{
			"CR-25 in order the second waits for the first",
			request{Containers: []container{recorded("a", "Restarting", true), of("b")[0]}, Ordered: true},
			observed{Instances: []instance{exited("a", 0, 0), two[1]}},
			10,
			step{underWay, "", "a Restarting stopped, b Pending", time.Second, "StartAwaited OrderAwaited"},
		},
		{
			"CR-25 in order the second follows",
			request{Containers: []container{recorded("a", "Restarting", true), of("b")[0]}, Ordered: true},
			observed{Instances: []instance{exited("a", 0, 0), running("a", 1, 1), two[1]}, Views: ready("a1")},
			10,
			step{underWay, "b0", "a Restarted stopped, b Restarting stopped", soonest, ""},
		},
		{
			"CR-25 in order a container without instance is not skipped",
			request{Containers: of("a", "b"), Ordered: true},
			observed{Instances: two[1:]},
			0,
			step{underWay, "", "a Pending, b Pending", 3 * time.Second, "InstanceAwaited OrderAwaited"},
		},
		{
			"CR-25 without order another goes ahead",
			request{Containers: of("a", "b")},
			observed{Instances: two[1:]},
			0,
			step{underWay, "b0", "a Pending, b Restarting stopped", soonest, "InstanceAwaited"},
		},
		{
			"CR-25 in order, though a later container has ended by itself",
			request{Containers: of("a", "b"), Ordered: true},
			observed{Instances: []instance{two[0], exited("b", 0, 0)}},
			0,
			step{underWay, "a0", "a Restarting stopped, b Restarting stopped", soonest, "StartAwaited"},
		},

		{
			"CR-24 a final phase stays",
			request{Containers: []container{recorded("a", "Restarted", false), of("b")[0]}},
			observed{Instances: two},
			0,
			step{underWay, "b0", "a Restarted, b Restarting stopped", soonest, ""},
		},
		{
			"CR-24 ended by itself",
			request{Containers: of("a")},
			observed{Instances: []instance{exited("a", 0, -1)}},
			0,
			step{underWay, "", "a Restarting stopped", soonest, "StartAwaited"},
		},
		{
			"CR-24 the newest counts, in any order",
			request{Containers: of("a")},
			observed{Instances: []instance{running("a", 2, -5), exited("a", 0, -9), exited("a", 1, -6)}, Views: ready("a2")},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},
		{
			"CR-24 the newest by creation for equal counts",
			request{Containers: of("a")},
			observed{Instances: []instance{exited("a", 0, -6), {ID: "x", Name: "a", State: containerrestart.Running, Created: at(-5), Started: at(-4)}}, Views: []view{{Name: "a", ID: "x", Ready: true}}},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},
		{
			"CR-24 not ready",
			request{Containers: of("a")},
			observed{Instances: []instance{running("a", 1, -5)}, Views: []view{{Name: "a", ID: "containerd://a1"}}},
			0,
			step{underWay, "", "a Restarting stopped", 3 * time.Second, "ReadyAwaited"},
		},
		{
			"CR-24 the instance before was ready",
			request{Containers: of("a")},
			observed{Instances: []instance{running("a", 1, -5)}, Views: ready("a0")},
			0,
			step{underWay, "", "a Restarting stopped", 3 * time.Second, "ReadyAwaited"},
		},
		{
			"CR-24 the ready one has another name",
			request{Containers: of("a")},
			observed{Instances: []instance{running("a", 1, -5)}, Views: []view{{Name: "b", ID: "a1", Ready: true}}},
			0,
			step{underWay, "", "a Restarting stopped", 3 * time.Second, "ReadyAwaited"},
		},
		{
			"CR-24 the Pod's status is ahead of nobody: ready, ended since",
			request{Containers: []container{recorded("a", "Restarting", true)}},
			observed{Instances: []instance{exited("a", 1, -100)}, Views: ready("a1")},
			0,
			step{underWay, "", "a Restarting stopped", 10 * time.Second, "StartAwaited"},
		},
		{
			"CR-32 not for long enough",
			request{Containers: of("a"), MinStarted: 8 * time.Second},
			observed{Instances: []instance{running("a", 1, -5)}, Views: ready("a1")},
			0,
			step{underWay, "", "a Restarting stopped", 3 * time.Second, "MinStartedAwaited"},
		},
		{
			"CR-32 for exactly long enough",
			request{Containers: of("a"), MinStarted: 8 * time.Second},
			observed{Instances: []instance{running("a", 1, -8)}, Views: ready("a1")},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},
		{
			"CR-32 a start to come, of a clock that was set back",
			request{Containers: of("a"), MinStarted: 8 * time.Second},
			observed{Instances: []instance{running("a", 1, 3600)}, Views: ready("a1")},
			0,
			step{underWay, "", "a Restarting stopped", 8 * time.Second, "MinStartedAwaited"},
		},
		{
			"CR-32 no start known",
			request{Containers: of("a"), MinStarted: 8 * time.Second},
			observed{Instances: []instance{{ID: "a1", Name: "a", Attempt: 1, State: containerrestart.Running}}, Views: ready("a1")},
			0,
			step{underWay, "", "a Restarting stopped", 8 * time.Second, "MinStartedAwaited"},
		},

		{
			"CR-26 restarted since is not stopped",
			request{Containers: of("a", "b")},
			observed{Instances: []instance{running("a", 1, -5), two[1]}, Views: ready("a1", "b0")},
			0,
			step{underWay, "b0", "a Restarted stopped, b Restarting stopped", soonest, ""},
		},
		{
			"CR-26 unless forced",
			request{Containers: of("a"), Force: true},
			observed{Instances: []instance{running("a", 1, -5)}, Views: ready("a1")},
			0,
			step{underWay, "a1", "a Restarting stopped", soonest, ""},
		},
		{
			"CR-26 and then once",
			request{Containers: []container{{Name: "a", Before: "a0", Phase: "Restarting", Stopped: true, StoppedID: "a1"}}, Force: true},
			observed{Instances: []instance{running("a", 2, -5)}, Views: ready("a2")},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},
		{
			"CR-26 recorded, and its agent died before the stop",
			request{Containers: []container{{Name: "a", Before: "a0", Phase: "Restarting", Stopped: true, StoppedID: "a1"}}, Force: true},
			observed{Instances: []instance{running("a", 1, -5)}, Views: ready("a1")},
			0,
			step{underWay, "a1", "a Restarting stopped", soonest, ""},
		},
		{
			"CR-26 recorded without ID: at most once",
			request{Containers: []container{recorded("a", "Restarting", true)}, Force: true},
			observed{Instances: []instance{running("a", 1, -5)}, Views: ready("a1")},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},
		{
			"CR-30 seen to have ended counts as stopped, forced or not",
			request{Containers: of("a"), Force: true},
			observed{Instances: []instance{exited("a", 0, -1)}},
			0,
			step{underWay, "", "a Restarting stopped", soonest, "StartAwaited"},
		},
		{
			"a forced container on its way up is stopped once it runs",
			request{Containers: of("a"), Force: true},
			observed{Instances: []instance{exited("a", 0, -1), {ID: "a1", Name: "a", Attempt: 1, State: containerrestart.Created}}},
			0,
			step{underWay, "", "a Restarting", soonest, "StartAwaited"},
		},
		{
			"the state is unknown: nothing is recorded",
			request{Containers: of("a"), Force: true},
			observed{Instances: []instance{{ID: "a0", Name: "a"}}},
			0,
			step{underWay, "", "a Pending", 3 * time.Second, "InstanceAwaited"},
		},
		{
			"no instance at the beginning",
			request{Containers: []container{{Name: "a"}}},
			observed{Instances: two, Views: ready("a0")},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},
		{
			"instances without ID are nobody's",
			request{Containers: []container{{Name: "a"}}},
			observed{Instances: []instance{{Name: "a", State: containerrestart.Running}}, Views: []view{{Name: "a", Ready: true}}},
			0,
			step{underWay, "", "a Pending", 3 * time.Second, "InstanceAwaited"},
		},

		{
			"CR-27 a refused stop fails the request",
			request{Containers: of("a", "b"), OnFailure: completion.End},
			observed{Instances: two, Stops: []stop{{ID: "a0", Err: refused}}},
			0,
			step{completion.Failed, "", "a Failed, b Pending", time.Second, "FailureNotTolerated StopFailed"},
		},
		{
			"CR-27 or not",
			request{Containers: of("a", "b"), OnFailure: completion.GoOn},
			observed{Instances: two, Stops: []stop{{ID: "a0", Err: refused}}},
			0,
			step{underWay, "b0", "a Failed, b Restarting stopped", soonest, "StopFailed"},
		},
		{
			"CR-27 in order a failed container holds nobody up",
			request{Containers: of("a", "b"), OnFailure: completion.GoOn, Ordered: true},
			observed{Instances: two, Stops: []stop{{ID: "a0", Err: refused}}},
			0,
			step{underWay, "b0", "a Failed, b Restarting stopped", soonest, "StopFailed"},
		},
		{
			"CR-27 refused, and ended all the same",
			request{Containers: of("a")},
			observed{Instances: []instance{exited("a", 0, 0)}, Stops: []stop{{ID: "a0", Err: refused}}},
			1,
			step{underWay, "", "a Restarting stopped", soonest, "StartAwaited"},
		},
		{
			"CR-27 refused for an earlier instance",
			request{Containers: of("a")},
			observed{Instances: two, Stops: []stop{{ID: "x", Err: refused}}},
			1,
			step{underWay, "a0", "a Restarting stopped", soonest, ""},
		},
		{
			"4.6 never started again",
			request{Containers: of("a"), OnFailure: completion.End},
			observed{Instances: []instance{exited("a", 0, 0)}, Views: []view{{Name: "a", ID: "a0", Ended: true}}},
			1,
			step{completion.Failed, "", "a Failed stopped", time.Second, "FailureNotTolerated NotStartedAgain"},
		},
		{
			"4.6 the status is about an earlier instance",
			request{Containers: of("a"), OnFailure: completion.End},
			observed{Instances: []instance{running("a", 1, 0)}, Views: []view{{Name: "a", ID: "a0", Ended: true}}},
			1,
			step{underWay, "", "a Restarting stopped", 3 * time.Second, "ReadyAwaited"},
		},

		{
			"CR-22 not unready yet",
			request{Containers: of("a"), Unready: ptr.To(5 * time.Second)},
			observed{Instances: two},
			0,
			step{underWay, "", "a Pending", 3 * time.Second, "UnreadyAwaited"},
		},
		{
			"CR-22 not for long enough",
			request{Containers: of("a"), Unready: ptr.To(5 * time.Second), UnreadySince: at(-4)},
			observed{Instances: two},
			0,
			step{underWay, "", "a Pending", time.Second, "UnreadyAwaited"},
		},
		{
			"CR-22 for long enough",
			request{Containers: of("a"), Unready: ptr.To(5 * time.Second), UnreadySince: at(-5)},
			observed{Instances: two},
			0,
			step{underWay, "a0", "a Restarting stopped", soonest, ""},
		},
		{
			"CR-22 no time is a time too",
			request{Containers: of("a"), Unready: ptr.To[time.Duration](0), UnreadySince: at(0)},
			observed{Instances: two},
			0,
			step{underWay, "a0", "a Restarting stopped", soonest, ""},
		},
		{
			"CR-22 of a clock far ahead",
			request{Containers: of("a"), Unready: ptr.To(5 * time.Second), UnreadySince: at(3600)},
			observed{Instances: two},
			0,
			step{underWay, "", "a Pending", 5 * time.Second, "UnreadyAwaited"},
		},
		{
			"CR-22 who restarts by itself waits for nothing",
			request{Containers: of("a"), Unready: ptr.To(5 * time.Second)},
			observed{Instances: []instance{running("a", 1, -5)}, Views: ready("a1")},
			0,
			step{completion.Complete, "", "a Restarted stopped", time.Second, ""},
		},

		{
			"CR-12 before the deadline",
			request{Containers: of("a"), Started: at(0), Deadline: ptr.To(9 * time.Second)},
			observed{Instances: []instance{running("a", 1, 0)}},
			8,
			step{underWay, "", "a Restarting stopped", time.Second, "ReadyAwaited"},
		},
		{
			"CR-12 at the deadline",
			request{Containers: of("a", "b"), Started: at(0), Deadline: ptr.To(9 * time.Second)},
			observed{Instances: []instance{running("a", 1, 0), two[1]}},
			9,
			step{completion.Failed, "", "a Restarting stopped, b Pending", time.Second, "DeadlineExceeded ReadyAwaited"},
		},
		{
			"CR-31 all are final",
			request{Containers: []container{recorded("a", "Restarted", true), recorded("b", "Failed", true)}},
			observed{},
			0,
			step{completion.Complete, "", "a Restarted stopped, b Failed stopped", time.Second, ""},
		},
		{
			"CR-15 over",
			request{Containers: of("a"), Ended: at(0), TTL: ptr.To(9 * time.Second)},
			observed{Instances: two},
			8,
			step{completion.Over, "", "a ", time.Second, ""},
		},
		{
			"an unknown phase is none",
			request{Containers: []container{recorded("a", "Going", false)}},
			observed{Instances: []instance{exited("a", 0, 0)}},
			0,
			step{underWay, "", "a Restarting stopped", soonest, "StartAwaited"},
		},
		{
			"under way, of a process before",
			request{Containers: []container{recorded("a", "Restarting", true)}},
			observed{Instances: two},
			0,
			step{underWay, "a0", "a Restarting stopped", soonest, ""},
		},

		{"invalid: no container", request{}, observed{}, 0, step{completion.Failed, "", "", time.Second, "InvalidRequest"}},
		{
			"invalid: no name, twice, below zero",
			request{Containers: []container{{}, {Name: "a"}, {Name: "a"}}, MinStarted: -1, OnFailure: completion.Hold, Deadline: ptr.To[time.Duration](-1)},
			observed{Instances: two},
			0,
			step{completion.Failed, "", " , a , a ", time.Second, "InvalidRequest InvalidRequest InvalidRequest InvalidRequest InvalidRequest"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, short(containerrestart.Next(c.r, c.o, at(c.now)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextReasons(t *testing.T) {
	r := request{
		Containers: of("a", "b", "c", "d"), MinStarted: time.Minute, Unready: ptr.To(time.Minute), Started: at(0),
		Paths: containerrestart.Paths{Containers: "spec.containers", MinStarted: "spec.strategy.minStartedSeconds", Unready: "spec.strategy.unreadyGracePeriodSeconds"},
	}
	o := observed{
		Instances: []instance{running("a", 1, 10), running("b", 1, 10), exited("c", 0, 10), running("d", 0, 0)},
		Views:     ready("a1"),
	}
	want := reason.List{
		{Code: "UnreadyAwaited", Path: "spec.strategy.unreadyGracePeriodSeconds", New: "1m0s", Detail: "the Pod has not been made unready yet", Remedy: "see whether the controller of the request runs"},
		{Code: "MinStartedAwaited", Path: "spec.strategy.minStartedSeconds", New: "1m0s", Detail: "the new instance of container a has run for 5s"},
		{Code: "ReadyAwaited", Path: "spec.containers[b]", Detail: "the new instance is not ready in the Pod's status", Remedy: "see the container's log and its readiness probe"},
		{Code: "StartAwaited", Path: "spec.containers[c]", Detail: "exit code 137, and the kubelet has not started the container again yet", Remedy: "see the kubelet's events of the Pod"},
	}
	got := containerrestart.Next(r, o, at(15))
	if diff := cmp.Diff(want, got.Why); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range got.Containers {
		if c.Why.Code != "" {
			t.Errorf("a wait is in the record of %s: %v", c.Name, c.Why)
		}
	}
}

// TestFailureIsRemembered: the reason of a failure stays in the record, and in later steps.
func TestFailureIsRemembered(t *testing.T) {
	r := request{Containers: of("a", "b")}
	o := observed{Instances: []instance{running("a", 0, 0), running("b", 0, 0)}, Stops: []stop{{ID: "a0", Err: errors.New(strings.Repeat("no ", 500))}}}
	r.Containers = containerrestart.Next(r, o, at(0)).Containers
	why := r.Containers[0].Why
	if why.Code != containerrestart.StopFailed || len(why.Detail) > 600 {
		t.Errorf("recorded %.700v", why)
	}
	later := containerrestart.Next(r, observed{}, at(9))
	if later.Containers[0].Why != why || len(later.Why) == 0 || later.Why[0] != why {
		t.Errorf("later %v, %v", later.Containers[0].Why, later.Why)
	}
}

// TestArgumentsStay: Next modifies neither the request's containers nor the observed instances.
func TestArgumentsStay(t *testing.T) {
	r, o := request{Containers: of("a")}, observed{Instances: []instance{running("a", 0, 0)}}
	step := containerrestart.Next(r, o, at(0))
	step.Stop.Instance.ID = "changed"
	if diff := cmp.Diff(of("a"), r.Containers); diff != "" || o.Instances[0].ID != "a0" {
		t.Errorf("%s%v", diff, o.Instances)
	}
	for _, ended := range []request{{Containers: of("a"), Ended: at(0)}, {Containers: of("a"), MinStarted: -1}} {
		containerrestart.Next(ended, o, at(0)).Containers[0].Name = "changed"
		if diff := cmp.Diff(of("a"), ended.Containers); diff != "" {
			t.Errorf("%s", diff)
		}
	}
}

func TestSplitID(t *testing.T) {
	for id, want := range map[string][2]string{
		"containerd://ab12": {"containerd", "ab12"}, "ab12": {"", "ab12"}, "": {"", ""}, "cri-o://": {"cri-o", ""}, "a://b://c": {"a", "b://c"},
	} {
		if runtime, bare := containerrestart.SplitID(id); [2]string{runtime, bare} != want {
			t.Errorf("%q: %q, %q", id, runtime, bare)
		}
	}
}

func TestGrace(t *testing.T) {
	s := func(n int) *time.Duration { return ptr.To(time.Duration(n) * time.Second) }
	for _, c := range []struct {
		name        string
		own, wanted *time.Duration
		spent       int
		hook        time.Duration
		runs        bool
		stop        time.Duration
	}{
		{"CR-28 the hook takes from the grace", s(30), nil, 12, 30 * time.Second, true, 18 * time.Second},
		{"CR-28 and 2 s are left at least", s(30), nil, 31, 30 * time.Second, true, 2 * time.Second},
		{"CR-28 the request decides", s(30), s(5), 1, 5 * time.Second, true, 4 * time.Second},
		{"CR-29 without grace no hook", s(30), s(0), 0, 0, false, 2 * time.Second},
		{"CR-29 none known", nil, nil, 0, 30 * time.Second, true, 30 * time.Second},
		{"below zero", s(-5), nil, -9, 0, false, 2 * time.Second},
		{"below zero, wanted", s(5), s(-5), 0, 0, false, 2 * time.Second},
		{"less than the least", s(1), nil, 0, time.Second, true, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := containerrestart.GraceOf(c.own, c.wanted)
			hook, runs := g.Hook()
			if stop := g.Stop(time.Duration(c.spent) * time.Second); hook != c.hook || runs != c.runs || stop != c.stop {
				t.Errorf("hook %v %v, stop %v", hook, runs, stop)
			}
		})
	}
}
