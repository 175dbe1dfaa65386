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
)

// Kind describes one API kind to the handlers: its names, its versions, and the functions that judge it. Hub is the Go type of
// the stored version, which all functions are about unless they say otherwise; Old is the type of the older version. All
// fields are required unless their comment says otherwise, and none may change once handlers are made.
type Kind[Hub, Old any] struct {
	// GroupKind is what the API calls it, and Resource its plural.
	GroupKind schema.GroupKind
	Resource  string
	// Name is the kind in lower case, as in the paths.
	Name string
	// HubVersion and OldVersion name the versions; OldVersion is empty for a kind that has only one.
	HubVersion, OldVersion string
	// ToHub and FromHub convert; neither lets its result share memory with its argument, and one after the other changes
	// nothing. ConvertJSON does the same for serialised objects, whatever fields they have. All three are nil without OldVersion.
	ToHub       func(*Old) (*Hub, error)
	FromHub     func(*Hub) (*Old, error)
	ConvertJSON func(object []byte, apiVersion string) ([]byte, error)
	// CheckConversion returns what of a serialised object would be lost on its way to the other version and back. Nil without
	// OldVersion.
	CheckConversion func(object []byte) field.ErrorList
	// Undecodable returns what of an object was left out when it was decoded. Optional.
	Undecodable func(*Hub) []decode.Problem
	// Admit judges and completes an object in one step, for a kind whose API has a mutating webhook and no other; stored is nil on creation.
	// Default, ValidateCreate, ValidateUpdate, CheckTemplate and ValidateDelete are not asked then, and may be nil. Other webhooks may change the object
	// afterwards. Optional.
	Admit func(ctx context.Context, obj, stored *Hub) (field.ErrorList, error)
	// Closed returns why no object may be made or get another spec now, such as a feature gate that is off. Objects that are there may be
	// updated otherwise, or their finalizers could not go. Optional.
	Closed func() error
	// Default fills in what obj lacks. stored is the object before an update and nil on creation. It sets fields and appends to
	// lists; what it removes or reorders is not patched. Nil for a kind whose API has a validating webhook and no other, unless Admit is set.
	Default func(obj, stored *Hub)
	// DefaultOld fills in what an object of the older version lacks and conversion would hide. Default comes after it. Optional.
	DefaultOld func(obj *Old)
	// ValidateCreate and ValidateUpdate return what is wrong with a defaulted object; an error means that they could not find
	// out.
	ValidateCreate func(ctx context.Context, obj *Hub) (field.ErrorList, error)
	ValidateUpdate func(ctx context.Context, obj, stored *Hub) (field.ErrorList, error)
	// CheckTemplate has somebody else judge the Pod template of a valid object; stored is nil on creation. The warning says why that
	// was not possible. Optional.
	CheckTemplate func(ctx context.Context, obj, stored *Hub) (problems field.ErrorList, warning string)
	// Warn returns what users are told of a valid object: what has no effect, for example, or does not do what was meant, presumably. Whoever
	// writes an object of which that was said before is not told again. old is the object as it was sent, nil for the hub version. Optional.
	Warn func(obj *Hub, old *Old) []string
	// ValidateDelete returns why an object may not be deleted. Nil means that every object may, and then it is not even decoded.
	ValidateDelete func(obj *Hub) field.ErrorList
	// Refused is told of each deletion that was refused. Optional.
	Refused func(Refusal)
	// ValidateOld returns what is wrong with an object of the older version and is lost when it is converted; stored is nil on
	// creation. Optional.
	ValidateOld func(obj, stored *Old) field.ErrorList
	// Withdrawn are fields in the spec of the older version that nothing reads, and what users are told instead. Admission removes them: they
	// are not stored, and would make each write of an unchanged object look like a change. Optional.
	Withdrawn map[string]string
	// OldField returns how the older version calls a field. Optional.
	OldField func(hubField string) string
}

// The verbs in paths.
const (
	mutates   = "mutate"
	validates = "validate"
)

// MutatePath is where defaulting is served.
func (k *Kind[Hub, Old]) MutatePath() string { return k.path(mutates) }

// ValidatePath is where validation is served.
func (k *Kind[Hub, Old]) ValidatePath() string { return k.path(validates) }

// path is OpenKruise's: the group with dashes, and the kind.
func (k *Kind[Hub, Old]) path(verb string) string {
	group := []byte(k.GroupKind.Group)
	for i := range group {
		if group[i] == '.' {
			group[i] = '-'
		}
	}
	return "/" + verb + "-" + string(group) + "-" + k.Name
}

func (k *Kind[Hub, Old]) endpoint() endpoint {
	handlers := map[string]admission.Handler{}
	if k.Admit != nil || k.Default != nil {
		handlers[k.MutatePath()] = admission.HandlerFunc(k.Mutate)
	}
	if k.Admit == nil {
		handlers[k.ValidatePath()] = admission.HandlerFunc(k.Validate)
	}
	return endpoint{kind: k.GroupKind, handlers: handlers, convert: k.ConvertJSON}
}

// object is one decoded object: always in the hub version, and in the older one if it was sent in that.
type object[Hub, Old any] struct {
	hub *Hub
	old *Old
}

// about returns an error unless the request is about this kind in a version there is.
func (k *Kind[Hub, Old]) about(req admission.Request) error {
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

// decode reads an object of the given version. The error is a [apierrors.StatusError].
func (k *Kind[Hub, Old]) decode(raw []byte, version, name string) (object[Hub, Old], error) {
	var o object[Hub, Old]
	if len(raw) == 0 {
		return o, apierrors.NewBadRequest("the request has no object of kind " + k.GroupKind.String())
	}
	if version == k.HubVersion {
		o.hub = new(Hub)
		err := decode.Object(raw, o.hub)
		if err == nil && k.Undecodable != nil {
			if left := k.Undecodable(o.hub); len(left) > 0 {
				err = left[0]
			}
		}
		return o, k.undecodable(err, name)
	}
	o.old = new(Old)
	if err := decode.Object(raw, o.old); err != nil {
		return o, k.undecodable(err, name)
	}
	var err error
	o.hub, err = k.ToHub(o.old)
	var problem decode.Problem
	if errors.As(err, &problem) && k.OldField != nil {
		problem.Path = k.OldField(problem.Path)
		err = problem
	}
	return o, k.undecodable(err, name)
}

// decodeStored reads the object before an update, nil if there is none that makes sense.
func (k *Kind[Hub, Old]) decodeStored(ctx context.Context, req admission.Request) object[Hub, Old] {
	o, err := k.decode(req.OldObject.Raw, req.Kind.Version, req.Name)
	if err != nil {
		logf.FromContext(ctx).Info("update judged like a creation: the stored object cannot be decoded", "reason", err.Error())
		return object[Hub, Old]{}
	}
	return o
}

// leavesSpec reports whether an update changes metadata alone. Finalizers have to go from objects, too, whose spec makes no sense. What the
// older version keeps in an annotation is part of the spec.
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

// undecodable says what is wrong with an object, with the path where a value has the wrong type.
func (k *Kind[Hub, Old]) undecodable(err error, name string) error {
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

// refuse answers with the status of err, and as an internal error if it has none.
func refuse(ctx context.Context, err error) admission.Response {
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
