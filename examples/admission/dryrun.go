package admission

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// judgement is how long the API server may take to validate an object. The limit is short, because the API server
// waits for the webhook's response at the same time.
const judgement = 3 * time.Second

// DryRun asks the API server to validate objects by dry-run creations, because the API server knows its own rules best.
type DryRun struct {
	client    client.Writer
	unchecked func(error)
	log       logr.Logger
}

// NewDryRun returns a DryRun. If options have no client, On returns false.
func NewDryRun(options Options) DryRun {
	return DryRun{client: options.Client, unchecked: options.TemplateUnchecked, log: options.Log}
}

// On reports whether there is a client for dry-run creations.
func (d *DryRun) On() bool { return d.client != nil }

// Create makes a dry-run creation of an object, with a deadline. The error is the API server's.
func (d *DryRun) Create(ctx context.Context, object client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, judgement)
	defer cancel()
	return d.client.Create(ctx, object, client.DryRunAll)
}

// Unchecked reports that the API server did not validate an object, and returns the warning for the user. The
// parameter what is the beginning of the warning, with the object and a verb; results names the objects that are made
// from the object. Any client of the webhooks' port can see the warning, so the warning does not contain the API
// server's errors about the namespace.
func (d *DryRun) Unchecked(namespace, what, results string, err error) string {
	if d.unchecked != nil {
		d.unchecked(err)
	}
	d.log.V(1).Info("An object was not checked by the API server", "what", what, "namespace", namespace, "error", err.Error())
	return what + " not checked by the API server, which may refuse its " + results + "; kruise-manager logs why (--v=1)"
}

// Objections converts the API server's status for an invalid object to errors at fields below path, or at path
// itself.
func Objections(status metav1.Status, path *field.Path) (problems field.ErrorList) {
	if status.Details != nil && status.Reason == metav1.StatusReasonInvalid {
		for _, cause := range status.Details.Causes {
			problems = append(problems, objection(cause, path.Child(cause.Field).String()))
		}
	}
	if len(problems) == 0 {
		problems = field.ErrorList{field.Invalid(path, field.OmitValueType{}, "the API server does not take it: "+status.Message)}
	}
	return problems
}

// objection converts a cause of an error to an error at a path.
func objection(cause metav1.StatusCause, path string) *field.Error {
	kind := field.ErrorType(cause.Type)
	return &field.Error{
		Type: kind, Field: path, BadValue: field.OmitValueType{},
		Detail: strings.TrimPrefix(strings.TrimPrefix(cause.Message, kind.String()), ": "),
	}
}
