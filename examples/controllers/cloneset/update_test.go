package cloneset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
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
				r := eachOf()
				r.options.Calls = withDefaults(Options{Calls: tc.calls}).Calls
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

// eachOf returns a Reconciler that can work on Pods side by side.
func eachOf() *Reconciler {
	return &Reconciler{
		options: withDefaults(Options{}), backOff: podwrite.NewRefusals(firstBackOff, lastBackOff),
		kept: podwrite.NewRefusals(firstPodBackOff, lastPodBackOff), refusals: podwrite.NewRefusals(refusalRetry, refusalRetry),
	}
}

// TestReplacedIsNoRefusal: a Pod that another one has taken the name of is answered with 422 too.
func TestReplacedIsNoRefusal(t *testing.T) {
	answer := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}},
	}}
	r, v := eachOf(), &view{cs: &v1beta1.CloneSet{}}
	acted, err := r.each(t.Context(), v, tryUpdate, []*corev1.Pod{{}}, func(context.Context, *corev1.Pod) (bool, error) {
		v.refused.Add(1)
		return false, reason.Reason{Code: podwrite.Replaced}.With(answer)
	})
	if acted || err != nil || r.kept.Len() > 0 {
		t.Errorf("acted %v, error %v, %d refusals remembered", acted, err, r.kept.Len())
	}
}

// TestProtectedPodsHideNobody: a scale-in to nothing, of which a policy protects the first Pods in the order of deletion.
func TestProtectedPodsHideNobody(t *testing.T) {
	for _, protected := range []int{1, 3, 7, 10} {
		t.Run(fmt.Sprint(protected), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := eachOf()
				left := make([]*corev1.Pod, 20)
				for i := range left {
					left[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("%02d", i))}}
				}
				first := slices.Clone(left[:protected])
				refusal := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("protected"))
				begin := time.Now()
				for len(left) > protected && time.Since(begin) < time.Hour {
					v := &view{cs: &v1beta1.CloneSet{}, now: time.Now()}
					var mu sync.Mutex
					gone := map[types.UID]bool{}
					_, _ = r.each(t.Context(), v, tryDelete, left, func(_ context.Context, pod *corev1.Pod) (bool, error) { // as deletePod does
						kept := podwrite.Attempt{Object: pod.UID, Action: tryDelete}
						if wait, err := r.kept.Of(kept, v.now); err != nil {
							v.wake.in(wait)
							return false, verdict{err}
						}
						time.Sleep(10 * time.Millisecond)
						if !slices.Contains(first, pod) {
							mu.Lock()
							defer mu.Unlock()
							gone[pod.UID] = true
							return true, nil
						}
						v.wake.in(r.kept.Add(kept, v.now, refusal))
						v.refused.Add(1)
						return false, verdict{refusal}
					})
					left = slices.DeleteFunc(slices.Clone(left), func(pod *corev1.Pod) bool { return gone[pod.UID] })
					time.Sleep(max(v.wake.get(), 10*time.Millisecond))
				}
				if len(left) > protected {
					t.Errorf("%d Pods behind %d protected ones were not deleted within an hour", len(left)-protected, protected)
				}
			})
		})
	}
}
