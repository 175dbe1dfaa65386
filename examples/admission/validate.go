package admission

import (
	"context"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
)

// Validate responds to a request with all errors: 422 for invalid objects, 403 for forbidden deletions. Validate is an
// [admission.HandlerFunc].
func (k *Rules[Hub, Old]) Validate(ctx context.Context, req admission.Request) admission.Response {
	if err := k.about(req); err != nil {
		return Refuse(ctx, err)
	}
	ctx = admission.NewContextWithRequest(ctx, req)
	var err error
	var warnings []string
	switch {
	case req.SubResource != "":
	case req.Operation == admissionv1.Create:
		warnings, err = k.validateWrite(ctx, req, object[Hub, Old]{})
	case req.Operation == admissionv1.Update:
		warnings, err = k.validateWrite(ctx, req, k.decodeStored(ctx, req))
	case req.Operation == admissionv1.Delete && k.ValidateDelete != nil:
		err = k.validateDelete(req)
	}
	if err != nil {
		return Refuse(ctx, err)
	}
	response := admission.Allowed("")
	if len(warnings) > 0 {
		logf.FromContext(ctx).Info("admitted with warnings", "warnings", warnings)
		response = response.WithWarnings(warnings...)
	}
	return response
}

// validateWrite validates a creation if there is no stored object, otherwise an update.
func (k *Rules[Hub, Old]) validateWrite(ctx context.Context, req admission.Request, stored object[Hub, Old]) (warnings []string, err error) {
	if k.Closed != nil && !leavesSpec(req) {
		if err := k.Closed(); err != nil {
			return nil, apierrors.NewForbidden(schema.GroupResource{Group: k.GroupKind.Group, Resource: k.Resource}, req.Name, err)
		}
	}
	if err := k.tooMuch(req.Object.Raw, req.OldObject.Raw, req.Name); err != nil {
		return nil, err
	}
	obj, err := k.decode(req.Object.Raw, req.Kind.Version, req.Name)
	if err != nil && leavesSpec(req) {
		return []string{"the object is stored with a spec that cannot be read: " + err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	problems, err := k.problems(ctx, obj, stored)
	if err != nil {
		return nil, err
	}
	warning := ""
	if len(problems) == 0 {
		problems = k.lost(req, stored)
	}
	if len(problems) == 0 && k.CheckTemplate != nil {
		problems, warning = k.CheckTemplate(ctx, obj.hub, stored.hub)
	}
	if len(problems) > 0 {
		return nil, apierrors.NewInvalid(k.GroupKind, req.Name, capped(problems))
	}
	warnings = append(k.warnings(obj, stored), unknownFields(k.TemplateParts, req.Object.Raw, req.OldObject.Raw), warning)
	return slices.DeleteFunc(warnings, func(text string) bool { return text == "" }), nil
}

// warnings returns the warnings about an object that the stored object does not have, and about the update.
func (k *Rules[Hub, Old]) warnings(obj, stored object[Hub, Old]) (due []string) {
	if k.Warn != nil {
		due = k.Warn(obj.hub, obj.old)
	}
	if stored.hub == nil {
		return due
	}
	if k.Warn != nil {
		before := k.Warn(stored.hub, stored.old)
		due = slices.DeleteFunc(due, func(text string) bool { return slices.Contains(before, text) })
	}
	if k.WarnUpdate != nil {
		due = append(due, k.WarnUpdate(obj.hub, stored.hub)...)
	}
	return due
}

// problems returns the errors in the object, with paths in the API version of the request.
func (k *Rules[Hub, Old]) problems(ctx context.Context, obj, stored object[Hub, Old]) (problems field.ErrorList, err error) {
	if stored.hub == nil {
		problems, err = k.ValidateCreate(ctx, obj.hub)
	} else {
		problems, err = k.ValidateUpdate(ctx, obj.hub, stored.hub)
	}
	if err == nil && obj.old != nil {
		problems = k.inOldVersion(problems, obj.old, stored.old)
	}
	return problems, err
}

// lost returns errors for the values of the object that would be lost in the conversion. A value that the stored
// object has lost already does not block an update.
func (k *Rules[Hub, Old]) lost(req admission.Request, stored object[Hub, Old]) field.ErrorList {
	if k.OldVersion == "" {
		return nil
	}
	problems := conversion.Check(req.Object.Raw)
	if len(problems) > 0 && stored.hub != nil && len(conversion.Check(req.OldObject.Raw)) > 0 {
		return nil
	}
	return problems
}

// inOldVersion adds errors of the older version, and converts the paths of all other errors to this version.
func (k *Rules[Hub, Old]) inOldVersion(problems field.ErrorList, obj, stored *Old) field.ErrorList {
	if k.OldField != nil {
		for _, problem := range problems {
			problem.Field = k.OldField(problem.Field)
		}
	}
	if k.ValidateOld == nil {
		return problems
	}
	return append(k.ValidateOld(obj, stored), problems...)
}

func (k *Rules[Hub, Old]) validateDelete(req admission.Request) error {
	obj, err := k.decode(req.OldObject.Raw, req.Kind.Version, req.Name)
	if err != nil && obj.hub == nil {
		return err
	}
	if object, ok := any(obj.hub).(metav1.Object); ok && object.GetDeletionTimestamp() != nil {
		return nil // the object was admitted before
	}
	problems := k.ValidateDelete(obj.hub) // if the spec could not be decoded, the other fields decide
	if len(problems) == 0 {
		return nil
	}
	name := req.Name
	if object, ok := any(obj.hub).(metav1.Object); ok {
		name = object.GetName() // a request to delete a collection has no name
	}
	if k.Refused != nil {
		k.Refused(Refusal{EventDeletionProtection, k.GroupKind.Kind, req.Namespace, name, req.UserInfo.Username})
	}
	// The status of an invalid object has its causes in the right form; only code and reason differ.
	status := apierrors.NewInvalid(k.GroupKind, name, problems).ErrStatus
	status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	status.Details.Kind = k.Resource
	status.Message = k.Resource + "." + k.GroupKind.Group + " \"" + name + "\" is forbidden: " + forbiddenBy + ": " + problems.ToAggregate().Error()
	return &apierrors.StatusError{ErrStatus: status}
}
