// Package decode answers "what does this JSON say, and what of it makes no sense?" for objects written by users and not
// checked by a schema: templates in custom resources.
//
// Keys match in their exact case only, as for the API server.
//
// # Cost
//
// Reading a quantity such as 1e-200000000 takes half a minute, although the text is short. [Object] and [Fields] check
// the length of a quantity's text before reading the quantity. [Object] and [Fields] also limit the memory for the
// elements of lists: "{}," has three characters, but decodes into a container of 700 bytes.
//
// # A bad object must not stop all objects
//
// A list of objects is decoded as a whole: if a single template says cpu: oops, the whole list fails, and controllers
// see no objects of the kind at all. [Fields] leaves out undecodable fields and reports them. Types use Fields in their
// UnmarshalJSON; see the example. A webhook that calls [Object] refuses such objects when users create the objects. The
// webhook must allow updates that do not change the spec: otherwise nobody could remove finalizers from objects that
// were stored before.
package decode
