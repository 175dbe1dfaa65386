// Package images pulls the images in the NodeImage of a Node: the part of the node agent for ImagePullJobs.
//
// Package imagepull decides, package puller pulls, and this package connects both with the API server. The spec of
// the NodeImage contains the images to pull, and the agent writes the reports into the status. A report is written
// before each pull begins, and again when the pull has ended. A NodeImage without changes costs no request.
//
// Credentials come from the Secrets that the NodeImage names for the image, and then from the kubelet-style credential
// providers of the Node. Secrets are read before each attempt, so that an attempt never uses an old password.
package images
