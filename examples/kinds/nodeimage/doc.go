// Package nodeimage is the reference controller for apps.kruise.io NodeImages. A NodeImage lists the images that a
// Node should have: ImagePullJobs write the spec, and the node agent writes the status.
//
// The controller creates a NodeImage for each Node that has been ready for a while, copies the labels of the Node,
// and deletes the NodeImage with the Node. The controller removes a tag when all jobs that asked for the tag were
// deleted, or when the tag's TTL has passed after the end of the pull. Package imagepull contains these rules, and
// package onnode converts NodeImages to the types of package imagepull.
//
// # Hostile Nodes
//
// The Node writes the status, and an attacker may control the Node. So the controller reads only reports about wanted
// tags, limits the texts, numbers and times in these reports, and writes nothing into the status. If an agent does
// not report in time, OpenKruise's controller writes a failure into the status, and a slow agent then gives up the
// pull. Here the jobs count such a Node as failed, and only the agent writes the status.
package nodeimage
