package claimwriter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/pvc/claimwriter"
	"github.com/workloadkit/workloadkit/reason"
)

func newClaim(name string, owners ...types.UID) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	for _, uid := range owners {
		claim.OwnerReferences = append(claim.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Web", Name: "web", UID: uid})
	}
	return claim
}

// api returns a client that stores claims. If refuse returns an error for a request, the request fails with this
// error. sent counts the requests.
func api(refuse func(verb, name string) error, sent *int, claims ...client.Object) client.Client {
	answer := func(verb string, obj client.Object) error {
		if *sent++; refuse == nil {
			return nil
		}
		return refuse(verb, obj.GetName())
	}
	return fake.NewClientBuilder().WithObjects(claims...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := answer("create", obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := answer("delete", obj); err != nil {
				return err
			}
			var o client.DeleteOptions
			o.ApplyOptions(opts)
			if o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID != obj.GetUID() {
				return errors.New("deleted without its UID")
			}
			return c.Delete(ctx, obj) // the fake client does not support the precondition
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := answer("patch", obj); err != nil {
				return err
			}
			if body, err := patch.Data(obj); err != nil || !strings.Contains(string(body), `"uid":"uid-`+obj.GetName()+`"`) {
				return fmt.Errorf("patched without its UID: %s, %w", body, err)
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
}

func stored(t *testing.T, c client.Client, name string) (claim corev1.PersistentVolumeClaim, ok bool) {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &claim)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return claim, err == nil
}

func Example() {
	c := fake.NewClientBuilder().Build()
	volumes := []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	missing := pvc.Missing(volumes, "default", "web-0", nil, nil, func(string) bool { return false })
	for range 2 { // in the second call the claim exists
		fmt.Println(claimwriter.Create(context.Background(), c, missing))
		missing[0].ResourceVersion = ""
	}
	fmt.Println(claimwriter.Delete(context.Background(), c, missing[0]))
	fmt.Println(claimwriter.Delete(context.Background(), c, missing[0]))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
}

func forbidden(verb, name string) func(string, string) error {
	return func(v, n string) error {
		if v != verb || n != name {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), n, errors.New("quota"))
	}
}

func TestCreate(t *testing.T) {
	var sent int
	c := api(forbidden("create", "c"), &sent, newClaim("a"))
	err := claimwriter.Create(t.Context(), c, []*corev1.PersistentVolumeClaim{newClaim("a"), newClaim("b"), newClaim("c"), newClaim("d")})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "default/c") {
		t.Errorf("Create = %v, want what was refused, by name", err)
	}
	_, b := stored(t, c, "b")
	if _, d := stored(t, c, "d"); !b || d || sent != 3 {
		t.Errorf("b is there %t, d %t, after %d requests; want all before the refusal and none behind it", b, d, sent)
	}
}

func TestDelete(t *testing.T) {
	var sent int
	c := api(forbidden("delete", "b"), &sent, newClaim("a"), newClaim("b"))
	if err := claimwriter.Delete(t.Context(), c, newClaim("a")); err != nil {
		t.Error(err)
	}
	if _, ok := stored(t, c, "a"); ok {
		t.Error("it is still there")
	}
	if err := claimwriter.Delete(t.Context(), c, newClaim("a")); err != nil {
		t.Errorf("of a claim that is gone: %v", err)
	}
	if err := claimwriter.Delete(t.Context(), c, newClaim("b")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "default/b") {
		t.Errorf("Delete = %v, want what was refused, by name", err)
	}
}

func TestHandOver(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid-of-pod"}}
	transfer := func(claim *corev1.PersistentVolumeClaim) pvc.Transfer { return pvc.Transfer{Claim: claim, Pod: pod} }
	var sent int
	c := api(forbidden("patch", "b"), &sent, newClaim("a", "other", "owner"), newClaim("b", "owner"))
	cached, _ := stored(t, c, "a")
	if err := claimwriter.HandOver(t.Context(), c, "owner", transfer(&cached)); err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Web", Name: "web", UID: "other"}, {APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "uid-of-pod"},
	}
	after, _ := stored(t, c, "a")
	if diff := cmp.Diff(want, after.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if err := claimwriter.HandOver(t.Context(), c, "owner", transfer(&cached)); !apierrors.IsConflict(err) {
		t.Errorf("of a claim that somebody has changed meanwhile: %v, want a conflict", err)
	}
	again := transfer(&after)
	if err := claimwriter.HandOver(t.Context(), c, "owner", again); err != nil {
		t.Error(err)
	}
	if after, _ := stored(t, c, "a"); len(after.OwnerReferences) != 2 {
		t.Errorf("handed over twice, its owners are %v", after.OwnerReferences)
	}
	if err := claimwriter.HandOver(t.Context(), c, "owner", transfer(newClaim("gone", "owner"))); err != nil {
		t.Errorf("of a claim that is gone: %v", err)
	}
	if err := claimwriter.HandOver(t.Context(), c, "owner", transfer(newClaim("b", "owner"))); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "default/b") || !strings.Contains(err.Error(), "web-0") {
		t.Errorf("HandOver = %v, want what was refused, by name", err)
	}
}

func TestSetOwners(t *testing.T) {
	var sent int
	c := api(forbidden("patch", "b"), &sent, newClaim("a", "other", "owner"), newClaim("b"))
	cached, _ := stored(t, c, "a")
	if err := claimwriter.SetOwners(t.Context(), c, pvc.Owned{PersistentVolumeClaim: &cached, Owners: cached.OwnerReferences[:1]}); err != nil {
		t.Fatal(err)
	}
	after, _ := stored(t, c, "a")
	if diff := cmp.Diff(cached.OwnerReferences[:1], after.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if err := claimwriter.SetOwners(t.Context(), c, pvc.Owned{PersistentVolumeClaim: &cached}); !apierrors.IsConflict(err) {
		t.Errorf("of a claim that somebody has changed meanwhile: %v, want a conflict", err)
	}
	if err := claimwriter.SetOwners(t.Context(), c, pvc.Owned{PersistentVolumeClaim: &after}); err != nil {
		t.Fatal(err)
	}
	if after, _ := stored(t, c, "a"); len(after.OwnerReferences) != 0 {
		t.Errorf("owners %v, want none", after.OwnerReferences)
	}
	if err := claimwriter.SetOwners(t.Context(), c, pvc.Owned{PersistentVolumeClaim: newClaim("gone")}); err != nil {
		t.Errorf("of a claim that is gone: %v", err)
	}
	if err := claimwriter.SetOwners(t.Context(), c, pvc.Owned{PersistentVolumeClaim: newClaim("b")}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "default/b") {
		t.Errorf("SetOwners = %v, want what was refused, by name", err)
	}
}

func TestGrow(t *testing.T) {
	sized := func(name, class string) *corev1.PersistentVolumeClaim {
		claim := newClaim(name, "owner")
		claim.Annotations = map[string]string{"of": "somebody"}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if class != "" {
			claim.Spec.StorageClassName = &class
		}
		return claim
	}
	template := sized("data", "")
	template.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	var sent int
	fast, slow := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: new(true)}, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}
	c := api(forbidden("patch", "b"), &sent, sized("a", "fast"), sized("b", ""), sized("c", "slow"), sized("d", "none"), fast, slow)
	grow := func(claim *corev1.PersistentVolumeClaim) error {
		return grow(t, c, pvc.Small{PersistentVolumeClaim: claim, Template: template}, "spec.claims[data]", map[string]string{"grown": "by us"})
	}
	cached, _ := stored(t, c, "a")
	if err := grow(&cached); err != nil {
		t.Fatal(err)
	}
	after, _ := stored(t, c, "a")
	if got := after.Spec.Resources.Requests.Storage().String(); got != "2Gi" {
		t.Errorf("it asks for %s", got)
	}
	if diff := cmp.Diff(map[string]string{"of": "somebody", "grown": "by us"}, after.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if err := grow(&cached); !apierrors.IsConflict(err) {
		t.Errorf("of a claim that somebody has changed meanwhile, and perhaps enlarged: %v, want a conflict", err)
	}
	if err := grow(sized("b", "")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "default/b") || !strings.Contains(err.Error(), "2Gi") {
		t.Errorf("Grow = %v, want what was refused, by name and size", err)
	}
	for name, class := range map[string]string{"c": "slow", "d": "none"} {
		err := grow(sized(name, class))
		if why := reason.From(err); !reason.IsFinal(err) || len(why) != 1 || why[0].Code != pvc.ClassCannotExpand || why[0].Path != "spec.claims[data]" {
			t.Errorf("Grow with class %s = %v", class, err)
		}
	}
	if sent != 3 {
		t.Errorf("%d requests, want those for the claims that may grow", sent)
	}
}

// TestPrepare: Prepare creates the missing claims of a Pod, and sets the wanted owner references of existing claims.
func TestPrepare(t *testing.T) {
	var sent int
	c := api(nil, &sent, newClaim("data-web-0"))
	n := &pvc.Numbered{
		Templates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, {ObjectMeta: metav1.ObjectMeta{Name: "logs"}}},
		Namespace: "default", Labels: map[string]string{"app": "web"}, Retention: &pvc.Retention{WithOwner: true},
		Owner: metav1.OwnerReference{APIVersion: "v1", Kind: "Web", Name: "web", UID: "owner"},
		Claim: func(name string) (*corev1.PersistentVolumeClaim, bool) {
			claim, ok := stored(t, c, name)
			return &claim, ok
		},
	}
	if err := claimwriter.Prepare(t.Context(), c, n, "web-0"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data-web-0", "logs-web-0"} {
		claim, _ := stored(t, c, name)
		if diff := cmp.Diff([]metav1.OwnerReference{n.Owner}, claim.OwnerReferences); diff != "" {
			t.Errorf("owners of %s (-want +got):\n%s", name, diff)
		}
	}
	if logs, _ := stored(t, c, "logs-web-0"); logs.Labels["app"] != "web" {
		t.Errorf("labels %v", logs.Labels)
	}
	going := *n
	going.Claim = func(name string) (*corev1.PersistentVolumeClaim, bool) {
		claim := newClaim(name)
		claim.DeletionTimestamp = &metav1.Time{}
		return claim, true
	}
	if err := claimwriter.Prepare(t.Context(), c, &going, "web-8"); !errors.Is(err, pvc.ClaimInTheWay) {
		t.Errorf("with a claim that is being deleted: %v", err)
	}
	late := *n
	late.Claim = func(name string) (*corev1.PersistentVolumeClaim, bool) { return newClaim(name), true }
	if err := claimwriter.Prepare(t.Context(), c, &late, "web-7"); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "default/data-web-7") {
		t.Errorf("with a claim that is gone and still in the cache: %v, want it by name", err)
	}
}

// grow reads the StorageClass of a claim, and resizes the claim.
func grow(t *testing.T, c client.Client, claim pvc.Small, path string, annotations map[string]string) error {
	t.Helper()
	return claimwriter.Grow(t.Context(), c, claimwriter.ReadClasses(t.Context(), c, []pvc.Small{claim}), claim, path, annotations)
}

// TestClassesAreReadOnce: each StorageClass is read once for all claims, in the order of the names. If a StorageClass
// cannot be read, only its own claims are not resized.
func TestClassesAreReadOnce(t *testing.T) {
	claim := func(name, class string) pvc.Small {
		return pvc.Small{PersistentVolumeClaim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		}, Template: &corev1.PersistentVolumeClaim{}}
	}
	claims := []pvc.Small{claim("data-db-0", "slow"), claim("data-db-1", "slow"), claim("data-db-2", "fast"), claim("data-db-3", "lost"), claim("data-db-4", "")}
	down := errors.New("down")
	var read []string
	c := fake.NewClientBuilder().WithObjects(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: ptr.To(true)},
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if read = append(read, key.Name); key.Name == "slow" {
				return down
			}
			return c.Get(ctx, key, into, options...)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return nil
		},
	}).Build()
	classes := claimwriter.ReadClasses(t.Context(), c, claims)
	if diff := cmp.Diff([]string{"fast", "lost", "slow"}, read); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for i, want := range []error{down, down, nil, pvc.ClassCannotExpand, nil} {
		if err := claimwriter.Grow(t.Context(), c, classes, claims[i], "spec", nil); !errors.Is(err, want) {
			t.Errorf("claim %d: %v, want %v", i, err, want)
		}
	}
	if err := claimwriter.Grow(t.Context(), c, claimwriter.Classes{}, claims[0], "spec", nil); err == nil {
		t.Error("a claim whose class was not read may grow")
	}
}

// TestPrepareWithoutLookup: Prepare returns an error if Numbered.Claim is not set.
func TestPrepareWithoutLookup(t *testing.T) {
	n := &pvc.Numbered{Templates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}}
	if err := claimwriter.Prepare(t.Context(), fake.NewClientBuilder().Build(), n, "db-0"); err == nil {
		t.Error("no error")
	}
	if why := n.InTheWay("db-0"); len(why) != 1 || why[0].Code != pvc.NoLookup {
		t.Errorf("in the way: %v", why)
	}
	if missing := n.Missing("db-0"); len(missing) > 0 || len(n.MissingOf(&corev1.Pod{})) > 0 || len(n.Owned("db-0", nil, true)) > 0 {
		t.Errorf("missing: %v", missing)
	}
	if sizes := n.Sizes("db-0"); sizes.Fit() {
		t.Error("claims of which nothing is known fit")
	}
}
