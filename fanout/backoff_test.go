package fanout_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	begin  = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	errNo  = errors.New("no")
	update = fanout.Task{Name: "update Pods", First: time.Minute, Last: 3 * time.Minute}
)

// ExampleBackoff: an update that a policy has refused is retried a minute later.
func ExampleBackoff() {
	var backoff fanout.Backoff
	now := begin
	attempt := fanout.Attempt{Object: "uid-of-web-0", Task: update, Target: "web-7d9f"}
	try := func() {
		if wait, err := backoff.Resting(attempt, now); err != nil {
			fmt.Println("not now, in", wait)
			return
		}
		err := errNo // the API server's response
		fmt.Println("refused, again in", backoff.Refused(attempt, err, now))
	}
	try()
	now = now.Add(20 * time.Second)
	try()
	now = now.Add(40 * time.Second)
	try()
	// Output:
	// refused, again in 1m0s
	// not now, in 40s
	// refused, again in 2m0s
}

func TestBackoff(t *testing.T) {
	var backoff fanout.Backoff
	attempt := fanout.Attempt{Object: "u1", Task: update, Target: "web-2"}
	if wait, err := backoff.Resting(attempt, begin); wait != 0 || err != nil || backoff.WasRefused("u1", update) {
		t.Errorf("nothing was refused, and yet: %v, %v", wait, err)
	}
	if wait := backoff.Refused(attempt, nil, begin); wait != 0 || backoff.Len() != 0 {
		t.Errorf("no error is remembered for %v", wait)
	}
	if wait := backoff.Refused(attempt, errNo, begin); wait != time.Minute {
		t.Errorf("first wait = %v, want a minute", wait)
	}
	type answer struct {
		Wait  time.Duration
		Rests bool
	}
	for _, tc := range []struct {
		name    string
		attempt fanout.Attempt
		after   time.Duration
		want    answer
	}{
		{"at once", attempt, 0, answer{time.Minute, true}},
		{"just before it is tried again", attempt, time.Minute - 1, answer{1, true}},
		{"tried again", attempt, time.Minute, answer{}},
		{"another target", fanout.Attempt{Object: "u1", Task: update, Target: "web-3"}, 0, answer{}},
		{"another task", fanout.Attempt{Object: "u1", Task: fanout.Task{Name: "delete"}, Target: "web-2"}, 0, answer{}},
		{"another Pod", fanout.Attempt{Object: "u2", Task: update, Target: "web-2"}, 0, answer{}},
	} {
		wait, err := backoff.Resting(tc.attempt, begin.Add(tc.after))
		if diff := cmp.Diff(tc.want, answer{wait, errors.Is(err, errNo) && reason.IsFinal(err)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	var waits []time.Duration
	for range 3 {
		waits = append(waits, backoff.Refused(attempt, errNo, begin))
	}
	attempt.Target = "web-3"
	waits = append(waits, backoff.Refused(attempt, errNo, begin))
	if diff := cmp.Diff([]time.Duration{2 * time.Minute, 3 * time.Minute, 3 * time.Minute, time.Minute}, waits); diff != "" {
		t.Errorf("waits of further refusals, the last with another target (-want +got):\n%s", diff)
	}
	if !backoff.WasRefused("u1", fanout.Task{Name: "x"}, update) {
		t.Error("what was refused last is not known")
	}
	if backoff.Succeeded("u1", update); backoff.WasRefused("u1", update) || backoff.Refused(attempt, errNo, begin) != time.Minute {
		t.Error("a success does not start anew")
	}
	backoff.Forget("u1")
	if wait, err := backoff.Resting(attempt, begin); wait != 0 || err != nil || backoff.Len() != 0 {
		t.Errorf("forgotten, and yet: %v, %v, %d", wait, err, backoff.Len())
	}
}

func TestBackoffBounds(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first, last time.Duration
		want        []time.Duration
	}{
		{"the zero task", 0, 0, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{"no first wait", 0, 3 * time.Second, []time.Duration{2 * time.Second, 3 * time.Second, 3 * time.Second}},
		{"the last is shorter than the first", time.Minute, time.Second, []time.Duration{time.Minute, time.Minute, time.Minute}},
		{"no last", 40 * time.Second, 0, []time.Duration{40 * time.Second, time.Minute, time.Minute}},
	} {
		var backoff fanout.Backoff
		var waits []time.Duration
		for range tc.want {
			waits = append(waits, backoff.Refused(fanout.Attempt{Object: "u1", Task: fanout.Task{Name: "x", First: tc.first, Last: tc.last}}, errNo, begin))
		}
		if diff := cmp.Diff(tc.want, waits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestBackoffIsBounded: a Backoff removes records of objects that were deleted without an event, and keeps records of
// objects in back-off.
func TestBackoffIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name    string
		attempt func(i int) fanout.Attempt
	}{
		{"objects", func(i int) fanout.Attempt { return fanout.Attempt{Object: types.UID(fmt.Sprint(i)), Task: update} }},
		{"tasks of one object", func(i int) fanout.Attempt {
			return fanout.Attempt{Object: "agent", Task: fanout.Task{Name: fmt.Sprint("create a Pod for node-", i)}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var backoff fanout.Backoff
			now := begin
			for i := range 100_000 {
				now = now.Add(time.Second)
				backoff.Refused(tc.attempt(i), errNo, now)
			}
			known := 0
			for i := range 100_000 {
				if a := tc.attempt(i); backoff.WasRefused(a.Object, a.Task) {
					known++
				}
			}
			if known > 2100 {
				t.Errorf("%d refusals are known", known)
			}
			if _, err := backoff.Resting(tc.attempt(99_999), now); err == nil {
				t.Error("what was refused a second ago is not known")
			}
		})
	}
}
