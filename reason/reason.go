// Package reason answers "why did it decide that?" with a value instead of a log line.
//
// Every refusal, wait and fallback in the kit returns a [Reason]: a stable code, the field path or object, the value
// found, and a remedy. The same value is used for an event, a condition, a metric label, an error and command output,
// so all of these agree.
//
// Codes are part of the API: once released, a code keeps its spelling and meaning. The table of all codes is generated
// into docs/reasons.md.
//
// A Reason is an error, and so is a [Code], so callers can use the standard library:
//
//	if errors.Is(err, inplaceupdate.ImmutableField) { ... }
package reason

import (
	"cmp"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Code is the stable, CamelCase name of a reason. A Code satisfies the Kubernetes API's rules for the reason of an
// event or condition. Packages declare their codes as constants.
type Code string

// Error makes a Code usable as a target of errors.Is.
func (c Code) Error() string { return string(c) }

// Object identifies the object of a reason. The UID distinguishes the object from a later object of the same name.
// Fields that do not apply are empty.
type Object struct {
	Kind      string
	Namespace string
	Name      string
	UID       types.UID
}

// ObjectOf returns the Object for an API object. kind is the API's kind, such as "Pod": objects from a cache do not
// contain their kind.
func ObjectOf(kind string, object metav1.Object) Object {
	return Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}

// String renders kind and name, for example "Pod default/web-x7k2p".
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	if o.Kind == "" {
		return name
	}
	return o.Kind + " " + name
}

// Reason explains a decision. A Reason is a plain value: comparable, and safe to copy and for concurrent use. Only Code
// is required.
type Reason struct {
	// Code is the stable code of the reason.
	Code Code
	// Object is the object of the reason, unless clear from the context.
	Object Object
	// Path is the path of the field; list entries are written by name: spec.template.spec.containers[app].env.
	Path string
	// Old and New are the values found, shortened by the caller. For an invalid value only New is set.
	Old, New string
	// Detail explains the code in words.
	Detail string
	// Remedy says what to change for another result.
	Remedy string
}

// Error renders the whole reason on a line.
func (r Reason) Error() string { return r.String() }

// String renders the whole reason on a line:
//
//	ImmutableField: spec.containers[app].env: 1 entry -> 2 entries; recreate the Pod
func (r Reason) String() string {
	var b strings.Builder
	b.WriteString(string(r.Code))
	part := func(s string) {
		if s != "" {
			b.WriteString(": ")
			b.WriteString(s)
		}
	}
	part(r.Object.String())
	part(r.Path)
	switch {
	case r.Old != "" && r.New != "":
		part(r.Old + " -> " + r.New)
	case r.Old != "":
		part(r.Old + " removed")
	case r.New != "":
		part(r.New)
	}
	part(r.Detail)
	if r.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(r.Remedy)
	}
	return b.String()
}

// Is matches a Code, so errors.Is(err, SomeCode) works for a Reason and for every error that wraps a Reason.
func (r Reason) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == r.Code
}

// List holds several reasons for the same decision, in the order found.
type List []Reason

// Err returns the list as an error, nil for an empty list.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Error joins the reasons with "; ".
func (l List) Error() string { return l.String() }

// String joins the reasons with "; ".
func (l List) String() string {
	parts := make([]string, len(l))
	for i, r := range l {
		parts[i] = r.String()
	}
	return strings.Join(parts, "; ")
}

// Unwrap lets errors.Is and errors.As examine each reason.
func (l List) Unwrap() []error {
	errs := make([]error, len(l))
	for i, r := range l {
		errs[i] = r
	}
	return errs
}

// Summary renders at most limit reasons, and how many are left out, for short texts such as events.
func (l List) Summary(limit int) string {
	if limit <= 0 || len(l) <= limit {
		return l.String()
	}
	return fmt.Sprintf("%s; and %d more", l[:limit], len(l)-limit)
}

// With returns an error that has the reason's text and also wraps the cause, so errors.Is and errors.As find both. If
// the cause is nil, With returns the reason itself.
func (r Reason) With(cause error) error {
	if cause == nil {
		return r
	}
	return &withCause{r, cause}
}

type withCause struct {
	Reason

	cause error
}

func (w *withCause) Unwrap() []error { return []error{w.Reason, w.cause} }

// Add appends the reasons in err. If err has no reasons, Add appends a reason of the given code, with the error's text
// as its detail. If err is nil, Add does nothing.
func (l *List) Add(code Code, err error) {
	if err == nil {
		return
	}
	if found := From(err); len(found) > 0 {
		*l = append(*l, found...)
		return
	}
	*l = append(*l, Reason{Code: code, Detail: err.Error()})
}

// From returns the reasons in err, in order, each once. From examines everything that err wraps, including all errors
// of errors.Join. For an error made by With, From returns only the reason, because the reason replaces its cause. From
// returns nil for an error without reasons.
func From(err error) List {
	var out List
	seen := map[Reason]bool{}
	collect(err, func(r Reason) {
		if !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	})
	return out
}

func collect(err error, add func(Reason)) {
	switch e := err.(type) { //nolint:errorlint // the code itself walks the tree of wrapped errors
	case Reason:
		add(e)
	case List:
		for _, r := range e {
			add(r)
		}
	case *withCause:
		add(e.Reason)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			collect(part, add)
		}
	case interface{ Unwrap() error }:
		collect(e.Unwrap(), add)
	}
}

// Shorten cuts a value to at most limit bytes for display, and marks the cut. Shorten never cuts inside a UTF-8
// sequence.
func Shorten(value string, limit int) string {
	if len(value) <= limit {
		return value
	}
	cut := limit
	for cut > 0 && value[cut]&0xC0 == 0x80 {
		cut--
	}
	return value[:cut] + "..."
}

// inMessage is the largest number of reasons in a message of Explain, and maxMessage the largest number of bytes.
const (
	inMessage  = 5
	maxMessage = 1024
)

// Explain returns the text for a condition or an event about an error: the code of the first reason, and a message of
// at most 1,024 bytes with the first reasons. For an error without reasons, the code is the API server's reason
// ("InternalError", "Forbidden"), or "Error", and the message is the error's own text; of many errors joined by
// errors.Join, the message has only the first lines. For nil, both are empty.
func Explain(err error) (code Code, message string) {
	if err == nil {
		return "", ""
	}
	if list := From(err); len(list) > 0 {
		return list[0].Code, Shorten(list.Summary(inMessage), maxMessage)
	}
	lines := strings.Split(err.Error(), "\n")
	if more := len(lines) - inMessage; more > 0 {
		lines = append(lines[:inMessage], fmt.Sprintf("and %d more", more))
	}
	code = cmp.Or(Code(apierrors.ReasonForError(err)), "Error")
	return code, Shorten(strings.Join(lines, "\n"), maxMessage)
}

// ForCondition is like Explain, for a text that is shown together with the code, such as the message of a condition:
// the message does not repeat the code, unless the code is the whole text.
func ForCondition(err error) (code Code, message string) {
	code, message = Explain(err)
	if rest, found := strings.CutPrefix(message, string(code)+": "); found && rest != "" {
		message = rest
	}
	return code, message
}

// Condition returns a condition with status True and the texts of ForCondition for an error, and status False with
// reason "AsExpected" for nil. generation is the owner's generation for observedGeneration.
func Condition(kind string, generation int64, err error) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "AsExpected", ObservedGeneration: generation}
	if err != nil {
		code, message := ForCondition(err)
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(code), message
	}
	return c
}
