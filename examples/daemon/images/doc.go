// Package images is the part of the node agent that pulls the images in the NodeImage of a Node, for example for
// ImagePullJobs.
//
// Package imagepull decides which pulls are due, package puller pulls, and package images connects both with the API
// server. The spec of the NodeImage contains the images to pull, and the agent writes the reports into the status. A
// report is written before each pull begins, and again when the pull has ended. A NodeImage without changes costs no
// request.
//
// Credentials come first from the Secrets that the NodeImage names for the image, and then from credential providers
// on the Node, which are configured as for the kubelet. Secrets are read before each attempt, so that an attempt
// never uses an old password.
package images
