package resourcedistribution

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// share returns the owner reference of the ResourceDistribution in the tests.
func share() metav1.OwnerReference {
	return *metav1.NewControllerRef(&v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "share", UID: "u1"}},
		v1beta1.GroupVersion.WithKind("ResourceDistribution"))
}

func read(t testing.TB, text string) *api.Resource {
	t.Helper()
	r, errs := api.Read([]byte(text), field.NewPath("spec", "resource"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return r
}

const (
	demo = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"demo","labels":{"a":"1"},"annotations":{"note":"x"}},"data":{"k":"v"}}`
	pull = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull","finalizers":["f/one"]},"data":{"k":"djE="},"stringData":{"token":"abc"}}`
)

// stored returns a copy as the API server stores it.
func stored(t testing.TB, text string, edits ...func(api.Object)) api.Object {
	t.Helper()
	out := read(t, text).Copy("shop", share())
	out.SetUID("c1")
	out.SetResourceVersion("7")
	for _, edit := range edits {
		edit(out)
	}
	return out
}

func data(edit func(data map[string]string)) func(api.Object) {
	return func(o api.Object) { edit(o.(*corev1.ConfigMap).Data) } //nolint:forcetypeassert // It is one.
}

func TestDecide(t *testing.T) {
	type m = map[string]any
	of := func(meta m, content m) m {
		out := m{"metadata": m{"uid": "c1", "resourceVersion": "7"}}
		maps.Copy(out["metadata"].(m), meta) //nolint:forcetypeassert // It is one.
		maps.Copy(out, content)
		return out
	}
	secret := func(edit func(*corev1.Secret)) func(api.Object) {
		return func(o api.Object) { edit(o.(*corev1.Secret)) } //nolint:forcetypeassert // It is one.
	}
	hash := read(t, demo).Hash
	for _, c := range []struct {
		name, template string
		live           api.Object
		action         action
		why            string
		patch          m
	}{
		{"RD-6 nothing differs", demo, stored(t, demo), "None", "", nil},
		{"RD-6 stringData is data", pull, stored(t, pull), "None", "", nil},
		{"RD-6 empty data is none", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"demo"},"data":{},"immutable":false}`, stored(
			t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"demo"},"data":{},"immutable":false}`, func(o api.Object) { o.(*corev1.ConfigMap).Data, o.(*corev1.ConfigMap).Immutable = nil, nil }), "None", "", nil}, //nolint:forcetypeassert // It is one.
		{"RD-6 what others added stays", demo, stored(t, demo, func(o api.Object) {
			o.GetLabels()["theirs"], o.GetAnnotations()["theirs"] = "1", "1"
			o.SetFinalizers([]string{"their/own"})
		}), "None", "", nil},
		{"RD-6 the label of the template reaches the copy", demo, stored(t, demo, func(o api.Object) { o.SetLabels(nil) }), "Update", "", of(m{"labels": m{"a": "1"}}, nil)},
		{"RD-6 an annotation and the hash", demo, stored(t, demo, func(o api.Object) {
			o.SetAnnotations(map[string]string{"note": "old", apps.AnnotationDistributedFrom: "share", apps.AnnotationDistributedHash: "old"})
		}), "Update", "", of(m{"annotations": m{"note": "x", apps.AnnotationDistributedHash: hash}}, nil)},
		{"RD-7 finalizers are united", pull, stored(t, pull, func(o api.Object) { o.SetFinalizers([]string{"their/own"}) }), "Update", "", of(m{"finalizers": []any{"their/own", "f/one"}}, nil)},
		{"RD-9 a value was edited, a key added and one taken", demo, stored(t, demo, data(func(d map[string]string) {
			delete(d, "k")
			d["more"] = "x"
		})), "Update", "", of(nil, m{"data": m{"k": "v", "more": nil}})},
		{"RD-9 binaryData was added", demo, stored(t, demo, func(o api.Object) { o.(*corev1.ConfigMap).BinaryData = map[string][]byte{"b": {1}} }), "Update", "", of(nil, m{"binaryData": m{"b": nil}})}, //nolint:forcetypeassert // It is one.
		{"RD-9 a Secret's value was edited", pull, stored(t, pull, secret(func(s *corev1.Secret) { s.Data["token"] = []byte("no") })), "Update", "", of(nil, m{"data": m{"token": "YWJj"}})},
		{"RD-5 somebody else's", demo, stored(t, demo, func(o api.Object) { o.SetOwnerReferences(nil) }), "Leave", "NameTaken", nil},
		{"RD-5 another distributor's", demo, stored(t, demo, func(o api.Object) {
			refs := o.GetOwnerReferences()
			refs[0].Name = "other"
			o.SetOwnerReferences(refs)
		}), "Leave", "NameTaken", nil},
		{"RD-5 of another group", demo, stored(t, demo, func(o api.Object) {
			refs := o.GetOwnerReferences()
			refs[0].APIVersion = "example.test/v1"
			o.SetOwnerReferences(refs)
		}), "Leave", "NameTaken", nil},
		{"RD-5 owned without being controlled", demo, stored(t, demo, func(o api.Object) {
			refs := o.GetOwnerReferences()
			refs[0].Controller = nil
			o.SetOwnerReferences(refs)
		}), "Leave", "NameTaken", nil},
		{"RD-5 of a former one of the name", demo, stored(t, demo, func(o api.Object) {
			refs := append(o.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p1"})
			refs[0].UID, refs[0].APIVersion = "u0", "apps.kruise.io/v1alpha1"
			o.SetOwnerReferences(refs)
		}), "Update", "", of(m{"ownerReferences": []any{
			m{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "name": "share", "uid": "u1", "controller": true, "blockOwnerDeletion": true},
			m{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p1"},
		}}, nil)},
		{"being deleted", demo, stored(t, demo, func(o api.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }), "Leave", "CopyEnding", nil},
		{"a type that cannot change", pull, stored(t, pull, secret(func(s *corev1.Secret) { s.Type = "kubernetes.io/tls" })), "Leave", "SecretTypeFixed", nil},
		{"immutable, and another value", demo, stored(t, demo, func(o api.Object) {
			o.(*corev1.ConfigMap).Immutable, o.(*corev1.ConfigMap).Data["k"] = new(true), "old" //nolint:forcetypeassert // It is one.
		}), "Leave", "CopyImmutable", nil},
		{"immutable, and not to be", demo, stored(t, demo, func(o api.Object) { o.(*corev1.ConfigMap).Immutable = new(true) }), "Leave", "CopyImmutable", nil}, //nolint:forcetypeassert // It is one.
		{
			"immutable as it should be, but for a label", `{"immutable":true,` + demo[1:], stored(t, `{"immutable":true,`+demo[1:], func(o api.Object) { o.SetLabels(nil) }),
			"Update", "", of(m{"labels": m{"a": "1"}}, nil),
		},
		{"to be immutable", `{"immutable":true,` + demo[1:], stored(t, `{"immutable":true,`+demo[1:], func(o api.Object) { o.(*corev1.ConfigMap).Immutable = nil }), "Update", "", of(nil, m{"immutable": true})}, //nolint:forcetypeassert // It is one.
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decide(read(t, c.template), share(), c.live)
			var patch m
			if got.Patch != nil {
				encoded, err := json.Marshal(got.Patch)
				if err == nil {
					err = json.Unmarshal(encoded, &patch)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got.Action != c.action || string(got.Why.Code) != c.why {
				t.Errorf("%s %q, want %s %q", got.Action, got.Why.Code, c.action, c.why)
			}
			if diff := cmp.Diff(c.patch, patch); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGlance checks the decisions that need only metadata, and the cases in which the whole object must be read.
func TestGlance(t *testing.T) {
	resource, live := read(t, demo), stored(t, demo)
	as := known{UID: "c1", Version: "7", Hash: resource.Hash}
	edited := func(edit func(*known)) known {
		out := as
		edit(&out)
		return out
	}
	fixed := edited(func(k *known) { k.Why.Code = CopyImmutable })
	for _, c := range []struct {
		name  string
		found metav1.Object
		known known
		want  action
	}{
		{"RD-4 nothing is there", nil, as, "Create"},
		{"known at this version", live, as, "None"},
		{"known, and cannot be made so", live, fixed, "Leave"},
		{"not known", live, known{}, "Look"},
		{"RD-9 another version", live, edited(func(k *known) { k.Version = "6" }), "Look"},
		{"another object of the name", live, edited(func(k *known) { k.UID = "c0" }), "Look"},
		{"another template", live, edited(func(k *known) { k.Hash = "old" }), "Look"},
		{"RD-5 somebody else's", stored(t, demo, func(o api.Object) { o.SetOwnerReferences(nil) }), as, "Leave"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := glance(resource, share(), c.found, c.known); got.Action != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if c.found == nil {
				return
			}
			meta, ok := c.found.(interface{ GetObjectMeta() metav1.Object })
			if !ok {
				t.Fatalf("a %T", c.found)
			}
			found := meta.GetObjectMeta()
			kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: found.GetNamespace(), Name: found.GetName(), UID: found.GetUID(), ResourceVersion: found.GetResourceVersion(),
			}}
			keepOwner(kept, &metav1.PartialObjectMetadata{ObjectMeta: *found.(*metav1.ObjectMeta)}) //nolint:forcetypeassert // It is one.
			if got := glance(resource, share(), kept, c.known); got.Action != c.want {
				t.Errorf("by what is kept in memory: %+v, want %s", got, c.want)
			}
		})
	}
}

// TestFieldsOfCopies: ConfigMaps and Secrets have only the fields that decide compares. The test fails if Kubernetes
// adds a field.
func TestFieldsOfCopies(t *testing.T) {
	for kind, want := range map[reflect.Type][]string{
		reflect.TypeFor[corev1.ConfigMap](): {"TypeMeta", "ObjectMeta", "Immutable", "Data", "BinaryData"},
		reflect.TypeFor[corev1.Secret]():    {"TypeMeta", "ObjectMeta", "Immutable", "Data", "StringData", "Type"},
	} {
		var got []string
		for field := range kind.Fields() {
			got = append(got, field.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-compared +there): compare what is new\n%s", kind.Name(), diff)
		}
	}
}

// FuzzDecide: after the patch, a copy needs no further write, and keeps metadata of other clients. Objects of other
// owners and immutable objects get no patch.
func FuzzDecide(f *testing.F) {
	f.Add(demo, demo, true)
	f.Add(demo, `{"metadata":{"labels":{"b":"2"}},"data":{"k":"w","z":""},"immutable":true}`, true)
	f.Add(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":null},"binaryData":{"b":"AQ=="},"immutable":true}`, `{"data":{"k":"w"}}`, true)
	f.Add(pull, `{"type":"kubernetes.io/tls","data":{"token":"AQ=="}}`, true)
	f.Add(pull, `{"type":"Opaque","metadata":{"finalizers":["x/y"]},"data":{"token":"AQ=="}}`, true)
	f.Add(pull, pull, false)
	f.Fuzz(func(t *testing.T, template, live string, own bool) {
		resource, errs := api.Read([]byte(template), field.NewPath("spec", "resource"))
		if len(errs) > 0 {
			return
		}
		found := resource.Empty()
		if json.Unmarshal([]byte(live), found) != nil {
			return
		}
		found.SetNamespace("shop")
		found.SetUID("c1")
		found.SetResourceVersion("7")
		found.SetDeletionTimestamp(nil)
		found.SetOwnerReferences(nil)
		if own {
			found.SetOwnerReferences([]metav1.OwnerReference{share()})
		}
		if s, ok := found.(*corev1.Secret); ok {
			s.StringData = nil // the API server never returns this field
		}
		before, _ := json.Marshal(found)
		d := decide(resource, share(), found)
		if after, _ := json.Marshal(found); string(after) != string(before) {
			t.Fatal("the copy was changed")
		}
		switch {
		case !own && (d.Action != Leave || d.Patch != nil):
			t.Fatalf("%+v for what is somebody else's", d)
		case (d.Action == update) != (d.Patch != nil), (d.Action == Leave) != (d.Why.Code != ""):
			t.Fatalf("%+v", d)
		case d.Action != update:
			return
		}
		patch, err := json.Marshal(d.Patch)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := jsonpatch.MergePatch(before, patch)
		if err != nil {
			t.Fatal(err)
		}
		result := resource.Empty()
		if err := json.Unmarshal(merged, result); err != nil {
			t.Fatalf("%s: %v", merged, err)
		}
		if again := decide(resource, share(), result); again.Action != none {
			t.Fatalf("after %s: %+v", patch, again)
		}
		for key, value := range found.GetLabels() {
			if _, ours := resource.Copy("shop", share()).GetLabels()[key]; !ours && result.GetLabels()[key] != value {
				t.Errorf("label %s is lost", key)
			}
		}
		if want := resource.Copy("shop", share()); !cmp.Equal(content(want), content(result), cmpopts.EquateEmpty()) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(content(want), content(result), cmpopts.EquateEmpty()))
		}
	})
}

// content returns all fields except the metadata.
func content(o api.Object) any {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return []any{o.Data, o.BinaryData, o.Immutable != nil && *o.Immutable}
	case *corev1.Secret:
		return []any{o.Data, o.Type, o.Immutable != nil && *o.Immutable}
	}
	return nil
}
