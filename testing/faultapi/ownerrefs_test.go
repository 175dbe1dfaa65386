package faultapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/adopt/ownerrefs"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/install"
)

// ownerView is the owner's view for a fanout.Pass.
type ownerView struct{ thing }

func (v *ownerView) Object() client.Object   { return &v.thing }
func (v *ownerView) Time() time.Time         { return time.Time{} }
func (v *ownerView) InDoubt() bool           { return false }
func (v *ownerView) WakeAfter(time.Duration) {}
func (v *ownerView) Gone(metav1.Object) bool { return false }

// TestOwnerReferences: owners are custom resources, and so may be the owned objects.
func TestOwnerReferences(t *testing.T) {
	server, err := faultapi.New(newScheme(t), time.Now, &thing{})
	if err != nil {
		t.Fatal(err)
	}
	ownerReferences(t, server.Client(nil, nil), "default")
}

// TestOwnerReferencesOfRealServer is TestOwnerReferences against the real server.
func TestOwnerReferencesOfRealServer(t *testing.T) {
	c, err := client.New(env.Start(t).Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, []byte(thingCRD)); err != nil {
		t.Fatal(err)
	}
	ownerReferences(t, c, env.Namespace(t))
}

func ownerReferences(t *testing.T, c client.Client, namespace string) {
	owner, foreign := newThing(namespace), newThing(namespace)
	if err := errors.Join(c.Create(t.Context(), owner), c.Create(t.Context(), foreign)); err != nil {
		t.Fatal(err)
	}
	pass := fanout.New(4).Begin(&ownerView{*owner})
	others := []metav1.OwnerReference{{APIVersion: "faultapi.test/v1", Kind: "Thing", Name: foreign.Name, UID: foreign.UID}}
	mine := metav1.OwnerReference{
		APIVersion: "faultapi.test/v1", Kind: "Thing", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
	t.Run("built-in", func(t *testing.T) {
		pods := []*corev1.Pod{newOwned(namespace, others), newOwned(namespace, nil)}
		takeAndLeave(t, c, pass, mine, others, pods)
	})
	t.Run("custom", func(t *testing.T) {
		first, second, third := newThing(namespace), newThing(namespace), newThing(namespace)
		first.OwnerReferences = others
		takeAndLeave(t, c, pass, mine, others, []*thing{first, second, third})
	})
	t.Run("custom, changed since", func(t *testing.T) {
		stale := newThing(namespace)
		if err := c.Create(t.Context(), stale); err != nil {
			t.Fatal(err)
		}
		changed := stale.DeepCopyObject().(*thing)
		raw := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		if err := c.Patch(t.Context(), changed, raw); err != nil {
			t.Fatal(err)
		}
		if err := ownerrefs.Adopt(t.Context(), pass, c, c, []*thing{stale}); !apierrors.IsConflict(err) {
			t.Errorf("adopting an object that has changed: %v", err)
		}
		if err := ownerrefs.Adopt(t.Context(), pass, c, c, []*thing{changed}); err != nil {
			t.Errorf("adopting the object as it is: %v", err)
		}
	})
}

// takeAndLeave creates objects, of which the first also has other owners, and then adopts and releases all objects.
func takeAndLeave[T client.Object](
	t *testing.T, c client.Client, pass *fanout.Pass, mine metav1.OwnerReference, others []metav1.OwnerReference, objects []T,
) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, err error, extra ...metav1.OwnerReference) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i, object := range objects {
			if err := c.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			want := map[types.UID]metav1.OwnerReference{}
			for _, ref := range extra {
				want[ref.UID] = ref
			}
			for _, ref := range others[:len(others)*(1-min(i, 1))] {
				want[ref.UID] = ref
			}
			got := map[types.UID]metav1.OwnerReference{}
			for _, ref := range object.GetOwnerReferences() {
				got[ref.UID] = ref
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: references of object %d (-want +got):\n%s", what, i, diff)
			}
		}
	}
	check("adopting", ownerrefs.Adopt(t.Context(), pass, c, c, objects), mine)
	check("adopting once more", ownerrefs.Adopt(t.Context(), pass, c, c, objects), mine)
	check("releasing", ownerrefs.Release(t.Context(), pass, c, objects))
	check("releasing once more", ownerrefs.Release(t.Context(), pass, c, objects))
}

func newThing(namespace string) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-"}, Spec: thingSpec{Replicas: ptr.To[int32](1)}}
}

func newOwned(namespace string, owners []metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-", OwnerReferences: owners},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
}
