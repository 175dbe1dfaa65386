package ownerrefs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/adopt/ownerrefs"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	podKind  = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	setKind  = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Set"}
	resource = schema.GroupResource{Resource: "pods"}
)

// apiServer simulates an API server with an owner, and with Pods by name.
type apiServer struct {
	client.Client

	mu      sync.Mutex
	owner   *metav1.PartialObjectMetadata
	pods    map[string]*corev1.Pod
	fail    map[string]error
	patched []string
	custom  bool // whether the kind is custom, so that its lists cannot be merged
	reads   int
	readErr error
}

func newServer(pods ...*corev1.Pod) *apiServer {
	s := &apiServer{owner: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "mine"}}, pods: map[string]*corev1.Pod{}, fail: map[string]error{}}
	for _, p := range pods {
		s.pods[p.Name] = p.DeepCopy()
	}
	return s
}

func (s *apiServer) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.readErr != nil {
		return s.readErr
	}
	if s.owner == nil || key.Name != "web" || obj.GetObjectKind().GroupVersionKind() != setKind {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "sets"}, key.Name)
	}
	s.owner.DeepCopyInto(obj.(*metav1.PartialObjectMetadata))
	return nil
}

func (s *apiServer) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patched = append(s.patched, obj.GetName())
	if err := s.fail[obj.GetName()]; err != nil {
		return err
	}
	if s.custom && patch.Type() == types.StrategicMergePatchType {
		return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", resource, obj.GetName(), "", 0, false)
	}
	pod := s.pods[obj.GetName()]
	if pod == nil {
		return apierrors.NewNotFound(resource, obj.GetName())
	}
	merged, err := merge(pod, patch)
	if err != nil {
		return err
	}
	fresh := &corev1.Pod{}
	if err := json.Unmarshal(merged, fresh); err != nil {
		return err
	}
	if fresh.ResourceVersion != pod.ResourceVersion {
		return apierrors.NewConflict(resource, obj.GetName(), errors.New("the object has been modified"))
	}
	controllers := 0
	for _, ref := range fresh.OwnerReferences {
		if ptr.Deref(ref.Controller, false) {
			controllers++
		}
	}
	if fresh.UID != pod.UID || controllers > 1 {
		return apierrors.NewInvalid(podKind.GroupKind(), obj.GetName(), field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "", "field is immutable")})
	}
	fresh.ResourceVersion = "8"
	s.pods[pod.Name] = fresh
	obj.SetResourceVersion(fresh.ResourceVersion)
	return nil
}

func merge(pod *corev1.Pod, patch client.Patch) ([]byte, error) {
	old, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	body, err := patch.Data(pod)
	switch {
	case err != nil:
		return nil, err
	case patch.Type() == types.MergePatchType:
		return mergeMetadata(old, body)
	}
	return strategicpatch.StrategicMergePatch(old, body, &corev1.Pod{})
}

// mergeMetadata applies a merge patch of metadata, in which no field is an object.
func mergeMetadata(old, body []byte) ([]byte, error) {
	var object map[string]any
	var change map[string]map[string]any
	if err := errors.Join(json.Unmarshal(old, &object), json.Unmarshal(body, &change)); err != nil {
		return nil, err
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || len(change) != 1 {
		return nil, fmt.Errorf("not a change of metadata: %s", body)
	}
	maps.Copy(metadata, change["metadata"])
	return json.Marshal(object)
}

// GroupVersionKindFor knows the two kinds of this test.
func (s *apiServer) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	if _, ok := obj.(*corev1.Pod); ok {
		return podKind, nil
	}
	return setKind, nil
}

// view is a fanout.Observed with an owner.
type view struct{ metav1.PartialObjectMetadata }

func (v *view) Object() client.Object   { return &v.PartialObjectMetadata }
func (v *view) Time() time.Time         { return time.Time{} }
func (v *view) InDoubt() bool           { return false }
func (v *view) WakeAfter(time.Duration) {}
func (v *view) Gone(metav1.Object) bool { return false }

func pass() *fanout.Pass {
	v := &view{}
	v.Namespace, v.Name, v.UID = "default", "web", "mine"
	return fanout.New(1).Begin(v)
}

func newPod(name string, refs ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", OwnerReferences: refs,
	}}
}

func objects(pods ...*corev1.Pod) []*corev1.Pod { return pods }

var (
	foreign = metav1.OwnerReference{APIVersion: "v1", Kind: "Other", Name: "o", UID: "theirs"}
	rival   = metav1.OwnerReference{APIVersion: "v1", Kind: "Other", Name: "o", UID: "rival", Controller: ptr.To(true)}
	mine    = metav1.OwnerReference{
		APIVersion: "example.com/v1", Kind: "Set", Name: "web", UID: "mine", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
)

func TestAdopt(t *testing.T) {
	a, b := newPod("a"), newPod("b", foreign)
	s := newServer(a, b)
	if err := ownerrefs.Adopt(t.Context(), pass(), s, s, objects(a, b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{mine}, s.pods["a"].OwnerReferences); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	if got := s.pods["b"].OwnerReferences; len(got) != 2 || !slices.ContainsFunc(got, func(r metav1.OwnerReference) bool { return r.UID == "theirs" }) {
		t.Errorf("another owner's reference was lost: %v", got)
	}
	if s.reads != 1 {
		t.Errorf("owner read %d times, want once for all objects", s.reads)
	}
}

func TestNothingToAdoptReadsNothing(t *testing.T) {
	s := newServer()
	if err := ownerrefs.Adopt(t.Context(), pass(), s, s, objects()); err != nil || s.reads != 0 {
		t.Errorf("Adopt of nothing = %v with %d reads", err, s.reads)
	}
}

func TestAdoptChecksTheOwner(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name    string
		prepare func(*apiServer)
		want    error
	}{
		{"gone", func(s *apiServer) { s.owner = nil }, ownerrefs.OwnerGone},
		{"replaced", func(s *apiServer) { s.owner.UID = "successor" }, ownerrefs.OwnerGone},
		{"being deleted", func(s *apiServer) { s.owner.DeletionTimestamp = ptr.To(metav1.Now()) }, ownerrefs.OwnerGone},
		{"cannot be read", func(s *apiServer) { s.readErr = broken }, broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newPod("a")
			s := newServer(a)
			tc.prepare(s)
			err := ownerrefs.Adopt(t.Context(), pass(), s, s, objects(a))
			if !errors.Is(err, tc.want) || len(s.patched) > 0 {
				t.Errorf("Adopt = %v, patched %v; want %v and no patch", err, s.patched, tc.want)
			}
		})
	}
}

func TestAdoptRaces(t *testing.T) {
	gone, replaced, taken, fine := newPod("gone"), newPod("replaced"), newPod("taken"), newPod("fine")
	s := newServer(replaced, taken, fine)
	s.pods["replaced"].UID = "successor"
	s.pods["taken"].OwnerReferences = []metav1.OwnerReference{rival}
	p := pass()
	err := ownerrefs.Adopt(t.Context(), p, s, s, objects(gone, replaced, taken, fine))
	if !errors.Is(err, ownerrefs.AdoptionLost) || !reason.IsFinal(err) {
		t.Errorf("error = %v, want AdoptionLost, which is final", err)
	}
	if result, err := p.Result(err); result.RequeueAfter <= 0 || err != nil {
		t.Errorf("Result = %v, %v: nobody looks again, and no event need tell", result, err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{mine}, s.pods["fine"].OwnerReferences); diff != "" {
		t.Errorf("references of fine (-want +got):\n%s", diff)
	}
	for _, name := range []string{"replaced", "taken"} {
		if !strings.Contains(err.Error(), "Pod default/"+name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
	if strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v names an object that is merely gone", err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{rival}, s.pods["taken"].OwnerReferences); diff != "" {
		t.Errorf("the rival's Pod was changed:\n%s", diff)
	}
	if len(s.pods["replaced"].OwnerReferences) > 0 {
		t.Error("a successor was adopted")
	}
}

func TestAdoptStopsWhereRightsAreMissing(t *testing.T) {
	var list []*corev1.Pod
	s := newServer()
	for i := range 50 {
		name := fmt.Sprint(i)
		list = append(list, newPod(name))
		s.fail[name] = apierrors.NewForbidden(resource, name, errors.New("rbac"))
	}
	if err := ownerrefs.Adopt(t.Context(), pass(), s, s, list); !apierrors.IsForbidden(err) || len(s.patched) != 1 {
		t.Errorf("error = %v after %d patches, want Forbidden after 1", err, len(s.patched))
	}
}

// TestReleaseRefused: a policy may refuse with the same status code as a failed check of the UID. After such a
// refusal, Release returns an error.
func TestReleaseRefused(t *testing.T) {
	s := newServer(newPod("kept", mine))
	s.fail["kept"] = apierrors.NewInvalid(podKind.GroupKind(), "kept", field.ErrorList{field.Forbidden(nil, "kept by policy")})
	if err := ownerrefs.Release(t.Context(), pass(), s, objects(newPod("kept", mine))); !apierrors.IsInvalid(err) {
		t.Errorf("error = %v, want the refusal", err)
	}
}

func TestRelease(t *testing.T) {
	held, free, gone, replaced, busy := newPod("held", mine, foreign), newPod("free"), newPod("gone"), newPod("replaced", mine), newPod("busy", mine)
	s := newServer(held, free, replaced, busy)
	s.pods["replaced"].UID = "successor"
	s.fail["busy"] = apierrors.NewConflict(resource, "busy", errors.New("again"))
	s.owner = nil // the owner need not exist for a release
	err := ownerrefs.Release(t.Context(), pass(), s, objects(held, free, gone, replaced, busy))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Pod default/busy") {
		t.Errorf("error = %v, want the conflict of busy alone", err)
	}
	for _, name := range []string{"held", "free", "gone", "replaced"} {
		if strings.Contains(err.Error(), "default/"+name) {
			t.Errorf("error %v names %s", err, name)
		}
	}
	if diff := cmp.Diff([]metav1.OwnerReference{foreign}, s.pods["held"].OwnerReferences); diff != "" {
		t.Errorf("references of held (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{mine}, s.pods["replaced"].OwnerReferences); diff != "" {
		t.Errorf("a successor was released:\n%s", diff)
	}
}

// TestCustomResources: for kinds whose lists cannot be merged, the references of other owners are kept, a strategic
// merge patch is tried only once, and an object that has changed since it was read causes a conflict.
func TestCustomResources(t *testing.T) {
	a, b, changed := newPod("a", foreign), newPod("b"), newPod("changed")
	s := newServer(a, b, changed)
	s.custom, s.pods["changed"].ResourceVersion = true, "6"
	err := ownerrefs.Adopt(t.Context(), pass(), s, s, objects(a, b, changed))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Pod default/changed") {
		t.Errorf("error = %v, want the conflict of changed alone", err)
	}
	for name, want := range map[string][]metav1.OwnerReference{"a": {foreign, mine}, "b": {mine}, "changed": nil} {
		if diff := cmp.Diff(want, s.pods[name].OwnerReferences); diff != "" {
			t.Errorf("adopted: references of %s (-want +got):\n%s", name, diff)
		}
	}
	if len(s.patched) != 4 {
		t.Errorf("%d patches of 3 objects, want 4: %v", len(s.patched), s.patched)
	}
	err = ownerrefs.Release(t.Context(), pass(), s, objects(s.pods["a"], s.pods["b"]))
	if got := s.pods["a"].OwnerReferences; err != nil || !cmp.Equal(got, []metav1.OwnerReference{foreign}) || len(s.pods["b"].OwnerReferences) > 0 {
		t.Errorf("released: %v, references of a %v, of b %v", err, got, s.pods["b"].OwnerReferences)
	}
}
