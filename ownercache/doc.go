// Package ownercache answers "what does this owner have, and may I decide on it now?".
//
// It is the kit's one adapter to informers. A [Cache] is made once for each kind of owner. [Cache.Observe] begins a reconcile: it
// returns a [View] of one owner and what it controls, or what to return instead, because the cache does not show all of the
// owner's own writes yet. Whatever is written through View.Client is awaited the next time. [Cache.ObservePod] is the same for a
// single Pod, for the second loop that a controller of Pods needs: the one that finishes what was begun, without waiting for
// its owner. [Cache.AddController] and [Cache.AddPodController] add both loops to the manager, with the event sources they need.
//
//	v, result, err := r.cache.Observe(ctx, req)
//	if v == nil || v.Owner.DeletionTimestamp != nil { // what an owner leaves behind is collected as garbage
//		return result, err
//	}
//	// decide on v.Owner, v.Pods, v.Revisions; write through v.Client
//
// The owner in a View is a copy, read after the check: only then does the cache hold the status that was written last. Its Pods,
// revisions and claims are the cache's own objects, found by an index on the UID of their controller: no namespace is scanned, no
// selector matched, nothing copied. They are shared with every other reader of the cache: read only.
//
// What is remembered for an owner or a Pod is forgotten when the cache says that it is gone; [Cache.OnGone] tells others who
// remember something.
//
// A [Sharer] makes the Pods of one owner share their equal parts in memory.
//
// Where each Node has a Pod, Options.Nodes has owners wait for the cache of Nodes too, and [WatchNodes] wakes them for a Node; [WatchOrphans]
// wakes them for Pods to adopt.
//
// Owners that have something else instead of Pods and revisions name it in Options.Owned.
//
// RBAC: list and watch on the owner's kind, on Pods and on ControllerRevisions, on PersistentVolumeClaims where owners have claims, and on
// Nodes with Options.Nodes; get on what is written to, for writes that were not answered.
package ownercache
