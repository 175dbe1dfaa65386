// Package imagelistpulljob is the reference controller for apps.kruise.io ImageListPullJobs, which pull several images
// on Nodes. The controller creates an ImagePullJob for each image, and counts the results.
//
// Each ImagePullJob has a label with a hash of the spec without the images. After a change of the spec, jobs with an
// outdated hash are deleted and created again; a job without the label, but with an equal spec, is kept. The created
// jobs have no TTL: otherwise the job of an image could be deleted before the jobs of the other images have ended,
// and would be created again. The function resolve validates the spec, and the function decide plans all writes; both
// are pure.
package imagelistpulljob
