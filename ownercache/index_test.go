package ownercache_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
)

// controlledBy returns references with the owner as controller; an empty UID for none.
func controlledBy(owner types.UID) []metav1.OwnerReference {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "not a controller"}
	if owner == "" {
		return []metav1.OwnerReference{other}
	}
	return []metav1.OwnerReference{other, {APIVersion: "example.com/v1", Kind: "Web", Name: "web-" + string(owner), UID: owner, Controller: ptr.To(true)}}
}

func newPod(namespace, name string, owner types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), OwnerReferences: controlledBy(owner),
	}}
}

func names(pods []*corev1.Pod) []string {
	out := []string{}
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	slices.Sort(out)
	return out
}

func Example() {
	source := fcache.NewFakeControllerSource()
	defer source.Shutdown()
	source.Add(newPod("default", "web-0", "owner-uid"))
	source.Add(newPod("default", "other-0", "another"))
	informer := toolscache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, toolscache.Indexers{})
	pods, err := ownercache.IndexOf[*corev1.Pod](informer)
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := make(chan struct{})
	defer close(stop)
	go informer.Run(stop)
	toolscache.WaitForCacheSync(stop, pods.HasSynced)

	for _, pod := range pods.Of("default", "owner-uid") {
		fmt.Println(pod.Name)
	}
	// Output: web-0
}

// run calls a test, in a synctest bubble, with an index whose informer watches the source. settle waits until the
// informer has processed all events.
func run(t *testing.T, test func(t *testing.T, source *fcache.FakeControllerSource, informer toolscache.SharedIndexInformer, pods *ownercache.Index[*corev1.Pod], settle func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		source := fcache.NewFakeControllerSource()
		informer := toolscache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, toolscache.Indexers{})
		pods, err := ownercache.IndexOf[*corev1.Pod](informer)
		if err != nil {
			t.Fatal(err)
		}
		if pods.HasSynced() || pods.LastStoreSyncResourceVersion() != "" {
			t.Errorf("before it runs: synced %v, at %q", pods.HasSynced(), pods.LastStoreSyncResourceVersion())
		}
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() { informer.Run(stop); close(done) }()
		synctest.Wait()
		if !pods.HasSynced() {
			t.Fatal("the informer does not sync")
		}
		test(t, source, informer, pods, synctest.Wait)
		close(stop)
		<-done
		source.Shutdown()
	})
}

func TestIndexFollowsTheStore(t *testing.T) {
	run(t, func(t *testing.T, source *fcache.FakeControllerSource, _ toolscache.SharedIndexInformer, pods *ownercache.Index[*corev1.Pod], settle func()) {
		a, b, free := newPod("ns", "a", "u1"), newPod("ns", "b", "u1"), newPod("ns", "free", "")
		type view struct{ U1, U2, Orphans, OrphansElsewhere []string }
		check := func(after string, want view) {
			t.Helper()
			settle()
			got := view{names(pods.Of("ns", "u1")), names(pods.Of("ns", "u2")), names(pods.Orphans("ns")), names(pods.Orphans("elsewhere"))}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", after, diff)
			}
		}
		source.Add(a.DeepCopy())
		source.Add(b.DeepCopy())
		source.Add(free.DeepCopy())
		check("adds", view{[]string{"a", "b"}, []string{}, []string{"free"}, []string{}})
		b.OwnerReferences = controlledBy("u2")
		source.Modify(b.DeepCopy())
		check("another owner", view{[]string{"a"}, []string{"b"}, []string{"free"}, []string{}})
		b.OwnerReferences = controlledBy("")
		source.Modify(b.DeepCopy())
		check("a release", view{[]string{"a"}, []string{}, []string{"b", "free"}, []string{}})
		free.OwnerReferences = controlledBy("u2")
		source.Modify(free.DeepCopy())
		check("an adoption", view{[]string{"a"}, []string{"free"}, []string{"b"}, []string{}})
		source.Delete(a)
		source.Add(newPod("elsewhere", "c", ""))
		check("a deletion", view{[]string{}, []string{"free"}, []string{"b"}, []string{"c"}})
	})
}

func TestLookups(t *testing.T) {
	run(t, func(t *testing.T, source *fcache.FakeControllerSource, informer toolscache.SharedIndexInformer, pods *ownercache.Index[*corev1.Pod], settle func()) {
		pod := newPod("ns", "a", "u1")
		source.Add(pod.DeepCopy())
		settle()
		stored, _, err := informer.GetStore().GetByKey("ns/a")
		if err != nil {
			t.Fatal(err)
		}
		byName, ok := pods.Get("ns", "a")
		byUID, okUID := pods.ByUID("uid-a")
		if of := pods.Of("ns", "u1"); !ok || !okUID || len(of) != 1 || of[0] != stored || byName != stored || byUID != stored {
			t.Error("a lookup copies, or finds another object than the store's")
		}
		if of := pods.Of("elsewhere", "u1"); len(of) != 0 {
			t.Errorf("%d objects of another namespace", len(of))
		}
		if first, second := pods.Of("", "u1"), pods.Of("ns", "u1"); &first[0] == &second[0] {
			t.Error("two callers share one slice")
		}
		if !pods.IsPresent("uid-a") {
			t.Error("a Pod that is not terminating is not live")
		}
		want := map[types.UID]string{"uid-a": byName.ResourceVersion}
		if diff := cmp.Diff(want, pods.Versions(nil)); diff != "" {
			t.Errorf("versions of all (-want +got):\n%s", diff)
		}
		if got := pods.Versions(func(obj metav1.Object) bool { return obj.GetName() != "a" }); len(got) != 0 {
			t.Errorf("versions of others: %v", got)
		}
		if _, ok := pods.Get("ns", "none"); ok {
			t.Error("Get finds a Pod that is not there")
		}
		if _, ok := pods.Get("", "a"); ok {
			t.Error("Get does not look at the namespace")
		}
		if _, ok := pods.ByUID("none"); ok || pods.IsPresent("none") {
			t.Error("ByUID finds a Pod that is not there")
		}
		pod.DeletionTimestamp = ptr.To(metav1.Now())
		source.Modify(pod.DeepCopy())
		settle()
		if _, ok := pods.ByUID("uid-a"); !ok || pods.IsPresent("uid-a") {
			t.Error("a terminating Pod is live, or not found")
		}
		// After another Pod has taken the name, ByUID does not find the first Pod.
		successor := newPod("ns", "a", "u1")
		successor.UID = "uid-a2"
		source.Delete(pod)
		source.Add(successor)
		settle()
		if _, ok := pods.ByUID("uid-a"); ok || !pods.IsPresent("uid-a2") {
			t.Error("the successor is taken for the first Pod")
		}
	})
}

// TestAll: All returns all objects of the store, of every namespace and owner.
func TestAll(t *testing.T) {
	run(t, func(t *testing.T, source *fcache.FakeControllerSource, informer toolscache.SharedIndexInformer, pods *ownercache.Index[*corev1.Pod], settle func()) {
		if all := pods.All(); len(all) > 0 {
			t.Errorf("an empty store has %q", names(all))
		}
		for _, pod := range []*corev1.Pod{newPod("ns", "a", "u1"), newPod("elsewhere", "b", "u2"), newPod("", "c", "")} {
			source.Add(pod)
		}
		settle()
		if diff := cmp.Diff([]string{"a", "b", "c"}, names(pods.All())); diff != "" {
			t.Errorf("All (-want +got):\n%s", diff)
		}
		source.Delete(newPod("ns", "a", "u1"))
		settle()
		all := pods.All()
		if diff := cmp.Diff([]string{"b", "c"}, names(all)); diff != "" {
			t.Errorf("All after a deletion (-want +got):\n%s", diff)
		}
		for _, pod := range all {
			if stored, _, err := informer.GetStore().Get(pod); err != nil || stored != pod {
				t.Errorf("Pod %s is not the object of the store, %v", pod.Name, err)
			}
		}
		all[0] = nil // the slice is the caller's
		if again := pods.All(); len(again) != 2 || again[0] == nil || again[1] == nil {
			t.Error("two callers share one slice")
		}
	})
}

func TestStoreProgress(t *testing.T) {
	run(t, func(t *testing.T, source *fcache.FakeControllerSource, _ toolscache.SharedIndexInformer, pods *ownercache.Index[*corev1.Pod], settle func()) {
		last := 0
		for i := range 3 {
			source.Add(newPod("ns", fmt.Sprint("p", i), "u1"))
			settle()
			at, err := strconv.Atoi(pods.LastStoreSyncResourceVersion())
			newest, ok := pods.Get("ns", fmt.Sprint("p", i))
			if err != nil || !ok || at <= last || strconv.Itoa(at) != newest.ResourceVersion {
				t.Errorf("after Pod %d the store is at %d, %v; was %d", i, at, err, last)
			}
			last = at
		}
	})
}

func TestForSharesTheIndex(t *testing.T) {
	informer := toolscache.NewSharedIndexInformer(fcache.NewFakeControllerSource(), &corev1.Pod{}, 0, toolscache.Indexers{})
	for range 2 {
		if _, err := ownercache.IndexOf[*corev1.Pod](informer); err != nil {
			t.Error(err)
		}
	}
	if n := len(informer.GetIndexer().GetIndexers()); n != 2 {
		t.Errorf("%d indexes, want one by owner and one by UID", n)
	}
}

// TestAddRefusesTakenNames: Add refuses a name that is used already, because By would use the index of another
// package.
func TestAddRefusesTakenNames(t *testing.T) {
	informer := toolscache.NewSharedIndexInformer(fcache.NewFakeControllerSource(), &corev1.Pod{}, 0, toolscache.Indexers{})
	x, err := ownercache.IndexOf[*corev1.Pod](informer)
	if err != nil {
		t.Fatal(err)
	}
	byNode := func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }
	if err := x.Add("example.test/node", byNode); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"example.test/node", ""} {
		if err := x.Add(name, byNode); err == nil || !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("Add(%q) = %v, want an error that names it", name, err)
		}
	}
}

// newCache returns a cache that is never started, and so sends no requests.
func newCache(t *testing.T, options cache.Options) cache.Cache {
	t.Helper()
	options.Scheme = runtime.NewScheme()
	if err := corev1.AddToScheme(options.Scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	options.Mapper, options.HTTPClient = mapper, http.DefaultClient
	c, err := cache.New(&rest.Config{Host: "127.0.0.1:1"}, options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewNeedsOneStore(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options cache.Options
		ok      bool
	}{
		{"all namespaces", cache.Options{}, true},
		{"one namespace by a selector", cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Field: fields.OneTermEqualSelector("metadata.namespace", "a")},
		}}, true},
		{"a list of one namespace", cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}}, false},
		{"two namespaces", cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			index, err := ownercache.NewIndex(t.Context(), newCache(t, tc.options), &corev1.Pod{})
			if (err == nil) != tc.ok || (index != nil) != tc.ok {
				t.Errorf("New = %v, %v", index, err)
			}
		})
	}
	if _, err := ownercache.NewIndex(t.Context(), newCache(t, cache.Options{}), &metav1.PartialObjectMetadata{}); err == nil {
		t.Error("New accepts an object without a kind")
	}
}

// woken returns the names of the owners that an event enqueues.
func woken(send func(handler.EventHandler, workqueue.TypedRateLimitingInterface[reconcile.Request])) []string {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	send(ownercache.EnqueueController(schema.GroupKind{Group: "example.com", Kind: "Web"}), q)
	out := []string{}
	for q.Len() > 0 {
		request, _ := q.Get()
		out = append(out, request.String())
		q.Done(request)
	}
	slices.Sort(out)
	return out
}

func TestEnqueueController(t *testing.T) {
	ctx := t.Context
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	update := func(before, after *corev1.Pod) func(handler.EventHandler, queue) {
		return func(h handler.EventHandler, q queue) {
			h.Update(ctx(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	create := func(pod *corev1.Pod) func(handler.EventHandler, queue) {
		return func(h handler.EventHandler, q queue) { h.Create(ctx(), event.CreateEvent{Object: pod}, q) }
	}
	remove := func(pod *corev1.Pod) func(handler.EventHandler, queue) {
		return func(h handler.EventHandler, q queue) { h.Delete(ctx(), event.DeleteEvent{Object: pod}, q) }
	}
	with := func(apiVersion, kind string) *corev1.Pod {
		pod := newPod("ns", "a", "u1")
		pod.OwnerReferences[1].APIVersion, pod.OwnerReferences[1].Kind = apiVersion, kind
		return pod
	}
	one, two, none := newPod("ns", "a", "u1"), newPod("ns", "a", "u2"), newPod("ns", "a", "")
	for _, tc := range []struct {
		name string
		send func(handler.EventHandler, queue)
		want []string
	}{
		{"created", create(one), []string{"ns/web-u1"}},
		{"deleted", remove(one), []string{"ns/web-u1"}},
		{"updated", update(one, one), []string{"ns/web-u1"}},
		{"no controller", create(none), []string{}},
		{"D-27 through an older API version", create(with("example.com/v1alpha1", "Web")), []string{"ns/web-u1"}},
		{"another group", create(with("other.com/v1", "Web")), []string{}},
		{"no group", create(with("v1", "Web")), []string{}},
		{"another kind", create(with("example.com/v1", "Api")), []string{}},
		{"not an API version", create(with("a/b/c", "Web")), []string{}},
		{"another owner wakes both", update(one, two), []string{"ns/web-u1", "ns/web-u2"}},
		{"adopted", update(none, one), []string{"ns/web-u1"}},
		{"released", update(one, none), []string{"ns/web-u1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, woken(tc.send)); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

func BenchmarkOf(b *testing.B) {
	informer := toolscache.NewSharedIndexInformer(fcache.NewFakeControllerSource(), &corev1.Pod{}, 0, toolscache.Indexers{})
	pods, err := ownercache.IndexOf[*corev1.Pod](informer)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 50_000 {
		owner := types.UID("u0")
		if i >= 10_000 {
			owner = types.UID(fmt.Sprint("u", 1+i%100))
		}
		if err := informer.GetIndexer().Add(newPod("ns", fmt.Sprint("p", i), owner)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(pods.Of("", "u0")); n != 10_000 {
			b.Fatal(n)
		}
	}
}
