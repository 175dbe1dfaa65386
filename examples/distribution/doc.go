// Package distribution gives ResourceDistributions their meaning. [Resolve] chooses the namespaces for copies, [Glance]
// and [Decide] decide about the copy in a namespace, and [Status] reports about all copies. The functions neither read
// nor write objects; the controller of ResourceDistributions does.
//
// [Glance] reads only metadata, stripped by [KeepMetadata] in a cache, and a process's knowledge of the copies:
// [Memory]. If the metadata is not enough, [Decide] reads the whole object.
//
// The controller never writes to objects of other controllers. An update is a patch of the differing fields, valid only
// for the compared object.
package distribution
