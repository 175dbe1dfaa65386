package cloneset

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	podapply "github.com/workloadkit/workloadkit/podpatch/apply"
)

// TestCallsAreShared holds how many Pods are out of service at the same time because CloneSets are worked on side by side:
// the first takes all calls, those that come later what is their part, and two at least.
func TestCallsAreShared(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls int // the option; 0 for the default
		busy  int // CloneSets that are being worked on already
		pods  int
		want  int // Pods worked on side by side
	}{
		{"alone", 0, 0, 20, 5},
		{"alone with few Pods", 0, 0, 3, 3},
		{"beside another", 0, 1, 20, 2},
		{"beside many", 0, 9, 20, 2},
		{"one at a time is one at a time", 1, 0, 20, 1},
		{"one at a time beside many", 1, 9, 20, 1},
		{"many, shared by two", 20, 1, 20, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &Reconciler{options: withDefaults(Options{Calls: tc.calls}), backOff: podapply.NewRefusals(firstBackOff, lastBackOff)}
				widest := func(pods int) int {
					var mu sync.Mutex
					var now, most int
					count := func(n int) {
						mu.Lock()
						defer mu.Unlock()
						now += n
						most = max(most, now)
					}
					work := func(context.Context, *corev1.Pod) (bool, error) {
						count(1)
						time.Sleep(time.Minute) // of a clock that runs when everybody waits
						count(-1)
						return true, nil
					}
					if _, err := r.each(t.Context(), &view{cs: &v1beta1.CloneSet{}}, tryUpdate, make([]*corev1.Pod, pods), work); err != nil {
						t.Error(err)
					}
					return most
				}
				var others sync.WaitGroup
				for range tc.busy {
					others.Go(func() { widest(20) })
				}
				synctest.Wait()
				if got := widest(tc.pods); got != tc.want {
					t.Errorf("%d Pods were worked on side by side, want %d", got, tc.want)
				}
				others.Wait()
				if got, want := widest(tc.pods), min(tc.pods, r.options.Calls); got != want {
					t.Errorf("%d Pods were worked on side by side when the others had ended, want %d", got, want)
				}
			})
		})
	}
}
