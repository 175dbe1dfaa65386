package trackedclient_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
)

// index is a cache whose content the test sets.
type index struct {
	mu      sync.Mutex
	version string
	objects map[types.UID]*metav1.ObjectMeta
	unready bool
}

func (x *index) LastStoreSyncResourceVersion() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.version
}

func (x *index) HasSynced() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.unready
}

func (x *index) IsPresent(uid types.UID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	obj := x.objects[uid]
	return obj != nil && obj.DeletionTimestamp == nil
}

func (x *index) Versions(match func(metav1.Object) bool) map[types.UID]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[types.UID]string{}
	for uid, obj := range x.objects {
		if match == nil || match(obj) {
			out[uid] = obj.ResourceVersion
		}
	}
	return out
}

// show replaces the cache's content.
func (x *index) show(version string, objects ...*corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version, x.objects = version, map[types.UID]*metav1.ObjectMeta{}
	for _, pod := range objects {
		x.objects[pod.UID] = pod.ObjectMeta.DeepCopy()
	}
}

// owner is the object of a controller.
var owner = &metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "owner"}

// listVersion is the version of all lists, newer than any object's version.
const listVersion = "5000"

// bench has the clients under test, a fake API server and a cache.
type bench struct {
	*trackedclient.Clients
	client.Client // the client for the owner

	server client.WithWatch
	cache  *index
	// fail is called twice for each request: before the request is carried out (after is false) and afterwards (after is
	// true).
	fail  func(verb string, after bool) error
	asked []string
	// perPage is how many objects a page of a list holds; 0 for all.
	perPage int
	served  func() bool // the field Served of the source
}

// page cuts a list to the page that begins at the token.
func (b *bench) page(list client.ObjectList, token string) {
	all, ok := list.(*metav1.PartialObjectMetadataList)
	if !ok || b.perPage == 0 {
		return
	}
	first, _ := strconv.Atoi(token)
	last := min(first+b.perPage, len(all.Items))
	all.Continue = ""
	if last < len(all.Items) {
		all.Continue = strconv.Itoa(last)
	}
	all.Items = all.Items[first:last]
}

// connect makes the clients under test.
func (b *bench) connect(options expectations.Options) {
	var err error
	source := trackedclient.Pods(b.cache)
	source.Served = b.served
	b.Clients, err = trackedclient.NewClients(b.server, b.server, trackedclient.Options{Tracker: options}, source)
	if err != nil {
		panic(err)
	}
	b.Client = b.For(owner.UID)
}

func newBench(objects ...client.Object) *bench {
	b := &bench{cache: &index{version: "1"}, fail: func(string, bool) error { return nil }}
	call := func(verb string, do func() error) error {
		b.asked = append(b.asked, verb)
		if err := b.fail(verb, false); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return b.fail(verb, true)
	}
	b.server = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				return call("create", func() error {
					if obj.GetUID() == "" { // the fake server sets none
						obj.SetUID(types.UID("uid-" + obj.GetName()))
					}
					if err := c.Create(ctx, obj, opts...); err != nil || len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
						return err
					}
					return c.Update(ctx, obj) // so that the object gets a second version
				})
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				return call("patch", func() error { return c.Patch(ctx, obj, patch, opts...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				return call("update", func() error { return c.Update(ctx, obj, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				return call("delete", func() error { return c.Delete(ctx, obj, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				return call("patch "+sub, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				return call("update "+sub, func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
			},
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
				return call("create "+sub, func() error { return c.SubResource(sub).Create(ctx, obj, body, opts...) })
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				return call("get", func() error { return c.Get(ctx, key, obj, opts...) })
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				return call("list", func() error {
					err := c.List(ctx, list, opts...)
					list.SetResourceVersion(listVersion) // the fake server sets none
					b.page(list, (&client.ListOptions{}).ApplyOptions(opts).Continue)
					return err
				})
			},
		}).Build()
	b.connect(expectations.Options{NoBarrier: true})
	return b
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Web", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}},
	}}
}

// stored returns a Pod from the API server.
func (b *bench) stored(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := b.server.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// awaited returns the awaited changes of the owner: "version N", "deletion of UID", or nothing.
func (b *bench) awaited(t *testing.T) []string {
	t.Helper()
	pending, err := b.Check(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if pending == nil {
		return nil
	}
	var out []string
	for _, a := range pending.Awaited {
		if a.Want != "" {
			out = append(out, "version "+a.Want)
		}
		for _, uid := range a.UIDs {
			out = append(out, "deletion of "+string(uid))
		}
	}
	return out
}

func relabel() client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
}

// lost returns a function for bench.fail: the API server carries out the request, but the client gets an error
// instead of the response.
func lost(verb string) func(string, bool) error {
	return func(v string, after bool) error {
		if after && v == verb {
			return apierrors.NewTimeoutError("the answer was lost", 1)
		}
		return nil
	}
}

func TestWritesAreAwaited(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(ctx context.Context, b *bench) error
		want string // the Pod whose version is awaited, or the deletion
	}{
		{"create", func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) }, "new"},
		{"patch", func(ctx context.Context, b *bench) error { return b.Patch(ctx, newPod("a"), relabel()) }, "a"},
		{"metadata patch", func(ctx context.Context, b *bench) error {
			obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			return b.Patch(ctx, obj, relabel())
		}, "a"},
		{"update", func(ctx context.Context, b *bench) error {
			pod := newPod("a")
			pod.Labels = map[string]string{"x": "y"}
			return b.Update(ctx, pod)
		}, "a"},
		{"status patch", func(ctx context.Context, b *bench) error {
			return b.Status().Patch(ctx, newPod("a"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)))
		}, "a"},
		{"subresource update", func(ctx context.Context, b *bench) error {
			pod := newPod("a")
			pod.Status.Phase = corev1.PodRunning
			return b.SubResource("status").Update(ctx, pod)
		}, "a"},
		{"delete", func(ctx context.Context, b *bench) error { return b.Delete(ctx, newPod("a")) }, "deletion of uid-a"},
		{"delete by precondition", func(ctx context.Context, b *bench) error {
			pod := newPod("a")
			pod.UID = ""
			return b.Delete(ctx, pod, client.Preconditions{UID: ptr.To(types.UID("uid-a"))})
		}, "deletion of uid-a"},
		{"another kind", func(ctx context.Context, b *bench) error {
			return b.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}})
		}, ""},
		{"dry run", func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new"), client.DryRunAll) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(newPod("a"))
			b.cache.show("1", newPod("a"))
			if err := tc.do(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			var want []string
			switch {
			case strings.HasPrefix(tc.want, "deletion"):
				want = []string{tc.want}
			case tc.want != "":
				want = []string{"version " + b.stored(t, tc.want).ResourceVersion}
			}
			if diff := cmp.Diff(want, b.awaited(t)); diff != "" {
				t.Errorf("awaited (-want +got):\n%s", diff)
			}
			b.cache.show("1000000")
			if got := b.awaited(t); got != nil {
				t.Errorf("still awaited when the cache shows it: %v", got)
			}
		})
	}
}

func TestSeveralOwners(t *testing.T) {
	b := newBench(newPod("a"))
	if err := b.For(owner.UID, "uid-a").Patch(t.Context(), newPod("a"), relabel()); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*metav1.ObjectMeta{owner, {UID: "uid-a"}} {
		if pending, err := b.Check(t.Context(), o); pending == nil || err != nil {
			t.Errorf("%s: %v, %v", o.UID, pending, err)
		}
		b.Forget(o)
		if pending, err := b.Check(t.Context(), o); pending != nil || err != nil {
			t.Errorf("%s, forgotten: %v, %v", o.UID, pending, err)
		}
	}
}

// TestSharedDoubt: a single read is enough for all owners that wait for the write.
func TestSharedDoubt(t *testing.T) {
	b := newBench(newPod("a"))
	b.fail = func(verb string, after bool) error {
		if verb == "patch" && after {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if err := b.For(owner.UID, "uid-a").Patch(t.Context(), newPod("a"), relabel()); err == nil {
		t.Fatal("the answer was not lost")
	}
	b.asked = nil
	for _, o := range []*metav1.ObjectMeta{owner, {UID: "uid-a"}} {
		if pending, err := b.Check(t.Context(), o); pending == nil || err != nil || b.InDoubt(o) {
			t.Errorf("%s: %v, %v; the cache does not show the write", o.UID, pending, err)
		}
	}
	if diff := cmp.Diff([]string{"get"}, b.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestOwnerThatIsGone: if the owner is deleted during a reconcile, a later write of the reconcile leaves no record.
func TestOwnerThatIsGone(t *testing.T) {
	lost := errors.New("the answer was lost")
	for _, tc := range []struct {
		name string
		fail bool
		do   func(ctx context.Context, b *bench) error
	}{
		{"created", false, func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) }},
		{"deleted", false, func(ctx context.Context, b *bench) error { return b.Delete(ctx, newPod("a")) }},
		{"in doubt", true, func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) }},
		{"deletion in doubt", true, func(ctx context.Context, b *bench) error { return b.Delete(ctx, newPod("a")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(newPod("a"))
			exists := true
			clients, err := trackedclient.NewClients(b.server, b.server, trackedclient.Options{
				Tracker: expectations.Options{NoBarrier: true}, Exists: func(types.UID) bool { return exists },
			}, trackedclient.Pods(b.cache))
			if err != nil {
				t.Fatal(err)
			}
			b.Clients, b.Client = clients, clients.For(owner.UID)
			b.fail = func(_ string, after bool) error {
				exists = exists && !after // the owner is deleted during the request
				if after && tc.fail {
					return lost
				}
				return nil
			}
			if err := tc.do(t.Context(), b); (err != nil) != tc.fail {
				t.Fatal(err)
			}
			if exists || b.InDoubt(owner) || b.Tracker().Len() != 0 {
				t.Errorf("%d owners are known, in doubt %t", b.Tracker().Len(), b.InDoubt(owner))
			}
		})
	}
}

func TestNewClientsRefuses(t *testing.T) {
	b := newBench()
	for _, tc := range []struct {
		name   string
		client client.Client
		reader client.Reader
		source trackedclient.Source
	}{
		{"no client", nil, b.server, trackedclient.Pods(b.cache)},
		{"no reader", b.server, nil, trackedclient.Pods(b.cache)},
		{"an empty source", b.server, b.server, trackedclient.Source{}},
		{"a source without cache", b.server, b.server, trackedclient.Pods(nil)},
	} {
		if _, err := trackedclient.NewClients(tc.client, tc.reader, trackedclient.Options{}, tc.source); err == nil {
			t.Errorf("%s is accepted", tc.name)
		}
	}
}

func TestRefusedBeforeSending(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(ctx context.Context, b *bench) error
		want error
	}{
		{"nobody awaits it", func(ctx context.Context, b *bench) error { return b.For("").Create(ctx, newPod("new")) }, trackedclient.NoOwner},
		{"an empty UID awaits it", func(ctx context.Context, b *bench) error {
			return b.For(owner.UID, "").Create(ctx, newPod("new"))
		}, trackedclient.NoOwner},
		{"nobody awaits the deletion", func(ctx context.Context, b *bench) error { return b.For("").Delete(ctx, newPod("a")) }, trackedclient.NoOwner},
		{"a deletion by name", func(ctx context.Context, b *bench) error {
			return b.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		}, trackedclient.NotTrackable},
		{"a collection", func(ctx context.Context, b *bench) error { return b.DeleteAllOf(ctx, newPod("")) }, trackedclient.NotTrackable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(newPod("a"))
			if err := tc.do(t.Context(), b); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if len(b.asked) != 0 {
				t.Errorf("sent %v", b.asked)
			}
		})
	}
}

// TestDoubts: an owner waits after a request with an unknown outcome.
func TestDoubts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before []client.Object
		fail   func(string, bool) error
		do     func(ctx context.Context, b *bench) error
		want   string // as in TestWritesAreAwaited
	}{
		{"created, answer lost", nil, lost("create"), func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) }, "new"},
		{"patched, answer lost", []client.Object{newPod("a")}, lost("patch"), func(ctx context.Context, b *bench) error {
			return b.Patch(ctx, newPod("a"), relabel())
		}, "a"},
		{"status patched, connection broken", []client.Object{newPod("a")}, func(verb string, after bool) error {
			if after && verb == "patch status" {
				return errors.New("connection reset")
			}
			return nil
		}, func(ctx context.Context, b *bench) error {
			return b.Status().Patch(ctx, newPod("a"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)))
		}, "a"},
		{"deleted, answer lost", []client.Object{newPod("a")}, lost("delete"), func(ctx context.Context, b *bench) error {
			return b.Delete(ctx, newPod("a"))
		}, "deletion of uid-a"},
		{"exists already", []client.Object{newPod("a")}, nil, func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("a")) }, "a"},
		{"never carried out", nil, func(verb string, after bool) error {
			if !after && verb == "create" {
				return apierrors.NewInternalError(errors.New("broken"))
			}
			return nil
		}, func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) }, ""},
		{"refused", nil, func(verb string, after bool) error {
			if !after && verb == "create" {
				return apierrors.NewForbidden(corev1.Resource("pods"), "new", errors.New("quota"))
			}
			return nil
		}, func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(tc.before...)
			b.cache.show("1", newPod("a"))
			if tc.fail != nil {
				b.fail = tc.fail
			}
			if err := tc.do(t.Context(), b); err == nil {
				t.Fatal("the error does not get through")
			}
			b.fail = func(string, bool) error { return nil }
			doubt := b.InDoubt(owner)
			reads := len(b.asked)
			got := b.awaited(t)
			var want []string
			switch {
			case strings.HasPrefix(tc.want, "deletion"):
				want = []string{tc.want}
			case tc.want != "":
				want = []string{"version " + b.stored(t, tc.want).ResourceVersion}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("awaited (-want +got):\n%s", diff)
			}
			if settled := slices.Contains(b.asked[reads:], "get"); settled != doubt || b.InDoubt(owner) {
				t.Errorf("in doubt %v, afterwards %v, asked %v", doubt, b.InDoubt(owner), b.asked[reads:])
			}
		})
	}
}

// TestQuotaConflicts: after a conflict about a ResourceQuota, and not about the object, the write is retried at once,
// a few times.
func TestQuotaConflicts(t *testing.T) {
	overtaken := apierrors.NewConflict(corev1.Resource("resourcequotas"), "compute", errors.New("the object has been modified"))
	changed := apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("the object has been modified"))
	for _, tc := range []struct {
		name      string
		conflicts int
		err       error
		calls     int
		succeeds  bool
	}{
		{"one", 1, overtaken, 2, true},
		{"four", 4, overtaken, 5, true},
		{"without end", 100, overtaken, 5, false},
		{"about the object", 1, changed, 1, false},
	} {
		for verb, do := range map[string]func(ctx context.Context, b *bench) error{
			"create": func(ctx context.Context, b *bench) error { return b.Create(ctx, newPod("new")) },
			"dry run": func(ctx context.Context, b *bench) error {
				return b.Status().Patch(ctx, newPod("a"), relabel(), client.DryRunAll)
			},
			"patch": func(ctx context.Context, b *bench) error { return b.Patch(ctx, newPod("a"), relabel()) },
		} {
			t.Run(tc.name+", "+verb, func(t *testing.T) {
				b := newBench(newPod("a"))
				left := tc.conflicts
				b.fail = func(string, bool) error {
					if left--; left >= 0 {
						return tc.err
					}
					return nil
				}
				err := do(t.Context(), b)
				if (err == nil) != tc.succeeds || len(b.asked) != tc.calls {
					t.Errorf("%v after %d calls, want %d", err, len(b.asked), tc.calls)
				}
			})
		}
	}
}

// TestDoubtLasts: if the read fails, the write stays in doubt, and the next Check reads again.
func TestDoubtLasts(t *testing.T) {
	b := newBench()
	b.fail = lost("create")
	if err := b.Create(t.Context(), newPod("new")); !apierrors.IsTimeout(err) {
		t.Fatal(err)
	}
	down := errors.New("the API server is away")
	b.fail = func(string, bool) error { return down }
	for range 2 {
		if _, err := b.Check(t.Context(), owner); !errors.Is(err, down) || !strings.Contains(err.Error(), "default/new") {
			t.Errorf("Check = %v, want it to name the Pod and why it cannot be read", err)
		}
	}
	b.fail = func(string, bool) error { return nil }
	if got := b.awaited(t); len(got) != 1 {
		t.Errorf("awaited %v", got)
	}
}

// TestGeneratedName: the name of the object that may have been created is unknown, so the owner waits for all writes
// up to now.
func TestGeneratedName(t *testing.T) {
	b := newBench()
	b.fail = func(verb string, _ bool) error {
		if verb == "create" {
			return errors.New("connection reset")
		}
		return nil
	}
	pod := newPod("")
	pod.GenerateName = "web-"
	if err := b.Create(t.Context(), pod); err == nil {
		t.Fatal("no error")
	}
	b.fail = func(string, bool) error { return nil }
	if diff := cmp.Diff([]string{"version " + listVersion}, b.awaited(t)); diff != "" {
		t.Errorf("awaited (-want +got):\n%s", diff)
	}
}

// TestLateCache: after the alarm threshold a live read shows whether the cache nevertheless holds all objects.
func TestLateCache(t *testing.T) {
	for _, tc := range []struct {
		name string
		show func(a, other *corev1.Pod) []*corev1.Pod
		ends bool
	}{
		{"the same", func(a, _ *corev1.Pod) []*corev1.Pod { return []*corev1.Pod{a} }, true},
		{"the same, and another owner's", func(a, other *corev1.Pod) []*corev1.Pod { return []*corev1.Pod{a, other} }, true},
		{"an older version", func(a, _ *corev1.Pod) []*corev1.Pod {
			a.ResourceVersion = "1"
			return []*corev1.Pod{a}
		}, false},
		{"one is missing", func(*corev1.Pod, *corev1.Pod) []*corev1.Pod { return nil }, false},
		{"one too many", func(a, _ *corev1.Pod) []*corev1.Pod {
			gone := newPod("gone")
			return []*corev1.Pod{a, gone}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := newPod("other")
				other.OwnerReferences[0].UID = "other"
				b := newBench(newPod("a"), other)
				b.cache.show("1")
				if err := b.Patch(t.Context(), newPod("a"), relabel()); err != nil {
					t.Fatal(err)
				}
				b.cache.show("1", tc.show(b.stored(t, "a"), b.stored(t, "other"))...)
				b.asked = nil
				if b.awaited(t) == nil || len(b.asked) != 0 {
					t.Fatalf("before the threshold it asks %v", b.asked)
				}
				time.Sleep(2 * time.Minute)
				if b.awaited(t) == nil || !slices.Equal(b.asked, []string{"list"}) {
					t.Fatalf("after the threshold it asks %v", b.asked)
				}
				if ended := b.awaited(t) == nil; ended != tc.ends {
					t.Errorf("the wait ends: %v, want %v", ended, tc.ends)
				}
			})
		})
	}
}

func TestStart(t *testing.T) {
	for _, tc := range []struct {
		name string
		// cache sets the cache's content, at once or after a time. highest is the API server's version.
		cache func(b *bench, highest string)
		want  time.Duration
		lists int
	}{
		{"the version is there", func(b *bench, highest string) { b.cache.show(highest, newPod("a")) }, 0, 1},
		{"the version comes", func(b *bench, highest string) {
			time.AfterFunc(100*time.Millisecond, func() { b.cache.show(highest, newPod("a")) })
		}, 100 * time.Millisecond, 1},
		{"a quiet resource, whose content is all there", func(b *bench, _ string) { b.cache.show("1", stored(b, "a")) }, 200 * time.Millisecond, 2},
		{"a quiet resource of several pages", func(b *bench, _ string) {
			for _, name := range []string{"b", "c"} {
				if err := b.server.Create(context.Background(), newPod(name)); err != nil {
					panic(err)
				}
			}
			b.perPage = 1
			b.cache.show("1", stored(b, "a"), stored(b, "b"), stored(b, "c"))
		}, 200 * time.Millisecond, 4},
		{"a quiet resource, of which the last page is missing", func(b *bench, _ string) {
			if err := b.server.Create(context.Background(), newPod("b")); err != nil {
				panic(err)
			}
			b.perPage = 1
			b.cache.show("1", stored(b, "a"))
			whole := []*corev1.Pod{stored(b, "a"), stored(b, "b")}
			time.AfterFunc(1100*time.Millisecond, func() { b.cache.show("1", whole...) })
		}, 1200 * time.Millisecond, 5},
		{"a quiet resource, of which a deletion is missing", func(b *bench, _ string) {
			b.cache.show("1", stored(b, "a"), newPod("gone"))
			whole := stored(b, "a")
			time.AfterFunc(1100*time.Millisecond, func() { b.cache.show("1", whole) })
		}, 1200 * time.Millisecond, 3},
		{"the first list comes late", func(b *bench, highest string) {
			b.cache.unready = true
			time.AfterFunc(time.Second, func() {
				b.cache.show(highest)
				b.cache.mu.Lock()
				b.cache.unready = false
				b.cache.mu.Unlock()
			})
		}, time.Second, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(newPod("a"))
				b.connect(expectations.Options{})
				tc.cache(b, listVersion)
				b.asked = nil
				if pending, err := b.Check(t.Context(), owner); pending == nil || err != nil {
					t.Fatalf("an owner passes before Start: %v", err)
				}
				begin := time.Now()
				if err := b.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took < tc.want || took > tc.want+50*time.Millisecond {
					t.Errorf("took %v, want %v", took, tc.want)
				}
				if n := len(b.asked); n != tc.lists {
					t.Errorf("%d requests %v, want %d", n, b.asked, tc.lists)
				}
				if pending, err := b.Check(t.Context(), owner); pending != nil || err != nil {
					t.Errorf("afterwards: %v, %v", pending, err)
				}
			})
		})
	}
}

// TestStartOutlastsOutages: Start retries failed reads, because a manager must not stop if the API server does not
// respond for a while.
func TestStartOutlastsOutages(t *testing.T) {
	lists := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		name string
		err  error
		// from and to bound the failing requests. quiet keeps the cache's version low, so that Start compares the
		// cache's content.
		from, to int
		quiet    bool
		fatal    bool
	}{
		{name: "an error of the server", err: apierrors.NewInternalError(errors.New("etcd is restarting")), to: 3},
		{name: "a timeout", err: apierrors.NewTimeoutError("slow", 1), to: 3},
		{name: "throttling", err: apierrors.NewTooManyRequests("busy", 1), to: 3},
		{name: "no answer", err: io.ErrUnexpectedEOF, to: 3},
		{name: "an outage of minutes", err: io.ErrUnexpectedEOF, to: 20},
		{name: "while contents are compared", err: apierrors.NewInternalError(errors.New("etcd is restarting")), from: 1, to: 3, quiet: true},
		{name: "a right that is missing", err: apierrors.NewForbidden(lists, "", errors.New("no")), to: 3, fatal: true},
		{name: "a right that is missing while contents are compared", err: apierrors.NewForbidden(lists, "", errors.New("no")), from: 1, to: 3, quiet: true, fatal: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(newPod("a"))
				b.connect(expectations.Options{})
				b.cache.show(map[bool]string{true: "1", false: listVersion}[tc.quiet], stored(b, "a"))
				b.asked = nil
				b.fail = func(_ string, after bool) error {
					if n := len(b.asked) - 1; after || n < tc.from || n >= tc.to {
						return nil
					}
					return tc.err
				}
				err := b.Start(t.Context())
				if tc.fatal {
					if !errors.Is(err, tc.err) {
						t.Errorf("error = %v, want %v", err, tc.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if pending, err := b.Check(t.Context(), owner); pending != nil || err != nil || len(b.asked) <= tc.to {
					t.Errorf("after %d requests: %v, %v", len(b.asked), pending, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.connect(expectations.Options{})
		b.fail = func(string, bool) error { return io.ErrUnexpectedEOF }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := b.Start(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error at the end of the context = %v", err)
		}
		if n := len(b.asked); n > 400 {
			t.Errorf("%d reads in an hour without an answer", n)
		}
	})
}

// TestStartWithoutTheResource: Start does not wait for a resource that the API server does not have, if the cache
// shows no object, or if Served says that the resource may be missing.
func TestStartWithoutTheResource(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cached []*corev1.Pod
		served func() bool
		waits  bool
	}{
		{"nothing is cached", nil, nil, false},
		{"objects are cached", []*corev1.Pod{newPod("a")}, nil, true},
		{"objects are cached, and said to be served", []*corev1.Pod{newPod("a")}, func() bool { return true }, true},
		{"objects are cached, and owners do without", []*corev1.Pod{newPod("a")}, func() bool { return false }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.served = tc.served
				b.connect(expectations.Options{})
				b.cache.show("1", tc.cached...)
				b.fail = func(string, bool) error {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := b.Start(ctx); (err != nil) != tc.waits {
					t.Errorf("error at the end %v, want one: %t", err, tc.waits)
				}
				if pending, err := b.Check(t.Context(), owner); (pending != nil) != tc.waits || err != nil {
					t.Errorf("afterwards: %v, %v, want to wait: %t", pending, err, tc.waits)
				}
			})
		})
	}
}

// TestServed: Check does not wait for a resource that is not served now. When the resource is served again, Check
// waits for the earlier writes again.
func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := true
		b := newBench(newPod("a"), newPod("b"))
		b.served = func() bool { return served }
		b.connect(expectations.Options{NoBarrier: true})
		b.cache.show("1", newPod("b"))
		gone := b.stored(t, "b")
		if err := errors.Join(b.Patch(t.Context(), newPod("a"), relabel()), b.Delete(t.Context(), gone, client.Preconditions{UID: &gone.UID})); err != nil {
			t.Fatal(err)
		}
		want := b.awaited(t)
		if len(want) != 2 {
			t.Fatalf("awaited %v", want)
		}
		served, b.asked = false, nil
		time.Sleep(time.Hour)
		if got := b.awaited(t); got != nil || b.asked != nil {
			t.Errorf("not served, and %v is awaited by %v", got, b.asked)
		}
		served = true
		if diff := cmp.Diff(want, b.awaited(t)); diff != "" {
			t.Errorf("served again, awaited (-want +got):\n%s", diff)
		}
		b.cache.show(listVersion)
		if got := b.awaited(t); got != nil {
			t.Errorf("the cache shows everything, and %v is awaited", got)
		}
	})
}

func stored(b *bench, name string) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := b.server.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		panic(err)
	}
	return pod
}
