// Package watchhealth answers "is the watch of a cache up, and is there anything to watch?".
//
// A webhook decides on caches. A cache with a broken watch goes on answering from an unknown past: a new object
// silently has no effect. Writes to a CustomResourceDefinition close all watches of its kind, and a reflector waits for
// up to a minute after a few failures. [Watches] make informers for controller-runtime's caches and know their state:
//
//   - [Watches.Await] returns when the caches of some kinds are current, or returns an error when its context ends.
//   - [Watches.Down] lists the broken watches, for a readiness check and a metric.
//   - A closed watch is opened again within a second. If the watch may have missed events, objects are listed again.
//
// A kind may come and go while a manager runs. With [Options.Presence], such as [CRDs], the cache of a kind missing in
// the API server is empty and synced: indexes, handlers and controllers are set up once, at the start, and work from
// the moment when the kind comes. The cache of a kind without the served version is also empty and synced, but not
// current. The RESTMapper of the cache must know the kind even then: see [Mapper].
package watchhealth
