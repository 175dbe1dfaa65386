package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
)

// Rules describe an API kind to the handlers: names, versions, and functions for defaults and validation. Hub is the
// Go type of the stored version, and the functions take objects of type Hub unless documented otherwise. Old is the
// type of the older version. All fields are required unless documented otherwise, and must not change after the
// handlers were made.
type Rules[Hub, Old any] struct {
	// GroupKind is the kind's API name, and Resource its plural.
	GroupKind schema.GroupKind
	Resource  string
	// Name is the kind in lower case, as in the paths.
	Name string
	// HubVersion and OldVersion are the kind's API versions. Package conversion converts objects between both.
	// OldVersion is empty if the kind has only one version.
	HubVersion, OldVersion string
	// Undecodable returns the parts of an object that could not be decoded. Optional.
	Undecodable func(*Hub) []decode.Problem
	// Admit validates and defaults an object in a single step, for a kind that has only a mutating webhook; stored is
	// nil on creation. Default, ValidateCreate, ValidateUpdate, CheckTemplate and ValidateDelete are then unused, and
	// may be nil. Mutating webhooks that are called later may still change the object. Optional.
	Admit func(ctx context.Context, obj, stored *Hub) (field.ErrorList, error)
	// Closed returns the reason why at present no object may be created or get another spec, for example because a
	// feature gate is off. Other updates of existing objects are admitted, because users must be able to remove
	// finalizers. Optional.
	Closed func() error
	// Default sets missing fields of obj. stored is the object before an update, and nil on creation. Default may set
	// fields and append to lists. The patch contains no removals and no changes of the order of elements. Nil for a
	// kind that has only a validating webhook, unless Admit is set.
	Default func(obj, stored *Hub)
	// DefaultOld sets missing fields of an object in the older version, for fields whose absence is not visible after
	// conversion. Default is called after DefaultOld. Optional.
	DefaultOld func(obj *Old)
	// ValidateCreate and ValidateUpdate return the errors in an object with defaults. err means that the errors could
	// not be determined.
	ValidateCreate func(ctx context.Context, obj *Hub) (field.ErrorList, error)
	ValidateUpdate func(ctx context.Context, obj, stored *Hub) (field.ErrorList, error)
	// CheckTemplate asks the API server to validate the Pod template of a valid object; stored is nil on creation. The
	// warning says why the template could not be validated. Optional.
	CheckTemplate func(ctx context.Context, obj, stored *Hub) (problems field.ErrorList, warning string)
	// TemplateParts returns the parts of a spec that are templates. Users are warned of fields in templates that the
	// linked Kubernetes does not know; for other fields of the spec the API server itself warns. If nil, the parts are
	// the Pod template and the claim templates.
	TemplateParts func(Spec) []TemplatePart
	// Warn returns warnings about a valid object, for example about values that have no effect or probably an
	// unintended effect. Warnings that the stored object has already are not repeated. old is the object as sent in the
	// older version, nil for the hub version. Optional.
	Warn func(obj *Hub, old *Old) []string
	// WarnUpdate returns warnings about the effects of a valid update on Pods. Optional.
	WarnUpdate func(obj, stored *Hub) []string
	// ValidateDelete returns the reasons why an object may not be deleted. If ValidateDelete is nil, every deletion
	// is admitted, and the object is not decoded.
	ValidateDelete func(obj *Hub) field.ErrorList
	// Refused is called for each refused deletion. Optional.
	Refused func(Refusal)
	// ValidateOld returns the errors of an object in the older version that are not visible after conversion; stored
	// is nil on creation. Optional.
	ValidateOld func(obj, stored *Old) field.ErrorList
	// Withdrawn are fields in the spec of the older version that are not read any more, with advice for users.
	// Admission removes these fields: if they were stored, each write of an unchanged object would look like a change.
	// Optional.
	Withdrawn map[string]string
	// OldField returns the older version's name of a field. Optional.
	OldField func(hubField string) string
}

// These are the verbs in paths.
const (
	mutates   = "mutate"
	validates = "validate"
)

// MutatePath is the path of the mutating webhook.
func (k *Rules[Hub, Old]) MutatePath() string { return k.path(mutates) }

// ValidatePath is the path of the validating webhook.
func (k *Rules[Hub, Old]) ValidatePath() string { return k.path(validates) }

// path returns the path as OpenKruise forms it: the verb, the group with dashes, and the kind.
func (k *Rules[Hub, Old]) path(verb string) string {
	group := []byte(k.GroupKind.Group)
	for i := range group {
		if group[i] == '.' {
			group[i] = '-'
		}
	}
	return "/" + verb + "-" + string(group) + "-" + k.Name
}

func (k *Rules[Hub, Old]) endpoint() endpoint {
	handlers := map[string]admission.Handler{}
	if k.Admit != nil || k.Default != nil {
		handlers[k.MutatePath()] = admission.HandlerFunc(k.Mutate)
	}
	if k.Admit == nil {
		handlers[k.ValidatePath()] = admission.HandlerFunc(k.Validate)
	}
	var convert convertFunc
	if k.OldVersion != "" {
		convert = conversion.JSON
	}
	return endpoint{kind: k.GroupKind, handlers: handlers, convert: convert}
}

// object is a decoded object: always in the hub version, and also in the older version if it was sent in the older
// version.
type object[Hub, Old any] struct {
	hub *Hub
	old *Old
}

// about returns an error unless the request's object is of the kind, in one of the kind's API versions.
func (k *Rules[Hub, Old]) about(req admission.Request) error {
	kind := schema.GroupVersionKind{Group: req.Kind.Group, Version: req.Kind.Version, Kind: req.Kind.Kind}
	if kind.GroupKind() != k.GroupKind || kind.Version == "" || (kind.Version != k.HubVersion && kind.Version != k.OldVersion) {
		versions := k.HubVersion
		if k.OldVersion != "" {
			versions += " and " + k.OldVersion
		}
		return apierrors.NewBadRequest(fmt.Sprintf("this is about %q; served here is %s in %s", kind, k.GroupKind, versions))
	}
	return nil
}

// decode decodes an object of the given API version. The error is a [apierrors.StatusError].
func (k *Rules[Hub, Old]) decode(raw []byte, version, name string) (object[Hub, Old], error) {
	var o object[Hub, Old]
	if len(raw) == 0 {
		return o, apierrors.NewBadRequest("the request has no object of kind " + k.GroupKind.String())
	}
	var err error
	if version == k.HubVersion {
		o.hub = new(Hub)
		err = decode.Object(raw, o.hub)
	} else {
		o.old = new(Old)
		if err = decode.Object(raw, o.old); err == nil {
			o.hub, err = converted[Hub](raw, k.apiVersion(k.HubVersion))
		}
	}
	if err == nil && k.Undecodable != nil {
		if left := k.Undecodable(o.hub); len(left) > 0 {
			err = left[0]
		}
	}
	var problem decode.Problem
	if o.old != nil && k.OldField != nil && errors.As(err, &problem) {
		problem.Path = k.OldField(problem.Path)
		err = problem
	}
	return o, k.undecodable(err, name)
}

func (k *Rules[Hub, Old]) apiVersion(version string) string {
	return schema.GroupVersion{Group: k.GroupKind.Group, Version: version}.String()
}

// converted returns a serialised object in another API version. An error about a value is a [decode.Problem].
func converted[T any](raw []byte, apiVersion string) (*T, error) {
	raw, err := conversion.JSON(raw, apiVersion)
	if err != nil {
		return nil, err
	}
	obj := new(T)
	if err := decode.Object(raw, obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// decodeStored decodes the object before an update, or returns nothing if it cannot be decoded.
func (k *Rules[Hub, Old]) decodeStored(ctx context.Context, req admission.Request) object[Hub, Old] {
	o, err := k.decode(req.OldObject.Raw, req.Kind.Version, req.Name)
	if err != nil {
		logf.FromContext(ctx).Info("update judged like a creation: the stored object cannot be decoded", "reason", err.Error())
		return object[Hub, Old]{}
	}
	return o
}

// leavesSpec reports whether an update does not change the spec. Users must be able to remove finalizers, even from
// objects with an invalid spec. The annotation in which the older version stores fields of the spec counts as spec.
func leavesSpec(req admission.Request) bool {
	type parts struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	var next, stored parts
	return req.Operation == admissionv1.Update && utiljson.Unmarshal(req.Object.Raw, &next) == nil &&
		utiljson.Unmarshal(req.OldObject.Raw, &stored) == nil && bytes.Equal(next.Spec, stored.Spec) &&
		next.Metadata.Annotations[apps.AnnotationV1beta1Only] == stored.Metadata.Annotations[apps.AnnotationV1beta1Only]
}

// undecodable returns the error for an object that cannot be decoded, with the path if a value has the wrong type.
func (k *Rules[Hub, Old]) undecodable(err error, name string) error {
	if err == nil {
		return nil
	}
	var problem decode.Problem
	if errors.As(err, &problem) && problem.Path != "" {
		return apierrors.NewInvalid(k.GroupKind, name, field.ErrorList{
			field.TypeInvalid(field.NewPath(problem.Path), field.OmitValueType{}, problem.Detail),
		})
	}
	return apierrors.NewBadRequest(fmt.Sprintf("decoding %s %q: %v", k.GroupKind, name, err))
}

// Refuse returns a response with the status of err, or with an internal error if err has no status.
func Refuse(ctx context.Context, err error) admission.Response {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	log := logf.FromContext(ctx)
	if status.Reason == metav1.StatusReasonInternalError {
		log.Error(err, "request could not be judged")
	} else {
		log.V(1).Info("refused", "reason", status.Reason, "message", status.Message)
	}
	response := admission.Denied("")
	response.Result = &status
	return response
}
