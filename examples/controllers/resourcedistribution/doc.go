// Package resourcedistribution is the controller of ResourceDistributions: it keeps copies of one ConfigMap or Secret in many namespaces. Package
// distribution says which namespaces get a copy, and what the copy in one of them needs.
//
// The controller reads metadata alone from its caches, and a whole object only where that does not say that the copy is as it was left: its hash
// annotation is another one, or its resourceVersion is one that this process has neither written nor looked at. So a new process reads each copy once,
// and an unchanged copy costs nothing after that.
//
// An update is sent on the condition that the object is the one that was read; a deletion names UID and resourceVersion.
//
// Unlike OpenKruise's, it copies changed labels and annotations, too; folds stringData into data, so that such a Secret is not written again and
// again; counts anew when a namespace goes; and goes on by itself when an object that was in the way is gone. Labels, annotations and finalizers that
// the template no longer has stay on the copies, because they may be somebody else's by now.
package resourcedistribution
