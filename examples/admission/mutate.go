package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Mutate responds to a request with the missing defaults as a JSON patch; for kinds with Admit, also with all errors.
// Mutate is an [admission.HandlerFunc].
func (k *Rules[Hub, Old]) Mutate(ctx context.Context, req admission.Request) admission.Response {
	if err := k.about(req); err != nil {
		return Refuse(ctx, err)
	}
	creation := req.Operation == admissionv1.Create
	if (!creation && req.Operation != admissionv1.Update) || req.SubResource != "" {
		return admission.Allowed("")
	}
	if err := k.tooMuch(req.Object.Raw, req.OldObject.Raw, req.Name); err != nil {
		return Refuse(ctx, err)
	}
	obj, err := k.decode(req.Object.Raw, req.Kind.Version, req.Name)
	if err != nil && leavesSpec(req) {
		return admission.Allowed("")
	}
	if err != nil {
		return Refuse(ctx, err)
	}
	var stored object[Hub, Old]
	if !creation {
		stored = k.decodeStored(ctx, req)
	}
	before, after, err := k.defaulted(ctx, req, obj, stored)
	if err != nil {
		return Refuse(ctx, err)
	}
	return k.patched(ctx, req, before, after)
}

// defaulted returns the object before and after defaulting, both in the API version of the request.
func (k *Rules[Hub, Old]) defaulted(ctx context.Context, req admission.Request, obj, stored object[Hub, Old]) (before, after map[string]any, err error) {
	tree := runtime.DefaultUnstructuredConverter.ToUnstructured
	if obj.old == nil {
		if before, err = tree(obj.hub); err != nil {
			return nil, nil, fmt.Errorf("encoding: %w", err)
		}
		if err := k.complete(ctx, req, obj, stored); err != nil {
			return nil, nil, err
		}
		after, err = tree(obj.hub)
		return before, after, err
	}
	if before, err = tree(obj.old); err != nil {
		return nil, nil, fmt.Errorf("encoding: %w", err)
	}
	if k.DefaultOld != nil {
		k.DefaultOld(obj.old)
	}
	if obj.hub, err = rewritten[Hub](obj.old, k.apiVersion(k.HubVersion)); err != nil {
		return nil, nil, fmt.Errorf("converting to %s: %w", k.HubVersion, err)
	}
	if err := k.complete(ctx, req, obj, stored); err != nil {
		return nil, nil, err
	}
	back, err := rewritten[Old](obj.hub, k.apiVersion(k.OldVersion))
	if err != nil {
		return nil, nil, fmt.Errorf("converting back to %s: %w", k.OldVersion, err)
	}
	after, err = tree(back)
	return before, after, err
}

// rewritten converts a Go object to another API version, with only the fields that the Go type has.
func rewritten[T any](obj any, apiVersion string) (*T, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return converted[T](raw, apiVersion)
}

// complete sets missing fields in the hub version of an object. The caller must refuse the request if complete
// returns an error.
func (k *Rules[Hub, Old]) complete(ctx context.Context, req admission.Request, obj, stored object[Hub, Old]) error {
	if k.Admit == nil {
		k.Default(obj.hub, stored.hub)
		return nil
	}
	problems := k.lost(req, stored)
	more, err := k.Admit(ctx, obj.hub, stored.hub)
	if err != nil {
		return err
	}
	if problems = append(problems, more...); obj.old != nil {
		problems = k.inOldVersion(problems, obj.old, stored.old)
	}
	if len(problems) > 0 {
		return apierrors.NewInvalid(k.GroupKind, req.Name, capped(problems))
	}
	return nil
}

// patched responds with a patch for the object that the API server has sent. The patch also removes withdrawn fields.
func (k *Rules[Hub, Old]) patched(ctx context.Context, req admission.Request, before, after map[string]any) admission.Response {
	var sent map[string]any
	if err := utiljson.Unmarshal(req.Object.Raw, &sent); err != nil {
		return Refuse(ctx, fmt.Errorf("decoding: %w", err))
	}
	var operations patch
	operations.object("", sent, before, after)
	response := admission.Allowed("")
	if spec, ok := sent["spec"].(map[string]any); ok && req.Kind.Version == k.OldVersion {
		for _, name := range slices.Sorted(maps.Keys(k.Withdrawn)) {
			if _, there := spec[name]; there {
				operations = append(operations, operation{Op: "remove", Path: "/spec/" + escape(name)})
				response.Warnings = append(response.Warnings, k.Withdrawn[name])
			}
		}
	}
	if len(operations) == 0 {
		return response
	}
	encoded, err := json.Marshal(operations)
	if err != nil {
		return Refuse(ctx, fmt.Errorf("encoding the patch: %w", err))
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = encoded, &kind
	return response
}
