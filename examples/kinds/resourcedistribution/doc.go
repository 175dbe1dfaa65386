// Package resourcedistribution is the controller of ResourceDistributions: the controller keeps copies of a ConfigMap
// or Secret in many namespaces. Pure functions decide: resolve chooses the namespaces, glance and decide judge the copy
// in a namespace, and statusOf reports about all copies.
//
// The controller reads only metadata from its caches. glance is content with the metadata and the memory of the
// process. The controller reads a whole object for decide only if the metadata cannot prove the copy unchanged: the
// hash annotation differs, or the process has neither written nor read the resourceVersion. So a new process reads each
// copy once, and afterwards an unchanged copy costs nothing.
//
// An update is conditional on the object read. A deletion names UID and resourceVersion.
//
// OpenKruise differs in some points. This controller copies changed labels and annotations, too. This controller folds
// stringData into data, and avoids endless writes of such a Secret. This controller counts anew after a namespace goes,
// and continues without help after an obstructing object is gone. Labels, annotations and finalizers removed from the
// template stay on the copies, because somebody else may use the keys by now.
package resourcedistribution
