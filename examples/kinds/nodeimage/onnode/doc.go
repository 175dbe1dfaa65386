// Package onnode answers "which wants and reports of package imagepull does a NodeImage contain?"
//
// The manager writes the spec of a NodeImage, and the agent of the Node writes the status. Both use the rules of
// package imagepull. This package converts the fields of a NodeImage:
//
//	wants := onnode.Wants(&obj.Spec)
//	reports, _ := imagepull.Merge(wants, nil, onnode.Reports(obj), now)
//	onnode.SetWants(&obj.Spec, changed, owners, now)     // the manager
//	onnode.SetReports(obj, reports)                      // the agent
//
// A tag without owners, as users write tags, counts as a claim of the empty Owner. Tags that name no valid image are
// ignored: the package does not read or change such tags.
//
// All functions are pure.
package onnode
