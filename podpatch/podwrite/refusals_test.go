package podwrite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// ExampleRefusals: an update that a policy refuses is tried again a minute later, and what was begun is finished meanwhile.
func ExampleRefusals() {
	refusals := podwrite.NewRefusals(time.Minute, time.Hour)
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	update := podwrite.Attempt{Object: "uid-of-web-0", Action: "update", Target: "web-7d9f"}

	start := func() error { return reason.Reason{Code: podwrite.Refused, Detail: "image policy"} } // podpodwrite.Send of what inplaceupdate.Start says
	try := func() {
		if wait, why := refusals.Of(update, now); why != nil {
			fmt.Println("not now, in", wait) // inplaceupdate.Next goes on all the same
			return
		}
		err := start()
		switch {
		case err == nil:
			refusals.Succeeded(update.Object, update.Action)
		case podwrite.IsLasting(err):
			fmt.Println("refused, again in", refusals.Add(update, now, err))
		}
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

func TestRefusalsBounds(t *testing.T) {
	for _, tc := range []struct {
		name     string
		refusals *podwrite.Refusals
		want     []time.Duration
	}{
		{"the zero value", &podwrite.Refusals{}, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{"no first wait", podwrite.NewRefusals(0, 3*time.Second), []time.Duration{2 * time.Second, 3 * time.Second, 3 * time.Second}},
		{"the last is shorter than the first", podwrite.NewRefusals(time.Minute, time.Second), []time.Duration{time.Minute, time.Minute, time.Minute}},
		{"no last", podwrite.NewRefusals(time.Minute, 0), []time.Duration{time.Minute, time.Minute, time.Minute}},
	} {
		update := podwrite.Attempt{Object: "u1", Action: "update"}
		var waits []time.Duration
		for range tc.want {
			waits = append(waits, tc.refusals.Add(update, now, errors.New("no")))
		}
		if diff := cmp.Diff(tc.want, waits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if wait := tc.refusals.Add(podwrite.Attempt{Object: "u2", Action: "update"}, now, nil); wait != 0 || tc.refusals.Len() != 1 {
			t.Errorf("%s: no error is remembered for %v", tc.name, wait)
		}
	}
}
