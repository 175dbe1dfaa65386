package admission

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Validate answers a request with everything that is wrong with it: 422 for objects that are not valid, 403 for objects
// that may not be deleted. It is an [admission.HandlerFunc].
func (k *Kind[Hub, Old]) Validate(ctx context.Context, req admission.Request) admission.Response {
	if err := k.about(req); err != nil {
		return refuse(ctx, err)
	}
	var err error
	switch {
	case req.SubResource != "":
	case req.Operation == admissionv1.Create:
		err = k.validateWrite(ctx, req, object[Hub, Old]{})
	case req.Operation == admissionv1.Update:
		err = k.validateWrite(ctx, req, k.decodeStored(ctx, req))
	case req.Operation == admissionv1.Delete && k.ValidateDelete != nil:
		err = k.validateDelete(req)
	}
	if err != nil {
		return refuse(ctx, err)
	}
	return admission.Allowed("")
}

// validateWrite judges a creation, if there is no stored object, or an update.
func (k *Kind[Hub, Old]) validateWrite(ctx context.Context, req admission.Request, stored object[Hub, Old]) error {
	obj, err := k.decode(req.Object.Raw, req.Kind.Version, req.Name)
	if err != nil {
		return err
	}
	var problems field.ErrorList
	if stored.hub == nil {
		problems, err = k.ValidateCreate(ctx, obj.hub)
	} else {
		problems, err = k.ValidateUpdate(ctx, obj.hub, stored.hub)
	}
	if err != nil {
		return err
	}
	if obj.old != nil {
		problems = k.inOldVersion(problems, obj.old, stored.old)
	}
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.GroupKind, req.Name, problems)
}

// inOldVersion adds what only the older version can get wrong, and says the rest in its terms.
func (k *Kind[Hub, Old]) inOldVersion(problems field.ErrorList, obj, stored *Old) field.ErrorList {
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

func (k *Kind[Hub, Old]) validateDelete(req admission.Request) error {
	obj, err := k.decode(req.OldObject.Raw, req.Kind.Version, req.Name)
	if err != nil {
		return err
	}
	problems := k.ValidateDelete(obj.hub)
	if len(problems) == 0 {
		return nil
	}
	// The status of an invalid object has the causes in the right form; code and reason differ.
	status := apierrors.NewInvalid(k.GroupKind, req.Name, problems).ErrStatus
	status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	status.Details.Kind = k.Resource
	status.Message = k.Resource + "." + k.GroupKind.Group + " \"" + req.Name + "\" is forbidden: " + problems.ToAggregate().Error()
	return &apierrors.StatusError{ErrStatus: status}
}
