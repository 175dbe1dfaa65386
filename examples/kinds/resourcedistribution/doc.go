// Package resourcedistribution is the controller of ResourceDistributions. A ResourceDistribution keeps copies of a
// ConfigMap or Secret in many namespaces. Pure functions decide: resolve parses the spec, choose chooses the
// namespaces, glance and decide compare the copy in a namespace with the template, and statusOf computes the status.
//
// The cache contains only the metadata of copies. The function glance decides from this metadata, and from what the
// process remembers. A whole object is read only if the metadata do not prove that the copy is unchanged: the hash
// annotation differs, or the process has neither written nor read the copy in this resourceVersion. So a new process
// reads each copy once. Later reconciliations of an unchanged copy send no request.
//
// An update requires that the copy still has the resourceVersion that was read. A deletion requires the same UID and
// resourceVersion.
//
// Differences from OpenKruise: Changes of labels and annotations are copied, too. The controller moves stringData
// into data, so that such a Secret is not written again and again. Copies are counted again when a namespace is
// deleted. When another object with the copy's name is deleted, the controller creates the copy without a change of
// the ResourceDistribution. Labels, annotations and finalizers that were removed from the template stay on the
// copies, because other clients may depend on them.
package resourcedistribution
