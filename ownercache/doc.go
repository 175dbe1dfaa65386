// Package ownercache answers "what does an owner have, and may I decide now?".
//
// Package ownercache is the kit's only adapter to informers. A [Cache] is made once for each kind of owner.
// [Cache.Observe] begins a reconcile: Observe returns a [View] of an owner and its controlled objects, or the result to
// return while the cache does not show all of the owner's own writes. The next Observe waits for every write through
// View.Client. [Cache.ObservePod] is the same for a single Pod, for the second loop of a controller of Pods: the loop
// that finishes begun actions without waiting for the owner. [Cache.AddController] and [Cache.AddPodController] add
// both loops to the manager, with the event sources they need.
//
//	v, result, err := r.cache.Observe(ctx, req)
//	if v == nil || v.Owner.DeletionTimestamp != nil { // what an owner leaves behind is collected as garbage
//		return result, err
//	}
//	// decide on v.Owner, v.Pods, v.Revisions; write through v.Client
//
// The owner in a View is a copy, read after the check: only then does the cache hold the last written status. Its Pods,
// revisions and claims are the cache's own objects, found by an index on the UID of their controller: no namespace is
// scanned, no selector matched, nothing copied. Every reader of the cache shares the objects: read only.
//
// The Cache forgets its records of an owner or a Pod after the object is gone. [Cache.OnGone] tells further packages
// with records.
//
// A [Sharer] makes the Pods of an owner share their equal parts in memory.
//
// If each Node has a Pod, Options.Nodes has owners wait for the cache of Nodes too, and [WatchNodes] wakes owners for a
// Node. [WatchOrphans] wakes owners for Pods to adopt.
//
// Owners of other objects than Pods and revisions name the objects in Options.Owned.
//
// RBAC: list and watch on the owner's kind, on Pods and on ControllerRevisions, on PersistentVolumeClaims if owners
// have claims, and on Nodes with Options.Nodes; get on all written kinds, for unanswered writes.
package ownercache
