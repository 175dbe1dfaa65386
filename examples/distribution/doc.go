// Package distribution answers: what does a ResourceDistribution ask for? [Resolve] says which namespaces get a copy, [Glance] and [Decide] what the
// copy in one of them needs, and [Status] what is said of them all. They write and read nothing; the controller of ResourceDistributions does that.
//
// [Glance] looks at metadata alone, of which [KeepMetadata] leaves what it needs in a cache, and at what a process knows of the copies: [Memory].
// Where that is not enough, [Decide] looks at the whole object.
//
// What the ResourceDistribution does not control is never written to. An update is a patch of what differs, which holds for the object alone that was
// compared.
package distribution
