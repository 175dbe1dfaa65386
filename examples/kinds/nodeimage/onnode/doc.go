// Package onnode converts NodeImages to the types of package imagepull, and back. A Want is an image that the Node
// should have, and a Report is the result of a pull.
//
// The manager writes the spec of a NodeImage, and the agent of the Node writes the status. Both follow the rules of
// package imagepull:
//
//	wants := onnode.Wants(&obj.Spec)
//	reports, _ := imagepull.Merge(wants, nil, onnode.Reports(obj), now)
//	onnode.SetWants(&obj.Spec, changed, owners, now)     // the manager
//	onnode.SetReports(obj, reports)                      // the agent
//
// A tag without owners, as users write tags, becomes a Claim (a request for the image) of the empty Owner. Tags that
// name no valid image are ignored: the package does not read or change such tags.
//
// All functions are pure.
package onnode
