// Package watchhealth answers "is the watch of a cache open, and does the API server serve the kind?".
//
// A webhook decides on objects in caches. A cache whose watch is broken continues to return outdated objects, and a
// new object silently has no effect. For example, a write to a CustomResourceDefinition closes all watches of the
// custom resources, and a reflector waits for up to a minute after a few failed attempts to watch again. [Watches]
// makes informers for controller-runtime's caches and knows the state of their watches:
//
//   - [Watches.Await] returns when the caches of some kinds are up to date, or returns an error when its context ends.
//   - [Watches.Down] lists the broken watches, for a readiness check and a metric.
//   - A watch that was closed is opened again within a second. If the watch may have missed events, the objects are
//     listed again.
//
// While a manager runs, a CustomResourceDefinition may be created or deleted. If [Options.Presence] is set, for example
// to [CRDs], the cache of a kind that the API server does not have is empty and synced: indexes, handlers and
// controllers are set up once, at the start, and work as soon as the kind exists. If the API server has the kind but
// not the version, the cache is also empty and synced, but does not count as up to date. The RESTMapper of the cache
// must know the kind even then: see [Mapper].
package watchhealth
