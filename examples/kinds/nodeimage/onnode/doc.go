// Package onnode answers "what does a NodeImage say, in the words of package imagepull?"
//
// The manager writes the spec of a NodeImage, and the agent of the Node writes the status. Both use the same rules,
// which package imagepull contains, and this package reads and writes the fields:
//
//	wants := onnode.Wants(&obj.Spec)
//	reports, _ := imagepull.Merge(wants, nil, onnode.Reports(obj), now)
//	onnode.SetWants(&obj.Spec, changed, owners, now)     // the manager
//	onnode.SetReports(obj, reports)                      // the agent
//
// A tag without owners, as users write tags, counts as a claim of the empty Owner. Tags that name no valid image are
// neither read nor changed.
//
// All functions are pure.
package onnode
