// Package resourcedistribution is the controller of ResourceDistributions. A ResourceDistribution keeps copies of a
// ConfigMap or Secret in many namespaces. Pure functions decide: resolve parses the spec, choose chooses the
// namespaces, glance and decide compare the copy in a namespace with the template, and statusOf computes the status.
//
// The cache contains only the metadata of copies. The function glance decides from this metadata, and from what the
// process remembers. A whole object is read only if the metadata do not prove that the copy is unchanged: the hash
// annotation differs, or the process has neither written nor read this resourceVersion. So a new process reads each
// copy once. Afterwards an unchanged copy costs no request.
//
// An update requires that the copy still has the resourceVersion that was read. A deletion requires the same UID and
// resourceVersion.
//
// Differences from OpenKruise: This controller also copies changes of labels and annotations. This controller moves
// stringData into data, so that such a Secret is not written again and again. This controller counts the copies again
// when a namespace is deleted, and creates a copy by itself when an object that had the copy's name is deleted. Labels,
// annotations and finalizers that were removed from the template stay on the copies, because somebody else may rely on
// the additions by now.
package resourcedistribution
