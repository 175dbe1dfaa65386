// Package decode answers "what does this JSON say, and what of it makes no sense?" for objects written by users and not
// checked by a schema: templates in custom resources.
//
// Keys count in their exact case, as for the API server.
//
// # Cost
//
// Reading a quantity such as 1e-200000000 takes half a minute, although the text is short. [Object] and [Fields] check
// the length of a quantity's text before reading the quantity. They also count the elements of lists: "{}," is three
// characters, and a container of 700 bytes.
//
// # A bad object must not stop all objects
//
// A list of objects is decoded as a whole: with a single template with cpu: oops, no controller sees any object any
// more. [Fields] leaves out undecodable fields and reports them. Types use Fields in their UnmarshalJSON; see the
// example. Admission with [Object] refuses such objects from the start. Admission must let updates pass if the spec is
// unchanged, because finalizers of already stored objects would otherwise never go.
package decode
