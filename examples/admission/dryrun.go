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

// judgement is the API server's time to judge an object. Meanwhile the API server waits for the whole answer itself.
const judgement = 3 * time.Second

// DryRun asks the API server about objects by creations without effect, invisible to everybody: the API server knows
// its own rules best.
type DryRun struct {
	client    client.Writer
	unchecked func(error)
	log       logr.Logger
}

// NewDryRun returns a DryRun. Without a client in options, On is false.
func NewDryRun(options Options) DryRun {
	return DryRun{client: options.Client, unchecked: options.TemplateUnchecked, log: options.Log}
}

// On reports whether the API server can be asked.
func (d *DryRun) On() bool { return d.client != nil }

// Create asks about an object, with a deadline. The error is the API server's.
func (d *DryRun) Create(ctx context.Context, object client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, judgement)
	defer cancel()
	return d.client.Create(ctx, object, client.DryRunAll)
}

// Unchecked reports an object that the API server did not judge, and returns the warning for the user. what names the
// object and its verb, results names the objects made from it. Strangers on the webhooks' port can see the warning, so
// the warning has no words of the API server about the namespace.
func (d *DryRun) Unchecked(namespace, what, results string, err error) string {
	if d.unchecked != nil {
		d.unchecked(err)
	}
	d.log.V(1).Info("An object was not checked by the API server", "what", what, "namespace", namespace, "error", err.Error())
	return what + " not checked by the API server, which may refuse its " + results + "; kruise-manager logs why (--v=1)"
}

// Objections maps the API server's answer about an object to fields below path, or to path itself.
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

// objection is a cause of a refusal at a path.
func objection(cause metav1.StatusCause, path string) *field.Error {
	kind := field.ErrorType(cause.Type)
	return &field.Error{
		Type: kind, Field: path, BadValue: field.OmitValueType{},
		Detail: strings.TrimPrefix(strings.TrimPrefix(cause.Message, kind.String()), ": "),
	}
}
