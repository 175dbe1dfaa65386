package watchhealth_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
)

var kind = corev1.SchemeGroupVersion.WithKind("ConfigMap") //nolint:gochecknoglobals // never changed

// server simulates an API server with ConfigMaps. When the server closes its watches, older resourceVersions expire,
// as after a change of a CustomResourceDefinition.
type server struct {
	mu      sync.Mutex
	version int
	oldest  int // a watch from an older version is expired
	objects map[string]*corev1.ConfigMap
	watches []*watch.FakeWatcher
	failure error // the error of every request
	slow    time.Duration
	lists   atomic.Int32
}

func newServer() *server {
	return &server{version: 10, oldest: 10, objects: map[string]*corev1.ConfigMap{}}
}

func (s *server) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done(): // the test has ended
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists.Add(1)
	if s.failure != nil {
		return nil, s.failure
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

func (s *server) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return nil, s.failure
	}
	if from, err := strconv.Atoi(options.ResourceVersion); err != nil || from < s.oldest {
		return nil, apierrors.NewResourceExpired("too old resource version: " + options.ResourceVersion)
	}
	opened := watch.NewFakeWithChanSize(100, false)
	s.watches = append(s.watches, opened)
	return opened, nil
}

func (s *server) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s *server) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// write creates, changes or deletes an object.
func (s *server) write(name string, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	before, there := s.objects[name]
	after := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: strconv.Itoa(s.version)}}
	s.objects[name] = after
	event := watch.Added
	switch {
	case deleted:
		event, after = watch.Deleted, before.DeepCopy()
		after.ResourceVersion = strconv.Itoa(s.version)
		delete(s.objects, name)
	case there:
		event = watch.Modified
	}
	for _, opened := range s.watches {
		opened.Action(event, after)
	}
}

// close closes all watches, and makes all older resourceVersions expire.
func (s *server) close(failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure, s.oldest = failure, s.version+1
	s.version++
	for _, opened := range s.watches {
		opened.Stop()
	}
	s.watches = nil
}

func (s *server) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = nil
}

// presence is a Presence whose state a test sets.
type presence struct {
	mu      sync.Mutex
	state   watchhealth.State
	changed chan struct{}
}

func (p *presence) Of(schema.GroupVersionKind) (watchhealth.State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.changed
}

func (p *presence) set(state watchhealth.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	close(p.changed)
	p.changed = make(chan struct{})
}

// watched is an informer with the events of its handler.
type watched struct {
	*watchhealth.Watches

	informer toolscache.SharedIndexInformer

	mu   sync.Mutex
	told []string
}

func (c *watched) names() []string {
	var names []string
	for _, object := range c.informer.GetIndexer().List() {
		names = append(names, object.(*corev1.ConfigMap).Name)
	}
	slices.Sort(names)
	return names
}

func (c *watched) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	c.told = nil
	slices.Sort(told)
	return told
}

func (c *watched) tell(what string, object any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, what+" "+object.(*corev1.ConfigMap).Name)
}

// await calls Await with a deadline.
func (c *watched) await(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return c.Await(ctx, kind)
}

// run runs an informer on a server until the test ends.
func run(t *testing.T, s *server, p watchhealth.Presence) *watched {
	t.Helper()
	watches, err := watchhealth.New(watchhealth.Options{Scheme: scheme.Scheme, Kinds: []schema.GroupVersionKind{kind}, Presence: p})
	if err != nil {
		t.Fatal(err)
	}
	c := &watched{Watches: watches}
	c.informer = watches.NewInformer(s, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	if _, err := c.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { c.tell("added", o) }, UpdateFunc: func(_, o any) { c.tell("updated", o) }, DeleteFunc: func(o any) { c.tell("deleted", o) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.informer.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// filled returns a server without objects, and an informer that has received its first list.
func filled(t *testing.T) (*server, *watched) {
	t.Helper()
	s := newServer()
	c := run(t, s, nil)
	if err := c.await(time.Second); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// TestClosedWatchIsOpenedAgainWithinASecond: a watch that the API server closes is open again within a second.
// client-go's own reflector would double its wait with each closed watch, up to a minute.
func TestClosedWatchIsOpenedAgainWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.write("first", false)
		c := run(t, s, nil)
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			name := fmt.Sprint("object-", i)
			s.close(nil)
			synctest.Wait() // until the informer has noticed the close
			s.write(name, false)
			if err := c.await(time.Second); err != nil {
				t.Fatalf("after the watch was closed %d times: %v", i+1, err)
			}
			if !slices.Contains(c.names(), name) {
				t.Fatalf("the cache is said to be current, and lacks %s", name)
			}
		}
	})
}

func TestMissedChangesAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, name := range []string{"stays", "changes", "goes", "comes-back"} {
			s.write(name, false)
		}
		c := run(t, s, nil)
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.take()
		s.close(errors.New("no answer"))
		s.write("changes", false)
		s.write("goes", true)
		s.write("comes-back", true)
		s.write("comes-back", false)
		s.write("comes", false)
		time.Sleep(5 * time.Second)
		if err := c.await(10 * time.Millisecond); err == nil {
			t.Fatal("the cache is said to be current while nothing can be read")
		}
		s.heal()
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"added comes", "deleted goes", "updated changes", "updated comes-back"}
		if diff := cmp.Diff(want, c.take()); diff != "" {
			t.Errorf("the handler was told (-want +got):\n%s", diff)
		}
		progress := c.informer.GetIndexer().LastStoreSyncResourceVersion()
		if want := strconv.Itoa(s.version); progress != want {
			t.Errorf("the store is at %s, want %s", progress, want)
		}
		s.write("later", false)
		synctest.Wait()
		if diff := cmp.Diff([]string{"added later"}, c.take()); diff != "" {
			t.Errorf("after that (-want +got):\n%s", diff)
		}
	})
}

// TestClosedWatchOfAMinuteAgo: after each watch that lasted long enough, the waits begin again with the shortest
// wait. The time since the first closed watch does not count.
func TestClosedWatchOfAMinuteAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := filled(t)
		for range 20 {
			time.Sleep(time.Minute)
			s.close(errors.New("no answer"))
			time.Sleep(50 * time.Millisecond)
			s.heal()
			if err := c.await(time.Second); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestErrorsAreFollowedByAList: after a watch that ends with an error, the objects are listed again, because the
// watch may have missed events even if its resourceVersion has not expired.
func TestErrorsAreFollowedByAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := filled(t)
		time.Sleep(time.Minute) // a watch that has lasted is opened again without a list, unless an error ends it
		s.mu.Lock()
		opened := s.watches
		s.watches = nil
		s.mu.Unlock()
		s.write("missed", false)
		status := apierrors.NewInternalError(errors.New("the stream broke")).Status()
		opened[0].Action(watch.Error, &status)
		synctest.Wait()
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"missed"}, c.names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestWatchThatEndsInItsTimeIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := filled(t)
		time.Sleep(5 * time.Minute)
		before := s.lists.Load()
		s.mu.Lock()
		for _, opened := range s.watches {
			opened.Stop()
		}
		s.watches = nil
		s.mu.Unlock()
		synctest.Wait()
		s.write("later", false)
		synctest.Wait()
		if diff := cmp.Diff([]string{"later"}, c.names()); diff != "" || s.lists.Load() != before {
			t.Errorf("%d lists (-want +got):\n%s", s.lists.Load()-before, diff)
		}
	})
}

func TestDownIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := filled(t)
		if down := c.Down(); len(down) != 0 {
			t.Errorf("down: %v", down)
		}
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no right"))
		s.close(refused)
		time.Sleep(3 * time.Second)
		down := c.Down()
		if len(down) != 1 || !errors.Is(down[0].Err, refused) || down[0].Kind != kind || time.Since(down[0].Since).Round(time.Second) != 3*time.Second {
			t.Errorf("down: %+v", down)
		}
		if err := c.await(time.Second); !errors.Is(err, watchhealth.WatchDown) {
			t.Errorf("await: %v", err)
		}
	})
}

func TestKindThatComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newServer(), &presence{state: watchhealth.Absent, changed: make(chan struct{})}
		notFound := apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: "configmaps"}, "", "", 0, false)
		s.close(notFound)
		c := run(t, s, p)
		if err := c.await(time.Second); err != nil || !c.informer.HasSynced() || s.lists.Load() != 0 {
			t.Fatalf("a kind that is absent: %v, synced %t, %d lists", err, c.informer.HasSynced(), s.lists.Load())
		}
		p.set(watchhealth.Served)
		if err := c.await(10 * time.Millisecond); err == nil {
			t.Fatal("it is there, was not listed, and is said to be current")
		}
		s.heal()
		s.write("early", false)
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		s.write("late", false)
		synctest.Wait()
		if diff := cmp.Diff([]string{"early", "late"}, c.names()); diff != "" {
			t.Errorf("after it came (-want +got):\n%s", diff)
		}
		s.close(notFound) // before any event about the deletion of the kind's objects
		p.set(watchhealth.Absent)
		s.mu.Lock()
		clear(s.objects)
		s.mu.Unlock()
		time.Sleep(time.Hour)
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		if names := c.names(); len(names) > 0 {
			t.Errorf("a kind that is absent has %v", names)
		}
		lists := s.lists.Load()
		time.Sleep(time.Hour)
		if s.lists.Load() != lists {
			t.Errorf("%d lists of a kind that is absent", s.lists.Load()-lists)
		}
		s.heal()
		s.write("new", false)
		p.set(watchhealth.Served)
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"new"}, c.names()); diff != "" {
			t.Errorf("after it came again (-want +got):\n%s", diff)
		}
	})
}

// TestUnknownKindIsNotTakenForAbsent: requests are sent for a kind in state Unknown, so a short outage of the API
// server does not make a kind count as absent.
func TestUnknownKindIsNotTakenForAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newServer(), &presence{changed: make(chan struct{})}
		s.close(apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: "configmaps"}, "", "", 0, false))
		c := run(t, s, p)
		// HasSynced must not wait for the kind, because a manager waits for all caches. But Await must wait.
		if err := c.await(time.Minute); err == nil || !c.informer.HasSynced() {
			t.Errorf("await: %v, synced %t", err, c.informer.HasSynced())
		}
		s.heal()
		s.write("late", false)
		if err := c.await(31 * time.Second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"late"}, c.names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestUnknownKindIsListedFirst: as long as the state of a kind is Unknown, an empty cache does not count as synced.
func TestUnknownKindIsListedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newServer(), &presence{changed: make(chan struct{})}
		s.close(errors.New("no answer"))
		c := run(t, s, p)
		if err := c.await(time.Minute); err == nil || c.informer.HasSynced() {
			t.Errorf("await: %v, synced %t", err, c.informer.HasSynced())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, p := newServer(), &presence{state: watchhealth.Absent, changed: make(chan struct{})}
		c := run(t, s, p)
		if err := c.await(time.Second); err != nil {
			t.Fatal(err)
		}
		s.close(errors.New("no answer"))
		p.set(watchhealth.Unknown)
		if err := c.await(time.Second); err == nil {
			t.Error("a kind that may have come counts as absent")
		}
	})
}

func TestRestsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := filled(t)
		s.close(errors.New("no answer"))
		at := map[time.Duration]int32{}
		for _, d := range []time.Duration{10 * time.Second, time.Minute, time.Hour} {
			before := s.lists.Load()
			time.Sleep(d)
			at[d] = s.lists.Load() - before
		}
		if at[10*time.Second] < 15 || at[time.Minute] > 40 || at[time.Hour] > 200 {
			t.Errorf("attempts: %v", at)
		}
	})
}

// TestSlowListsRestToo: the waits between attempts grow even if each failed list takes a long time.
func TestSlowListsRestToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := filled(t)
		s.mu.Lock()
		s.slow = 2 * time.Second
		s.mu.Unlock()
		s.close(errors.New("no answer"))
		time.Sleep(time.Hour)
		before := s.lists.Load()
		time.Sleep(time.Hour)
		if n := s.lists.Load() - before; n > 150 {
			t.Errorf("%d lists in the second hour", n)
		}
	})
}

func TestOthersHaveClientGosOwn(t *testing.T) {
	watches, err := watchhealth.New(watchhealth.Options{Scheme: scheme.Scheme, Kinds: []schema.GroupVersionKind{kind}})
	if err != nil {
		t.Fatal(err)
	}
	watches.NewInformer(newServer(), &corev1.Secret{}, 0, toolscache.Indexers{})
	for _, unwatched := range []schema.GroupVersionKind{kind, corev1.SchemeGroupVersion.WithKind("Secret")} {
		if err := watches.Await(t.Context(), unwatched); !errors.Is(err, watchhealth.NotWatched) {
			t.Errorf("%s: %v", unwatched.Kind, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, options := range map[string]watchhealth.Options{
		"no scheme": {Kinds: []schema.GroupVersionKind{kind}},
		"no kinds":  {Scheme: scheme.Scheme},
	} {
		if _, err := watchhealth.New(options); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
