package watchhealth_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
)

// remembering simulates an API server with a watch cache: a watch that starts at an older resourceVersion gets all
// events since this version. If flapping is true, the server closes every watch soon after the watch was opened.
type remembering struct {
	mu       sync.Mutex
	flapping bool
	history  []*corev1.ConfigMap
	delay    time.Duration // from a watch to its first event
	opened   int
	last     *watch.FakeWatcher
}

func (s *remembering) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(10 + len(s.history))}}
	for _, o := range s.history {
		list.Items = append(list.Items, *o)
	}
	return list, nil
}

func (s *remembering) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _ := strconv.Atoi(options.ResourceVersion)
	w := watch.NewFakeWithChanSize(100, false)
	s.opened++
	s.last = w
	if s.flapping {
		time.AfterFunc(10*time.Millisecond, w.Stop) // closed without an error
		return w, nil
	}
	missed := s.history[from-10:]
	time.AfterFunc(s.delay, func() {
		for _, o := range missed {
			w.Add(o)
		}
	})
	return w, nil
}

func (s *remembering) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s *remembering) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// watchesOf returns Watches for ConfigMaps.
func watchesOf(t *testing.T) *watchhealth.Watches {
	t.Helper()
	watches, err := watchhealth.New(watchhealth.Options{Scheme: scheme.Scheme, Kinds: []schema.GroupVersionKind{kind}})
	if err != nil {
		t.Fatal(err)
	}
	return watches
}

// follow runs an informer on a server until the test ends.
func follow(t *testing.T, watches *watchhealth.Watches, s toolscache.ListerWatcher) (toolscache.SharedIndexInformer, context.Context) {
	t.Helper()
	informer := watches.NewInformer(s, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return informer, ctx
}

// TestAwaitAfterARest: if the API server closes watches soon after their start, the informer waits before the next
// watch. Events from the time of this wait are in the cache before Await returns.
func TestAwaitAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &remembering{flapping: true, delay: 20 * time.Millisecond}
		watches := watchesOf(t)
		informer, ctx := follow(t, watches, s)
		time.Sleep(5 * time.Minute) // every watch is closed after 10 ms, so attempts are now 30 s apart
		for {                       // until a wait begins
			s.mu.Lock()
			n := s.opened
			s.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			s.mu.Lock()
			if s.opened > n {
				break
			}
			s.mu.Unlock()
		}
		s.flapping = false
		s.mu.Unlock()
		time.Sleep(time.Second)
		wrote := time.Now()
		s.mu.Lock()
		s.history = append(s.history, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "budget", ResourceVersion: "11"}})
		s.mu.Unlock()
		if len(watches.Down()) != 1 {
			t.Fatal("expected the watch to be down")
		}
		if err := watches.Await(ctx, kind); err != nil {
			t.Fatal(err)
		}
		if _, there, _ := informer.GetIndexer().GetByKey("ns/budget"); !there {
			t.Errorf("the cache lacks an object of %v ago", time.Since(wrote))
		}
	})
}

// lagging simulates an API server whose watch cache is stale. Such a server answers a list at resourceVersion 0 from
// the stale watch cache (ShouldDelegateList in apiserver/pkg/storage/cacher/delegator/interface.go), and sends the
// missing events later. A reflector's first list has resourceVersion 0. A list without a resourceVersion is
// consistent.
type lagging struct{ remembering }

func (s *lagging) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}}, nil
	}
	return s.remembering.ListWithContext(ctx, options)
}

func (s *lagging) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// TestAwaitAfterTheStart: objects from before the start of the process are in the cache before Await returns.
func TestAwaitAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lagging{remembering{delay: time.Second}}
		s.history = []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "budget", ResourceVersion: "11"}}} // written before the start
		watches := watchesOf(t)
		informer, ctx := follow(t, watches, s)
		if err := watches.Await(ctx, kind); err != nil {
			t.Fatal(err)
		}
		if _, there, _ := informer.GetIndexer().GetByKey("ns/budget"); !there {
			t.Error("the cache lacks an object from before the start")
		}
	})
}
