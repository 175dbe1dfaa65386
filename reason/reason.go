// Package reason answers "why did it decide that?" with a value instead of a log line.
//
// Whatever in this kit refuses, waits or falls back returns a [Reason]: a stable code, the field path or object it is
// about, what was found, and what would change the answer. The same value becomes an event, a condition, a metric label,
// an error and a line of command output, so that all of them agree.
//
// Codes are API: once released a code keeps its spelling and meaning. The table of all codes is generated into
// docs/reasons.md.
//
// A Reason is an error and a [Code] is one too, so callers branch with the standard library:
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

// Code is the stable, CamelCase name of a reason. It satisfies what the Kubernetes API demands of an event's or
// condition's reason. Packages declare theirs as constants.
type Code string

// Error makes a Code a target for errors.Is.
func (c Code) Error() string { return string(c) }

// Object names what a reason is about. The UID tells an object from a successor of the same name. Fields that do not
// apply stay empty.
type Object struct {
	Kind      string
	Namespace string
	Name      string
	UID       types.UID
}

// ObjectOf names an object. kind is that of the API, such as "Pod": objects from a cache do not carry theirs.
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

// Reason explains one decision. It is a plain value: comparable, safe to copy and to use from several goroutines. Only
// Code is mandatory.
type Reason struct {
	// Code is the stable constant.
	Code Code
	// Object is what the reason is about, when it is not clear from the context.
	Object Object
	// Path is the field in question, with list entries by name: spec.template.spec.containers[app].env.
	Path string
	// Old and New are the values found, shortened by whoever filled them in. For a bad value only New is set.
	Old, New string
	// Detail says in words what the code alone does not.
	Detail string
	// Remedy says what would change the answer.
	Remedy string
}

// Error renders everything the reason holds on one line.
func (r Reason) Error() string { return r.String() }

// String renders everything the reason holds on one line:
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

// Is matches a Code, so that errors.Is(err, SomeCode) works on a Reason and on anything that wraps one.
func (r Reason) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == r.Code
}

// List holds several reasons for one decision, in the order they were found.
type List []Reason

// Err returns the list as an error, nil when it is empty.
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

// Unwrap lets errors.Is and errors.As look at each reason.
func (l List) Unwrap() []error {
	errs := make([]error, len(l))
	for i, r := range l {
		errs[i] = r
	}
	return errs
}

// Summary renders at most limit reasons and the number of the others, for places with little room such as events.
func (l List) Summary(limit int) string {
	if limit <= 0 || len(l) <= limit {
		return l.String()
	}
	return fmt.Sprintf("%s; and %d more", l[:limit], len(l)-limit)
}

// With returns an error that reads as the reason and wraps the cause too, so that errors.Is and errors.As find either. A nil
// cause leaves the reason alone.
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

// Add appends the reasons that err carries. An error that carries none becomes a reason of the given code, with the error's text
// as its detail; nil adds nothing.
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

// From returns the reasons that err carries, in their order, each once. It looks at everything that err wraps, so that nothing
// is lost of what errors.Join has joined. Of an error made by With it is the reason alone: that stands for its cause. It returns
// nil for an error without reasons.
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
	switch e := err.(type) { //nolint:errorlint // The tree itself is walked.
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

// Shorten cuts a value to at most limit bytes for display, marking the cut. It never cuts inside a UTF-8 sequence.
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

// inMessage is how many reasons, and maxMessage how many bytes, a message of Explain has at most.
const (
	inMessage  = 5
	maxMessage = 1024
)

// Explain returns what a condition or an event says about an error: the code of its first reason, and a message of at most 1,024
// bytes with its first reasons. An error without reasons has the API server's word for it as its code ("InternalError", "Forbidden"), or
// "Error", and its own text, of which the first lines are kept where errors.Join has joined many; nil has neither.
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

// ForCondition is Explain for what has the code in a field of its own, such as a condition: the message does not begin with it once more, unless it is
// all there is to say.
func ForCondition(err error) (code Code, message string) {
	code, message = Explain(err)
	if rest, found := strings.CutPrefix(message, string(code)+": "); found && rest != "" {
		message = rest
	}
	return code, message
}

// Condition returns a condition that is True while there is an error, with what ForCondition says of it, and
// False with reason "AsExpected" otherwise. generation is the owner's that was observed.
func Condition(kind string, generation int64, err error) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "AsExpected", ObservedGeneration: generation}
	if err != nil {
		code, message := ForCondition(err)
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(code), message
	}
	return c
}
