// Package resourcedistribution is the controller of ResourceDistributions: the controller keeps copies of a ConfigMap
// or Secret in many namespaces. Pure functions decide: resolve chooses the namespaces, glance and decide compare the
// copy in a namespace, and statusOf computes the status.
//
// The controller caches only metadata. glance needs only this metadata and the process's memory. The controller
// reads a whole object, for decide, only if the metadata do not prove that the copy is unchanged: the hash annotation
// differs, or the process has neither written nor read this resourceVersion. So a new process reads each copy once, and
// afterwards an unchanged copy costs no request.
//
// An update requires the version read before. A deletion requires UID and resourceVersion.
//
// Differences from OpenKruise: This controller also copies changed labels and annotations. This controller moves
// stringData into data, and so does not write such a Secret again and again. This controller counts again when a
// namespace is deleted, and continues by itself when an object that had the copy's name is deleted. Labels, annotations
// and finalizers that were removed from the template stay on the copies, because somebody else may use them by now.
package resourcedistribution
