package faultapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

const pods, claims = "pods", "persistentvolumeclaims"

// stage is the setup of a test: a server, a client of a user, and a cache. The first change has the resourceVersion
// 91.
type stage struct {
	t      *testing.T
	server *faultapi.Server
	user   *faultapi.Client
	cache  *faultapi.Cache
}

func newStage(t *testing.T, kinds ...client.Object) *stage {
	t.Helper()
	server, err := faultapi.New(newScheme(t), func() time.Time { return time.Unix(1000, 0) }, append(kinds, &thing{})...)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t: t, server: server, user: server.Client(nil, nil), cache: server.Cache(nil)}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func named(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	return pod
}

// step is an action of a test. The result is a report, or "".
type step func(s *stage) string

func create(name string) step {
	return func(s *stage) string { s.must(s.user.Create(s.t.Context(), named(name))); return "" }
}

func createClaim(name string) step {
	return func(s *stage) string {
		s.must(s.user.Create(s.t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
		return ""
	}
}

func relabel(name, value string) step {
	return func(s *stage) string {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"`+value+`"}}}`))
		s.must(s.user.Patch(s.t.Context(), named(name), patch))
		return ""
	}
}

func remove(name string) step {
	return func(s *stage) string { s.must(s.user.Delete(s.t.Context(), named(name))); return "" }
}

func deliver(resource string, n int) step {
	return func(s *stage) string { return tell(s.cache.Deliver(resource, n)) }
}

func relist(resource string) step {
	return func(s *stage) string { return "relist " + tell(s.cache.Relist(resource)) }
}

func bookmark(resource string) step {
	return func(s *stage) string { return fmt.Sprint("bookmark ", s.cache.Bookmark(resource)) }
}

func restart(lag int) step {
	return func(s *stage) string {
		s.cache = s.server.Cache(func(resource string, _ int) int { return map[string]int{pods: lag}[resource] })
		told := s.listen(true)
		s.cache.Announce()
		return strings.Join(*told, ", ")
	}
}

// listen adds an event handler for Pods. The handler records all events after the first list, or, if first is true,
// the first list itself.
func (s *stage) listen(first bool) *[]string {
	s.t.Helper()
	informer, err := s.cache.GetInformer(s.t.Context(), &corev1.Pod{})
	s.must(err)
	told := &[]string{}
	note := func(deltas ...faultapi.Delta) { *told = append(*told, tell(deltas)) }
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isFirst bool) {
			if isFirst == first {
				note(faultapi.Delta{Type: watch.Added, New: obj.(client.Object)})
			}
		},
		UpdateFunc: func(old, obj any) {
			note(faultapi.Delta{Type: watch.Modified, Old: old.(client.Object), New: obj.(client.Object)})
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				*told = append(*told, "state unknown of "+unknown.Key)
				return
			}
			note(faultapi.Delta{Type: watch.Deleted, Old: obj.(client.Object)})
		},
	})
	s.must(err)
	return told
}

// tell returns the deltas as text, with the versions of their objects: type name old>new.
func tell(deltas []faultapi.Delta) string {
	var parts []string
	for _, d := range deltas {
		name, old, now := "", "-", "-"
		if d.Old != nil {
			name, old = d.Old.GetName(), d.Old.GetResourceVersion()
		}
		if d.New != nil {
			name, now = d.New.GetName(), d.New.GetResourceVersion()
		}
		parts = append(parts, fmt.Sprintf("%s %s %s>%s", d.Type, name, old, now))
	}
	return strings.Join(parts, ", ")
}

// holds returns a step that reports the contents of a store, its version, and the number of undelivered events.
func holds(resource string) step {
	return func(s *stage) string {
		obj := map[string]client.Object{pods: &corev1.Pod{}, claims: &corev1.PersistentVolumeClaim{}}[resource]
		informer, err := s.cache.GetInformer(s.t.Context(), obj)
		s.must(err)
		store := informer.(cache.SharedIndexInformer).GetStore()
		var names []string
		for _, item := range store.List() {
			names = append(names, item.(client.Object).GetName()+"@"+item.(client.Object).GetResourceVersion())
		}
		return fmt.Sprintf("holds %v at %s, %d behind", names, store.LastStoreSyncResourceVersion(), s.cache.Behind(resource))
	}
}

// TestCacheDoesWhatInformersDo: each resource of a cache can be stale by a different amount, and a relist may skip
// events. A resource never returns to an older state, and its events stay in order.
func TestCacheDoesWhatInformersDo(t *testing.T) {
	for _, tc := range slices.Concat(deliveries(), relists(), firstLists()) {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t)
			var got []string
			for _, do := range tc.steps {
				if said := do(s); said != "" {
					got = append(got, said)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("what happened (-want +got):\n%s", diff)
			}
			if altered := s.cache.Altered(); altered != "" {
				t.Errorf("altered: %s", altered)
			}
		})
	}
}

// story is a sequence of steps with the expected reports of the steps.
type story struct {
	name  string
	steps []step
	want  []string
}

func deliveries() []story {
	return []story{
		{"nothing is shown before it is delivered", []step{create("a"), holds(pods)}, []string{"holds [] at 90, 1 behind"}},
		{
			"events come one by one and in their order",
			[]step{create("b"), relabel("b", "1"), create("a"), deliver(pods, 1), holds(pods), deliver(pods, 1), holds(pods), deliver(pods, 5), holds(pods), deliver(pods, 5)},
			[]string{"ADDED b ->91", "holds [b@91] at 91, 2 behind", "MODIFIED b 91>92", "holds [b@92] at 92, 1 behind", "ADDED a ->93", "holds [a@93 b@92] at 93, 0 behind"},
		},
		{
			"none of no events", []step{create("a"), deliver(pods, 0), deliver(pods, -1), holds(pods)}, []string{"holds [] at 90, 1 behind"},
		},
		{
			"resources progress each by itself",
			[]step{create("a"), createClaim("c"), create("b"), deliver(claims, 9), holds(claims), holds(pods)},
			[]string{"ADDED c ->92", "holds [c@92] at 92, 0 behind", "holds [] at 90, 2 behind"},
		},
		{
			"a deletion moves the progress to its own version",
			[]step{create("a"), remove("a"), deliver(pods, 9), holds(pods)},
			[]string{"ADDED a ->91, MODIFIED a 91>92, DELETED a 93>-", "holds [] at 93, 0 behind"},
		},
		{
			"a bookmark comes when nothing is outstanding, with the version of all resources",
			[]step{create("a"), createClaim("c"), createClaim("d"), bookmark(pods), holds(pods), deliver(pods, 1), holds(pods), bookmark(pods), holds(pods)},
			[]string{"bookmark false", "holds [] at 90, 1 behind", "ADDED a ->91", "holds [a@91] at 91, 0 behind", "bookmark true", "holds [a@91] at 93, 0 behind"},
		},
		{
			"a bookmark is not forgotten with the next event",
			[]step{create("a"), createClaim("c"), deliver(pods, 1), bookmark(pods), create("b"), holds(pods), deliver(pods, 1), holds(pods)},
			[]string{"ADDED a ->91", "bookmark true", "holds [a@91] at 92, 1 behind", "ADDED b ->93", "holds [a@91 b@93] at 93, 0 behind"},
		},
	}
}

func relists() []story {
	return []story{
		{
			"a relist skips what came and went",
			[]step{create("a"), create("b"), remove("b"), createClaim("c"), relist(pods), holds(pods)},
			[]string{"relist ADDED a ->91", "holds [a@91] at 95, 0 behind"},
		},
		{
			"a relist shows several changes as one",
			[]step{create("a"), deliver(pods, 1), relabel("a", "1"), relabel("a", "2"), relist(pods)},
			[]string{"ADDED a ->91", "relist MODIFIED a 91>93"},
		},
		{
			"a relist shows a successor as an update",
			[]step{create("a"), deliver(pods, 1), remove("a"), create("a"), relist(pods)},
			[]string{"ADDED a ->91", "relist MODIFIED a 91>94"},
		},
		{
			"a relist shows a deletion with what was known last",
			[]step{create("a"), create("b"), deliver(pods, 2), relabel("a", "1"), remove("a"), relist(pods), holds(pods)},
			[]string{"ADDED a ->91, ADDED b ->92", "relist DELETED a 91>-", "holds [b@92] at 95, 0 behind"},
		},
		{
			"a relist tells of all in the order of names",
			[]step{create("a"), create("b"), create("c"), deliver(pods, 3), remove("c"), remove("a"), relabel("b", "1"), relist(pods)},
			[]string{"ADDED a ->91, ADDED b ->92, ADDED c ->93", "relist DELETED a 91>-, MODIFIED b 92>98, DELETED c 93>-"},
		},
		{
			"a relist says nothing about what is known",
			[]step{create("a"), deliver(pods, 1), relist(pods), deliver(pods, 9)},
			[]string{"ADDED a ->91", "relist "},
		},
	}
}

func firstLists() []story {
	return []story{
		{
			"the first list may be late, and goes on from there",
			[]step{create("a"), relabel("a", "1"), create("b"), restart(2), holds(pods), deliver(pods, 9)},
			[]string{"ADDED a ->91", "holds [a@91] at 91, 2 behind", "MODIFIED a 91>92, ADDED b ->93"},
		},
		{
			"the first list of an object that is gone",
			[]step{create("a"), remove("a"), restart(1), deliver(pods, 9)},
			[]string{"ADDED a ->92", "DELETED a 93>-"},
		},
		{"the first list cannot be older than the server", []step{create("a"), restart(7), holds(pods)}, []string{"holds [] at 90, 1 behind"}},
		{"the first list cannot be newer than the server", []step{create("a"), restart(-7), holds(pods)}, []string{"ADDED a ->91", "holds [a@91] at 91, 0 behind"}},
	}
}

func TestCacheReads(t *testing.T) {
	s := newStage(t)
	for i, name := range []string{"c", "a", "b"} {
		pod := named(name)
		pod.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
		s.must(s.user.Create(t.Context(), pod))
	}
	elsewhere := named("a")
	elsewhere.Namespace = "other"
	s.must(s.user.Create(t.Context(), elsewhere))
	s.cache.Deliver(pods, 4)
	s.must(s.user.Create(t.Context(), named("late")))
	for _, tc := range []struct {
		name string
		opts []client.ListOption
		want string
	}{
		{"all, by namespace and name", nil, "94 default/a default/b default/c other/a <nil>"},
		{"a namespace", []client.ListOption{client.InNamespace("other")}, "94 other/a <nil>"},
		{"labels", []client.ListOption{client.MatchingLabels{"odd": "false"}}, "94 default/b default/c <nil>"},
		{"a limit", []client.ListOption{client.Limit(2)}, "94 default/a default/b <nil>"},
		{"a limit that is not reached", []client.ListOption{client.Limit(9)}, "94 default/a default/b default/c other/a <nil>"},
		{"fields", []client.ListOption{client.MatchingFields{"metadata.name": "a"}}, " package faultapi does not support field selectors"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var list corev1.PodList
			err := s.server.Client(nil, s.cache).List(t.Context(), &list, tc.opts...)
			got := list.ResourceVersion
			for i := range list.Items {
				got += " " + list.Items[i].Namespace + "/" + list.Items[i].Name
			}
			if diff := cmp.Diff(tc.want, fmt.Sprint(got, " ", err)); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
	pod := &corev1.Pod{}
	if err := s.cache.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "late"}, pod); !apierrors.IsNotFound(err) {
		t.Errorf("Get of what the cache has not seen: %v", err)
	}
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	s.must(s.cache.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "b"}, partial))
	if partial.Name != "b" || partial.Labels["odd"] != "false" {
		t.Errorf("metadata %+v", partial.ObjectMeta)
	}
	if err := s.cache.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "b"}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a kind that is not cached: %v", err)
	}
}

// TestTwoResourcesOfOnePlural: two kinds of the same name in different API groups are two resources, each with its own
// objects.
func TestTwoResourcesOfOnePlural(t *testing.T) {
	s := newStage(t, &corev1.Event{}, &eventsv1.Event{})
	s.must(s.user.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
	s.must(s.user.Create(t.Context(), &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}))
	for _, resource := range []string{"events", "events.events.k8s.io"} {
		if n := s.cache.Behind(resource); n != 1 {
			t.Errorf("%d changes of %s, want 1", n, resource)
		}
		s.cache.Deliver(resource, 1)
	}
	for name, object := range map[string]client.Object{"a": &corev1.Event{}, "b": &eventsv1.Event{}} {
		if err := s.cache.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, object); err != nil || object.GetName() != name {
			t.Errorf("%T %s: %v", object, object.GetName(), err)
		}
	}
	if err := s.cache.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, &eventsv1.Event{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other group's is shown: %v", err)
	}
}

// TestCacheIsReadOnly: callers may modify the results of Get and List, but not the objects of a store. The cache
// detects such modifications.
func TestCacheIsReadOnly(t *testing.T) {
	s := newStage(t)
	s.must(s.user.Create(t.Context(), named("a")))
	s.cache.Deliver(pods, 1)
	pod := &corev1.Pod{}
	s.must(s.cache.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "a"}, pod))
	pod.Spec.Containers[0].Image = "mine"
	if altered := s.cache.Altered(); altered != "" {
		t.Errorf("a copy is taken for the original: %s", altered)
	}
	informer, err := s.cache.GetInformer(t.Context(), pod)
	s.must(err)
	shared := informer.(cache.SharedIndexInformer).GetStore().List()[0].(*corev1.Pod)
	shared.Spec.Containers[0].Image = "theirs"
	if got, want := s.cache.Altered(), "pods default/a"; got != want {
		t.Errorf("altered %q, want %q", got, want)
	}
	if faultapi.All[*corev1.Pod](s.server)[0].Spec.Containers[0].Image != "app:v1" {
		t.Error("the server has changed with its cache")
	}
}

// TestInformer covers the informer methods used by package ownerindex and controllers.
func TestInformer(t *testing.T) {
	s := newStage(t)
	informer, err := s.cache.GetInformer(t.Context(), &corev1.Pod{})
	s.must(err)
	s.must(informer.AddIndexers(cache.Indexers{"image": func(obj any) ([]string, error) {
		return []string{obj.(*corev1.Pod).Spec.Containers[0].Image}, nil
	}}))
	for _, name := range []string{"c", "a", "b"} {
		s.must(s.user.Create(t.Context(), named(name)))
	}
	s.cache.Deliver(pods, 2)
	found, err := informer.(cache.SharedIndexInformer).GetIndexer().ByIndex("image", "app:v1")
	s.must(err)
	var names []string
	for _, item := range found {
		names = append(names, item.(*corev1.Pod).Name)
	}
	if diff := cmp.Diff([]string{"a", "c"}, names); diff != "" {
		t.Errorf("by index (-want +got):\n%s", diff)
	}
	if !informer.HasSynced() || !s.cache.WaitForCacheSync(t.Context()) {
		t.Error("not synced")
	}
	if _, err := s.cache.GetInformer(t.Context(), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("informer of a kind that is not cached: %v", err)
	}
	if diff := cmp.Diff([]string{pods, "controllerrevisions", claims, "things"}, s.cache.Resources()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// TestEventHandlers: a handler is called once for each object of the first list, and then for every delivered event.
func TestEventHandlers(t *testing.T) {
	s := newStage(t)
	create("a")(s)
	s.cache.Deliver(pods, 1)
	informer, err := s.cache.GetInformer(t.Context(), &corev1.Pod{})
	s.must(err)
	first, later := s.listen(true), s.listen(false)
	silent, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { t.Error("a handler that was removed is called") }})
	s.must(err)
	s.must(informer.RemoveEventHandler(silent))
	pauses := 0
	s.cache.Pause = func() { pauses++ }

	create("b")(s)
	s.cache.Deliver(pods, 1)
	if len(*first)+len(*later) > 0 || silent.HasSynced() {
		t.Errorf("told before the first list was: %v, %v", *first, *later)
	}
	s.cache.Announce()
	s.cache.Announce()
	relabel("a", "1")(s)
	s.cache.Deliver(pods, 1)
	remove("b")(s)
	s.cache.Relist(pods)
	remove("a")(s)
	create("c")(s)
	s.cache.Deliver(pods, 9)
	s.cache.Resync()
	changes := []string{"MODIFIED a 91>93", "state unknown of default/b", "MODIFIED a 93>96", "DELETED a 97>-", "ADDED c ->98", "MODIFIED c 98>98"}
	if diff := cmp.Diff(changes, *later); diff != "" {
		t.Errorf("told of changes (-want +got):\n%s", diff)
	}
	both := append([]string{"ADDED a ->91", "ADDED b ->92"}, changes[:4]...)
	if diff := cmp.Diff(append(both, changes[5]), *first); diff != "" {
		t.Errorf("told of the first list and changes (-want +got):\n%s", diff)
	}
	if want := 2*2 + 6*2; pauses != want {
		t.Errorf("%d pauses, want one for each event and handler, %d", pauses, want)
	}
}

// gate is a Gate that records all calls.
type gate struct {
	fate faultapi.Fate
	seen []string
}

func (g *gate) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	g.seen = append(g.seen, strings.TrimSpace(call.Task+" "+call.String()))
	return g.fate
}

// request is a call to the server, as seen by a Gate.
type request struct {
	name string
	call func(ctx context.Context, c client.Client, pod *corev1.Pod) error
	seen string
	made string // the server's state afterwards: Pods with their labels
}

func requests() []request {
	labelled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	uid := types.UID("uid-000001")
	return []request{
		{"get", func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			return c.Get(ctx, types.NamespacedName{Namespace: "default", Name: "a"}, pod)
		}, `get pods default/a`, "a map[]"},
		{"create", func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			pod.Name = "b"
			return c.Create(ctx, pod)
		}, `create pods default/b {"metadata":{"name":"b","namespace":"default"},"spec":{"containers":[{"name":"app","image":"app:v1","resources":{}}]},"status":{}}`, "a map[] b map[]"},
		{"update", func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			pod.Labels = map[string]string{"a": "b"}
			return c.Update(ctx, pod)
		}, `update pods default/a {"metadata":{"name":"a","namespace":"default","labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"app:v1","resources":{}}]},"status":{}}`, "a map[a:b]"},
		{"patch", func(ctx context.Context, c client.Client, pod *corev1.Pod) error { return c.Patch(ctx, pod, labelled) }, `patch pods default/a {"metadata":{"labels":{"a":"b"}}}`, "a map[a:b]"},
		{"status patch", func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			return c.Status().Patch(ctx, pod, labelled)
		}, `patch pods/status default/a {"metadata":{"labels":{"a":"b"}}}`, "a map[a:b]"},
		{"delete", func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
			return c.Delete(ctx, pod, client.Preconditions{UID: &uid})
		}, `delete pods default/a uid=uid-000001`, ""},
	}
}

// TestFates: a refused call is not carried out. A call with a lost response is carried out, and its caller gets only
// an error.
func TestFates(t *testing.T) {
	lost, refused := errors.New("timeout"), errors.New("refused")
	for _, tc := range requests() {
		for _, fate := range []faultapi.Fate{{}, {Before: refused}, {After: lost}} {
			t.Run(fmt.Sprintf("%s %v", tc.name, fate), func(t *testing.T) {
				s := newStage(t)
				s.must(s.user.Create(t.Context(), named("a")))
				before := s.server.Version()
				g := &gate{fate: fate}
				pod := named("a")
				if tc.name == "update" {
					pod.Spec = faultapi.All[*corev1.Pod](s.server)[0].Spec
					pod.Spec.TerminationGracePeriodSeconds, pod.Spec.RestartPolicy = nil, ""
				}
				err := tc.call(faultapi.WithTask(t.Context(), "web"), s.server.Client(g, nil), pod)
				if want := map[bool]error{true: refused, false: fate.After}[fate.Before != nil]; !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
				if diff := cmp.Diff([]string{"web " + tc.seen}, g.seen); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				want := tc.made
				if fate.Before != nil {
					want = "a map[]"
				}
				if diff := cmp.Diff(want, inventory(s.server)); diff != "" {
					t.Errorf("on the server (-want +got):\n%s", diff)
				}
				if (s.server.Version() != before) != (fate.Before == nil && tc.name != "get") {
					t.Errorf("version %d, was %d", s.server.Version(), before)
				}
				if answered := pod.ResourceVersion != ""; answered != (err == nil && tc.name != "delete") {
					t.Errorf("the caller's object has version %q after error %v", pod.ResourceVersion, err)
				}
			})
		}
	}
}

func inventory(server *faultapi.Server) string {
	var parts []string
	for _, pod := range faultapi.All[*corev1.Pod](server) {
		parts = append(parts, fmt.Sprint(pod.Name, " ", pod.Labels))
	}
	return strings.Join(parts, " ")
}

// TestUnsupported: unsupported requests return an error, so no test can rely on such a request by mistake.
func TestUnsupported(t *testing.T) {
	s := newStage(t)
	s.must(s.user.Create(t.Context(), named("a")))
	pod := named("a")
	for name, err := range map[string]error{
		"dry run of create":    s.user.Create(t.Context(), named("b"), client.DryRunAll),
		"dry run of update":    s.user.Update(t.Context(), pod, client.DryRunAll),
		"dry run of status":    s.user.Status().Update(t.Context(), pod, client.DryRunAll),
		"dry run of delete":    s.user.Delete(t.Context(), pod, client.DryRunAll),
		"foreground deletion":  s.user.Delete(t.Context(), pod, client.PropagationPolicy(metav1.DeletePropagationForeground)),
		"orphaning deletion":   s.user.Delete(t.Context(), pod, client.PropagationPolicy(metav1.DeletePropagationOrphan)),
		"deletion of many":     s.user.DeleteAllOf(t.Context(), pod),
		"apply":                s.user.Apply(t.Context(), nil),
		"fields but the name":  s.user.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "a"}),
		"reading of status":    s.user.SubResource("status").Get(t.Context(), pod, pod),
		"creation of bindings": s.user.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{}),
		"apply of status":      s.user.SubResource("status").Apply(t.Context(), nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "does not support") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, want := inventory(s.server), "a map[]"; got != want || s.server.Version() != 91 {
		t.Errorf("on the server: %s at version %d", got, s.server.Version())
	}
}
