// Package watchhealth answers "is the watch up that keeps this cache current, and is there anything to watch?".
//
// A webhook decides on caches. A cache whose watch is down goes on answering, from a past that nobody names: a new object has no effect, in
// silence. Writes to a CustomResourceDefinition close all watches of its kind, and a reflector that has failed a few times waits for up to
// a minute before the next attempt. [Watches] make informers for controller-runtime's caches, by which a webhook can tell:
//
//   - [Watches.Await] returns when the caches of some kinds are current, or with what is wrong when its context ends.
//   - [Watches.Down] lists the watches that are down, for a readiness check and a metric.
//   - A watch that was closed is opened again within a second. Where it may have missed something, objects are listed again.
//
// A kind may come and go while a manager runs. With [Options.Presence], such as [CRDs], the cache of a kind that the API server does not
// have is empty and synced: indexes, handlers and controllers are set up once, at the start, and work from the moment in which the kind
// comes. So is the cache of a kind whose version is not served, but that one is not current. The RESTMapper of the cache must know the kind even then; [Mapper] does.
package watchhealth
