package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

var (
	keys      = revision.Keys{HashLabel: "controller.kubernetes.io/hash"}
	revisions = schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
)

func owner() revision.Owner {
	return revision.Owner{
		Namespace: "default", Name: "web",
		Reference: metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: "u1", Controller: ptr.To(true)},
	}
}

func of(t testing.TB, collisions *int32, existing ...*appsv1.ControllerRevision) *revision.History {
	t.Helper()
	histories, err := revision.NewHistories(keys, revision.NewDecoder(10, nil))
	if err != nil {
		t.Fatal(err)
	}
	return histories.Of(owner(), collisions, existing)
}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
}

func decide(t testing.TB, image string, collisions *int32, existing ...*appsv1.ControllerRevision) revision.Decision {
	t.Helper()
	d, err := of(t, collisions, existing...).Decide(template(image))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// stored returns a revision as stored by the API server.
func stored(t testing.TB, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	rev := decide(t, image, nil).Revision
	rev.Revision, rev.UID = number, types.UID("uid-"+image)
	return rev
}

// server is controller-runtime's fake client. server records the requests, and lets requests fail on demand.
type server struct {
	client.WithWatch

	requests []string
	body     string
	options  []client.DeleteOption
	fail     func(request string) error
}

func newServer(objects ...*appsv1.ControllerRevision) *server {
	s := &server{fail: func(string) error { return nil }}
	builder := fake.NewClientBuilder()
	for _, rev := range objects {
		builder.WithObjects(rev.DeepCopy())
	}
	note := func(verb string, obj client.Object) error {
		s.requests = append(s.requests, verb+" "+obj.GetName())
		return s.fail(verb)
	}
	s.WithWatch = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := note("create", obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			raw, err := patch.Data(obj)
			if err != nil {
				return err
			}
			s.body = string(raw)
			if err := note("patch", obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			s.options = opts
			if err := note("delete", obj); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	return s
}

// live records reads, so that tests see the reads from the API server.
type live struct{ *server }

func (l live) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	l.requests = append(l.requests, "get "+key.Name)
	if err := l.fail("get"); err != nil {
		return err
	}
	return l.server.Get(ctx, key, obj, opts...)
}

func (s *server) all(t *testing.T) map[string]int64 {
	t.Helper()
	var list appsv1.ControllerRevisionList
	if err := s.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Revision
	}
	return out
}

// write writes a decision, and returns the resulting revision and count of collisions.
func (s *server) write(t *testing.T, d revision.Decision, collisions *int32) (*appsv1.ControllerRevision, *int32, error) {
	t.Helper()
	h := of(t, collisions)
	changed, err := history.Write(t.Context(), s, live{s}, h, d)
	if changed != (err == nil && d.Action != revision.Keep) {
		t.Errorf("%s: changed = %t, %v", d.Action, changed, err)
	}
	return h.Update, h.Collisions, err
}

func Example() {
	ctx := context.Background()
	c := fake.NewClientBuilder().Build() // ownercache.View.Client and Cache.APIReader in a controller
	histories, err := revision.NewHistories(keys, revision.NewDecoder(10, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	h := histories.Of(owner(), nil, nil)
	changed, err := history.Sync(ctx, c, c, h, template("app:v1"))
	fmt.Println(changed, h.Update.Revision, len(h.Revisions), err)
	changed, err = history.Sync(ctx, c, c, h, template("app:v1"))
	fmt.Println(changed, h.Update.Revision, len(h.Revisions), err)
	// Output:
	// true 1 1 <nil>
	// false 1 1 <nil>
}

func TestKeepWritesNothing(t *testing.T) {
	v1 := stored(t, "app:v1", 4)
	s := newServer(v1)
	rev, collisions, err := s.write(t, decide(t, "app:v1", nil, v1), ptr.To[int32](2))
	if err != nil || rev != v1 || *collisions != 2 || len(s.requests) > 0 {
		t.Errorf("R-1 Write = %v, %d, %v after %v", rev, *collisions, err, s.requests)
	}
}

// TestKeepWithAnnotations: for Keep with annotations, the revision keeps its number and its position, and only the
// annotations are written.
func TestKeepWithAnnotations(t *testing.T) {
	v1, v2 := stored(t, "app:v1", 4), stored(t, "app:v2", 5)
	s := newServer(v1, v2)
	for _, rev := range []*appsv1.ControllerRevision{v1, v2} {
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(rev), rev); err != nil {
			t.Fatal(err)
		}
	}
	d := decide(t, "app:v2", nil, v1, v2)
	d.Annotations = map[string]string{"claims": "[]"}
	h := of(t, nil, v1, v2)
	changed, err := history.Write(t.Context(), s, live{s}, h, d)
	if !changed || err != nil || h.Update.Annotations["claims"] != "[]" || h.Update.Revision != 5 || len(h.Revisions) != 2 || h.Revisions[1] != h.Update {
		t.Errorf("Write = %t, %v; update %+v among %d", changed, err, h.Update, len(h.Revisions))
	}
	if diff := cmp.Diff([]string{"patch " + v2.Name}, s.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBump(t *testing.T) {
	v1, v2 := stored(t, "app:v1", 1), stored(t, "app:v2", 2)
	s := newServer(v1, v2)
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(v1), v1); err != nil {
		t.Fatal(err)
	}
	before := v1.DeepCopy()
	rev, _, err := s.write(t, decide(t, "app:v1", nil, v1, v2), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{v1.Name: 3, v2.Name: 2}, s.all(t)); diff != "" || rev.Revision != 3 || rev.Name != v1.Name {
		t.Errorf("R-1 revisions (-want +got), returned %s %d:\n%s", rev.Name, rev.Revision, diff)
	}
	want := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"uid":%q},"revision":3}`, v1.ResourceVersion, v1.UID)
	if diff := cmp.Diff(want, s.body); diff != "" {
		t.Errorf("patch with its preconditions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, v1); diff != "" {
		t.Errorf("the cached revision was modified:\n%s", diff)
	}
	// A second write of the same decision has a conflict, because the object has changed.
	if _, _, err := s.write(t, decide(t, "app:v1", nil, v1, v2), nil); !apierrors.IsConflict(err) {
		t.Errorf("bump of a stale revision = %v, want a conflict", err)
	}
}

// TestLeft: a revision left by an earlier owner has the name of the new revision, and the cache still shows this
// revision with its earlier owner.
func TestLeft(t *testing.T) {
	d := decide(t, "app:v1", nil)
	for _, tc := range []struct {
		name  string
		asked bool
		left  bool
		edit  func(*appsv1.ControllerRevision)
		used  bool
	}{
		{"R-3 left by an earlier owner of the name", true, true, func(*appsv1.ControllerRevision) {}, true},
		{"not for this owner", true, false, func(*appsv1.ControllerRevision) {}, false},
		{"nobody says", false, false, func(*appsv1.ControllerRevision) {}, false},
		{"other data", true, true, func(rev *appsv1.ControllerRevision) { rev.Data.Raw = []byte(`{"spec":{}}`) }, false},
		{"being deleted", true, true, func(rev *appsv1.ControllerRevision) {
			rev.DeletionTimestamp, rev.Finalizers = ptr.To(metav1.Unix(1, 0)), []string{"example.com/hold"}
		}, false},
		{"of another owner", true, true, func(rev *appsv1.ControllerRevision) {
			rev.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: "u2", Controller: ptr.To(true)}}
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			taken := stored(t, "app:v1", 7)
			taken.Name, taken.OwnerReferences = d.Revision.Name, nil
			tc.edit(taken)
			s, h := newServer(taken), of(t, nil)
			if tc.asked {
				h.Left = func(rev *appsv1.ControllerRevision) bool { return rev.Name == taken.Name && tc.left }
			}
			if _, err := history.Write(t.Context(), s, live{s}, h, d); err != nil {
				t.Fatal(err)
			}
			if used := h.Update.Name == taken.Name; used != tc.used || used != (h.Collisions == nil) || len(s.all(t)) == 1 != used {
				t.Errorf("revision %s, %v collisions; the API server has %v", h.Update.Name, h.Collisions, s.all(t))
			}
		})
	}
}

func TestCreate(t *testing.T) {
	d, h := decide(t, "app:v1", nil), of(t, nil)
	base := d.Revision.Name
	// These are the names with the collision counts 1 and 2.
	first, second := h.Rename(d.Revision).Name, h.Rename(d.Revision).Name
	taken := func(name string, edit func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
		rev := stored(t, "app:v1", 7)
		rev.Name = name
		edit(rev)
		return rev
	}
	otherData := func(rev *appsv1.ControllerRevision) { rev.Data.Raw = []byte(`{"spec":{}}`) }
	otherOwner := func(rev *appsv1.ControllerRevision) { rev.OwnerReferences[0].UID = "u2" }
	noOwner := func(rev *appsv1.ControllerRevision) { rev.OwnerReferences = nil }
	same := func(*appsv1.ControllerRevision) {}
	for _, tc := range []struct {
		name       string
		collisions *int32
		existing   []*appsv1.ControllerRevision
		want       string
		number     int64
		count      *int32
		requests   []string
	}{
		{"R-3 free name", nil, nil, base, 1, nil, []string{"create " + base}},
		{"R-3 free name, the count stays", ptr.To[int32](0), nil, "", 1, ptr.To[int32](0), nil},
		{
			"R-3 other data: the next name", nil,
			[]*appsv1.ControllerRevision{taken(base, otherData)},
			first, 1, ptr.To[int32](1),
			[]string{"create " + base, "get " + base, "create " + first},
		},
		{
			"R-3 twice", nil,
			[]*appsv1.ControllerRevision{taken(base, otherData), taken(first, otherData)},
			second, 1, ptr.To[int32](2),
			[]string{"create " + base, "get " + base, "create " + first, "get " + first, "create " + second},
		},
		{"our own, not in the cache yet", nil, []*appsv1.ControllerRevision{taken(base, same)}, base, 7, nil, []string{"create " + base, "get " + base}},
		{
			"our own under the next name", nil,
			[]*appsv1.ControllerRevision{taken(base, otherData), taken(first, same)},
			first, 7, ptr.To[int32](1),
			[]string{"create " + base, "get " + base, "create " + first, "get " + first},
		},
		{"equal data of another owner", nil, []*appsv1.ControllerRevision{taken(base, otherOwner)}, first, 1, ptr.To[int32](1), nil},
		{"equal data of nobody", nil, []*appsv1.ControllerRevision{taken(base, noOwner)}, first, 1, ptr.To[int32](1), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(tc.existing...)
			d := decide(t, "app:v1", tc.collisions)
			if tc.want == "" {
				tc.want = d.Revision.Name
			}
			rev, count, err := s.write(t, d, tc.collisions)
			if err != nil {
				t.Fatal(err)
			}
			if rev.Name != tc.want || rev.Revision != tc.number || rev.ResourceVersion == "" || metav1.GetControllerOf(rev).UID != "u1" {
				t.Errorf("revision %s number %d, want %s number %d as the API server has it: %+v", rev.Name, rev.Revision, tc.want, tc.number, rev.ObjectMeta)
			}
			if diff := cmp.Diff(tc.count, count); diff != "" {
				t.Errorf("collision count (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.requests, s.requests); tc.requests != nil && diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if _, there := s.all(t)[tc.want]; !there || len(s.all(t)) > len(tc.existing)+1 {
				t.Errorf("the API server has %v", s.all(t))
			}
		})
	}
}

// TestCollisionCountGoesOn: the collision count continues from the previous count, and the hash label matches the new
// name.
func TestCollisionCountGoesOn(t *testing.T) {
	d := decide(t, "app:v1", ptr.To[int32](5))
	taken := d.Revision.DeepCopy()
	taken.Data.Raw = []byte(`{}`)
	given := ptr.To[int32](5)
	rev, count, err := newServer(taken).write(t, d, given)
	if err != nil {
		t.Fatal(err)
	}
	want := revision.Hash(d.Revision.Data.Raw, ptr.To[int32](6))
	if *count != 6 || *given != 5 || rev.Name != "web-"+want || rev.Labels[keys.HashLabel] != want {
		t.Errorf("R-3 count %d (given %d), name %s, labels %v; want 6, 5 and hash %s", *count, *given, rev.Name, rev.Labels, want)
	}
}

func TestCreateGivesUp(t *testing.T) {
	s := newServer()
	s.fail = func(request string) error {
		if request == "create" {
			return apierrors.NewAlreadyExists(revisions, "x")
		}
		return nil
	}
	d := decide(t, "app:v1", nil)
	taken := d.Revision.DeepCopy()
	taken.Data.Raw = []byte(`{}`)
	h := of(t, nil)
	_, err := history.Write(t.Context(), s, everything{taken}, h, d)
	if err == nil || h.Collisions == nil || int(*h.Collisions) != len(s.requests) {
		t.Errorf("Write = %v, count %v after %d names; want an error and a count to go on from", err, h.Collisions, len(s.requests))
	}
}

// everything is a reader that returns the same object for every read.
type everything struct{ rev *appsv1.ControllerRevision }

func (e everything) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	e.rev.DeepCopyInto(obj.(*appsv1.ControllerRevision))
	return nil
}

func (everything) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("a list is not needed")
}

func TestFailuresPassThrough(t *testing.T) {
	broken := errors.New("connection refused")
	v1, v2 := stored(t, "app:v1", 1), stored(t, "app:v2", 2)
	for _, tc := range []struct {
		verb     string
		decision revision.Decision
		existing []*appsv1.ControllerRevision
	}{
		{"create", decide(t, "app:v1", nil), nil},
		{"get", decide(t, "app:v1", nil), []*appsv1.ControllerRevision{v1}},
		{"patch", decide(t, "app:v1", nil, v1, v2), []*appsv1.ControllerRevision{v1, v2}},
	} {
		t.Run(tc.verb, func(t *testing.T) {
			s := newServer(tc.existing...)
			s.fail = func(verb string) error {
				if verb == tc.verb {
					return broken
				}
				return nil
			}
			rev, count, err := s.write(t, tc.decision, ptr.To[int32](3))
			if !errors.Is(err, broken) || rev != nil || *count != 3 {
				t.Errorf("Write = %v, %d, %v; want the cause and the count of before", rev, *count, err)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	v1, v2, gone := stored(t, "app:v1", 1), stored(t, "app:v2", 2), stored(t, "app:v3", 3)
	s := newServer(v1, v2)
	if changed, err := history.Delete(t.Context(), s, []*appsv1.ControllerRevision{gone, v1}); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if diff := cmp.Diff(map[string]int64{v2.Name: 2}, s.all(t)); diff != "" {
		t.Errorf("R-8 what is left (-want +got):\n%s", diff)
	}
	options := (&client.DeleteOptions{}).ApplyOptions(s.options)
	if p, _ := json.Marshal(options.Preconditions); string(p) != `{"uid":"uid-app:v1"}` {
		t.Errorf("preconditions %s", p)
	}
	// The API server refuses the deletion of v2, because another revision, with another UID, has the name now.
	s.fail = func(string) error {
		return apierrors.NewConflict(revisions, v2.Name, errors.New("UID in precondition"))
	}
	s.requests = nil
	if changed, err := history.Delete(t.Context(), s, []*appsv1.ControllerRevision{v2, v1}); changed || !apierrors.IsConflict(err) {
		t.Errorf("Delete of a successor = %t, %v, want a conflict", changed, err)
	}
	if diff := cmp.Diff([]string{"delete " + v2.Name, "delete " + v1.Name}, s.requests); diff != "" {
		t.Errorf("one failure keeps others (-want +got):\n%s", diff)
	}
}

// TestSync: Sync finds the revision of a template, or writes a new revision.
func TestSync(t *testing.T) {
	v1 := stored(t, "app:v1", 1)
	s := newServer(v1)
	h := of(t, nil, v1)
	if changed, err := history.Sync(t.Context(), s, live{s}, h, template("app:v1")); changed || err != nil || h.Update != v1 || len(s.requests) != 0 {
		t.Errorf("Sync = %t, %v, %v after %v; want the one there is", changed, err, h.Update, s.requests)
	}
	changed, err := history.Sync(t.Context(), s, live{s}, h, template("app:v2"))
	if !changed || err != nil || h.Update.Name == v1.Name || h.Update.Revision != 2 || h.Update.ResourceVersion == "" || len(h.Revisions) != 2 {
		t.Errorf("Sync = %t, %v, %v; want a new revision 2", changed, err, h.Update)
	}
	changed, err = history.Sync(t.Context(), s, live{s}, h, template("app:v1"))
	if !changed || err != nil || h.Update.Name != v1.Name || h.Update.Revision != 3 || len(h.Revisions) != 2 {
		t.Errorf("Sync = %t, %v, %v; want the first again, as revision 3 of two", changed, err, h.Update)
	}
}

// TestDeletingOwner: Write writes nothing for an owner being deleted, and Update is then a revision stored in the API
// server, or nil.
func TestDeletingOwner(t *testing.T) {
	s := newServer()
	histories, err := revision.NewHistories(keys, revision.NewDecoder(10, nil))
	if err != nil {
		t.Fatal(err)
	}
	leaving := owner()
	leaving.Deleting = true
	h := histories.Of(leaving, nil, nil)
	if changed, err := history.Sync(t.Context(), s, live{s}, h, template("app:v1")); changed || err != nil || len(s.requests) != 0 || h.Update != nil {
		t.Errorf("Sync = %t, %v after %v, update %v", changed, err, s.requests, h.Update)
	}
	leaving.Deleting = false
	h = histories.Of(leaving, nil, nil)
	if changed, err := history.Sync(t.Context(), s, live{s}, h, template("app:v1")); !changed || err != nil {
		t.Fatalf("Sync = %t, %v", changed, err)
	}
	requests := len(s.requests)
	leaving.Deleting = true
	h = histories.Of(leaving, nil, h.Revisions)
	if changed, err := history.Sync(t.Context(), s, live{s}, h, template("app:v1")); changed || err != nil || len(s.requests) != requests || h.Update == nil {
		t.Errorf("Sync = %t, %v after %v, update %v", changed, err, s.requests, h.Update)
	}
}
