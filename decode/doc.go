// Package decode answers "what does this JSON say, and what of it makes no sense?" for objects that users write and that no schema
// has checked: templates in custom resources.
//
// Keys count in their exact case, as for the API server.
//
// # Cost
//
// Reading a quantity such as 1e-200000000 takes half a minute, although it is short. [Object] and [Fields] look at the length of what
// is to become a quantity before it is read. They also count the elements of lists: "{}," is three characters, and a container that
// takes 700 bytes.
//
// # One object must not stop all
//
// A list of objects is decoded as a whole: one template with cpu: oops and no controller sees any object any more. [Fields] leaves
// out what cannot be decoded and says so, for types to use in their UnmarshalJSON; its example shows the whole of it. Admission that
// decodes with [Object] refuses such objects from the start. It has to let updates pass that leave the spec alone, or finalizers of what
// is stored already never go.
package decode
