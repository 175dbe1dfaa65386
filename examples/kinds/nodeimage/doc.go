// Package nodeimage is the reference controller for apps.kruise.io NodeImages. A NodeImage lists the images that a Node
// shall have: jobs write the spec, and the agent of the Node writes the status.
//
// The controller creates a NodeImage for each Node that has been ready for a while, copies the labels of the Node, and
// deletes the NodeImage with the Node. Tags are removed when the jobs that asked for the tags do not exist any more, or
// when their TTL has passed after the end of the pull. The rules are those of package imagepull, and package onnode
// translates a NodeImage.
//
// # Hostile Nodes
//
// The status is written by the Node, which may be stolen. The controller reads only reports about wanted tags, with
// limited texts, numbers and times, and writes nothing into the status. OpenKruise writes a failure into the status if
// an agent does not answer; an agent that is slow then drops its pull. Here the jobs count such a Node as failed, and
// the status stays the agent's.
package nodeimage
