package fairqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache/fairqueue"
)

// request returns the request for "namespace/name".
func request(key string) reconcile.Request {
	namespace, name, _ := strings.Cut(key, "/")
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func none() fairqueue.Limiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)
}

// play carries out the words of the script in order: "+a/1" adds request a/1, "-a/1" marks the request as done, "?"
// calls Get, "shut" shuts the queue down. For each Get, the result has the request, "." if Get blocks, or "end" after
// the shutdown.
func play(t *testing.T, atOnce, workers int, script string) (snapshot []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New(atOnce, workers)("", none())
		defer q.ShutDown()
		var mu sync.Mutex
		var got []string
		for word := range strings.FieldsSeq(script) {
			switch {
			case word == "shut":
				q.ShutDown()
			case word == "?":
				mu.Lock()
				at := len(got)
				got = append(got, ".")
				mu.Unlock()
				go func() {
					item, shutdown := q.Get()
					mu.Lock()
					defer mu.Unlock()
					if got[at] = item.String(); shutdown {
						got[at] = "end"
					}
				}()
			case word[0] == '+':
				q.Add(request(word[1:]))
			default:
				q.Done(request(word[1:]))
			}
			synctest.Wait()
		}
		snapshot = slices.Clone(got)
	})
	return snapshot
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name   string
		atOnce int
		script string
		want   string

		workers int // 0 means 100
	}{
		{name: "one namespace is a queue", atOnce: 0, script: "+a/1 +a/2 +a/3 ? ? ?", want: "a/1 a/2 a/3"},
		{name: "namespaces take turns", atOnce: 0, script: "+a/1 +a/2 +a/3 +a/4 +b/1 +c/1 +b/2 ? ? ? ? ? ? ?", want: "a/1 b/1 c/1 a/2 b/2 a/3 a/4"},
		{name: "who comes late is next but one", atOnce: 0, script: "+a/1 +a/2 +a/3 ? +b/1 ? ? ?", want: "a/1 a/2 b/1 a/3"},
		{name: "a request is there once", atOnce: 0, script: "+a/1 +a/1 +b/1 +a/1 ? ? ?", want: "a/1 b/1 ."},
		{name: "nobody works twice on a request", atOnce: 0, script: "+a/1 ? +a/1 ? -a/1", want: "a/1 a/1"},
		{name: "and it waits until the work on it ends", atOnce: 0, script: "+a/1 ? +a/1 ?", want: "a/1 ."},
		{name: "objects without a namespace are one", atOnce: 0, script: "+/1 +/2 +a/1 ? ? ?", want: "/1 a/1 /2"},
		{name: "no more at once", atOnce: 2, script: "+a/1 +a/2 +a/3 ? ? ?", want: "a/1 a/2 ."},
		{name: "others are", atOnce: 2, script: "+a/1 +a/2 +a/3 +b/1 ? ? ? ?", want: "a/1 b/1 a/2 ."},
		{name: "others are, also later", atOnce: 2, script: "+a/1 +a/2 +a/3 ? ? ? +b/1", want: "a/1 a/2 b/1"},
		{name: "until one is done", atOnce: 2, script: "+a/1 +a/2 +a/3 ? ? -a/1 ?", want: "a/1 a/2 a/3"},
		{name: "who waits keeps the turn", atOnce: 1, script: "+a/1 +a/2 ? +b/1 +b/2 ? -a/1 ? -b/1 ?", want: "a/1 b/1 a/2 b/2"},
		{name: "one that failed is in line again", atOnce: 1, script: "+a/1 +a/2 ? +a/1 -a/1 ? -a/2 ?", want: "a/1 a/2 a/1"},
		{name: "the end", atOnce: 1, script: "+a/1 ? shut ?", want: "a/1 end"},
		{name: "whose are not worked on come first", atOnce: 3, script: "+a/1 +a/2 ? +a/3 +b/1 ? ?", want: "a/1 b/1 a/2"},
		{name: "the last worker is for others", atOnce: 3, workers: 3, script: "+a/1 +a/2 +a/3 ? ? ?", want: "a/1 a/2 ."},
		{name: "who come", atOnce: 3, workers: 3, script: "+a/1 +a/2 +a/3 ? ? ? +b/1 +c/1", want: "a/1 a/2 b/1"},
		{name: "two slow namespaces, and a third", atOnce: 2, workers: 4, script: "+a/1 +a/2 +a/3 +b/1 +b/2 ? ? ? ? +c/1 +c/2 -c/1 ?", want: "a/1 b/1 a/2 c/1 c/2"},
		{name: "what waits for the last worker gets one that is done", atOnce: 2, workers: 3, script: "+a/1 +b/1 ? ? ? +a/2 +b/2 -a/1 ?", want: "a/1 b/1 . a/2"},
		{name: "one worker works", atOnce: 1, workers: 1, script: "+a/1 +b/1 ? -a/1 ?", want: "a/1 b/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			workers := tc.workers
			if workers == 0 {
				workers = 100
			}
			if diff := cmp.Diff(strings.Fields(tc.want), play(t, tc.atOnce, workers, tc.script)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLen(t *testing.T) {
	q := fairqueue.New(1, 2)("", none())
	defer q.ShutDown()
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		q.Add(request(key))
	}
	if _, _ = q.Get(); q.Len() != 2 {
		t.Errorf("%d wait, want 2", q.Len())
	}
}

// TestWorkers: workers that use the queue as a controller does process every request, never process a request twice
// at the same time, and never process more than atOnce requests of a namespace at the same time.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce, workers, namespaces, names, rounds = 2, 5, 4, 6, 50
		q := fairqueue.New(atOnce, workers)("", none())
		var mu sync.Mutex
		busy, of, passes := map[reconcile.Request]int{}, map[string]int{}, map[reconcile.Request]int{}
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						return
					}
					mu.Lock()
					busy[item]++
					of[item.Namespace]++
					passes[item]++
					if busy[item] > 1 || of[item.Namespace] > atOnce {
						t.Errorf("%v: %d at once, %d of its namespace", item, busy[item], of[item.Namespace])
					}
					mu.Unlock()
					time.Sleep(time.Duration(len(item.Name)+int(item.Name[0]%7)) * time.Millisecond) // in synctest's fake time
					mu.Lock()
					busy[item]--
					of[item.Namespace]--
					mu.Unlock()
					q.Done(item)
				}
			})
		}
		for round := range rounds {
			for i := range namespaces * names {
				if (i*7+round*3)%5 != 0 {
					q.Add(request(fmt.Sprintf("%d/%d", i%namespaces, i)))
				}
			}
			time.Sleep(time.Duration(round%9) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if q.Len() != 0 || len(passes) != namespaces*names {
			t.Errorf("%d wait, %d of %d requests were worked on", q.Len(), len(passes), namespaces*names)
		}
		q.ShutDown()
		group.Wait()
	})
}

// TestPerNamespace: objects that always fail delay only the retries of their own namespace.
func TestPerNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if wait := fairqueue.PerNamespace(nil).When(request("a/1")); wait > time.Second {
			t.Errorf("a first retry waits %v", wait)
		}
		made := 0
		limiter := fairqueue.PerNamespace(func() fairqueue.Limiter {
			made++
			return workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()
		})
		for i := range 1000 {
			limiter.When(request(fmt.Sprintf("bad/%d", i)))
		}
		if wait := limiter.When(request("bad/0")); wait < 10*time.Second {
			t.Errorf("after 1000 failures a retry of the same namespace waits %v", wait)
		}
		if wait := limiter.When(request("good/1")); wait > time.Second {
			t.Errorf("another namespace's first retry waits %v", wait)
		}
		if n := limiter.NumRequeues(request("bad/0")); n != 2 || limiter.NumRequeues(request("other/0")) != 0 {
			t.Errorf("%d retries, want 2", n)
		}
		// The limiter of a namespace without failing requests is removed, and the next failure gets a new limiter.
		limiter.When(request("good/2"))
		limiter.Forget(request("good/1"))
		limiter.Forget(request("good/1"))
		limiter.Forget(request("never/1"))
		if limiter.When(request("good/2")); made != 2 {
			t.Errorf("%d limiters were made, want 2", made)
		}
		limiter.Forget(request("good/2"))
		if limiter.When(request("good/2")); made != 3 {
			t.Errorf("%d limiters were made, want 3", made)
		}
	})
}

func BenchmarkQueue(b *testing.B) {
	for _, namespaces := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("%d namespaces", namespaces), func(b *testing.B) {
			requests := make([]reconcile.Request, 10_000)
			for i := range requests {
				requests[i] = request(fmt.Sprintf("%d/%d", i%namespaces, i))
			}
			q := fairqueue.New(3, 4)("", none())
			defer q.ShutDown()
			for b.Loop() {
				for _, item := range requests {
					q.Add(item)
				}
				for range requests {
					item, _ := q.Get()
					q.Done(item)
				}
			}
		})
	}
}
