package faultapi

import (
	"fmt"
	"net/http"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// setField copies a field from another object of the same type, or clears the field if there is none. Objects without
// the field are not changed.
func setField(obj client.Object, name string, from client.Object) {
	f := reflect.ValueOf(obj).Elem().FieldByName(name)
	switch {
	case !f.IsValid():
	case from == nil:
		f.SetZero()
	default:
		f.Set(reflect.ValueOf(from).Elem().FieldByName(name))
	}
}

// sameContent reports whether two objects are equal except for metadata and status.
func sameContent(a, b client.Object) bool {
	a, b = clone(a), clone(b)
	for _, obj := range []client.Object{a, b} {
		for _, name := range []string{"TypeMeta", "ObjectMeta", "Status"} {
			setField(obj, name, nil)
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

func setAll(obj, from client.Object) { reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(from).Elem()) }

// patched applies a patch to a stored object and returns the result as a new object.
func (k *kind) patched(old client.Object, t types.PatchType, patch []byte) (client.Object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	after, err := k.applyPatch(before, t, patch)
	if err != nil {
		return nil, err
	}
	obj := newLike(old)
	if err := json.Unmarshal(after, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

func (k *kind) applyPatch(before []byte, t types.PatchType, patch []byte) ([]byte, error) {
	switch {
	case t == types.StrategicMergePatchType && k.merge() != nil:
		after, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(before, patch, k.merge())
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case t == types.MergePatchType:
		return mergePatch(before, patch)
	case t == types.JSONPatchType:
		return jsonPatch(before, patch)
	default:
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
			Message: fmt.Sprintf("%s is not supported for %s", t, k.resource),
		}}
	}
}

// mergePatch applies a JSON merge patch (RFC 7396).
func mergePatch(before, patch []byte) ([]byte, error) {
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, nil
}

// jsonPatch applies a JSON patch (RFC 6902).
func jsonPatch(before, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return after, nil
}

// answer copies a stored object into the caller's object.
func answer(gvk schema.GroupVersionKind, stored client.Object, into runtime.Object) error {
	switch out := into.(type) {
	case *metav1.PartialObjectMetadata:
		metadataOf(stored).DeepCopyInto(&out.ObjectMeta)
		out.SetGroupVersionKind(gvk)
	case *unstructured.Unstructured:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
		if err != nil {
			return fmt.Errorf("a %T as unstructured: %w", stored, err)
		}
		out.Object = content
		out.SetGroupVersionKind(gvk)
	default:
		if reflect.TypeOf(into) != reflect.TypeOf(stored) {
			return fmt.Errorf("a %T cannot hold a %T", into, stored)
		}
		setAll(into.(client.Object), clone(stored))
	}
	return nil
}

func metadataOf(obj client.Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// answerList copies stored objects into a list.
func answerList(gvk schema.GroupVersionKind, stored []client.Object, version string, into client.ObjectList) error {
	into.SetResourceVersion(version)
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	if !items.IsValid() {
		return fmt.Errorf("a %T has no items", into)
	}
	items.Set(reflect.MakeSlice(items.Type(), len(stored), len(stored)))
	for i, obj := range stored {
		item, ok := reflect.TypeAssert[client.Object](items.Index(i).Addr())
		if !ok {
			return fmt.Errorf("items of a %T are no objects", into)
		}
		if err := answer(gvk, obj, item); err != nil {
			return err
		}
	}
	return nil
}

func newLike(obj client.Object) client.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
}

func sameObject(a, b client.Object) bool {
	return a != nil && b != nil && equality.Semantic.DeepEqual(a, b)
}

func labelsOf(obj client.Object) labels.Set { return obj.GetLabels() }
