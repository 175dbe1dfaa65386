// Package ownercache answers "what does an owner have, and may I decide now?".
//
// Package ownercache connects the kit to informers, and is the only package that does. A [Cache] is made once for
// each kind of owner. [Cache.Observe] begins a reconcile: Observe returns a [View] with the owner and the objects
// that the owner controls, or, while the cache does not show all of the owner's own writes, the result to return from
// the reconciler. The next Observe waits for every write through View.Client. [Cache.ObservePod] is the same for a
// single Pod, for the second loop of a controller of Pods: the loop that finishes updates that have begun, without
// waiting for the owner. [Cache.AddController] and [Cache.AddPodController] add both loops to the manager, with the
// event sources they need.
//
//	v, result, err := r.cache.Observe(ctx, req)
//	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the objects
//		return result, err
//	}
//	// decide on v.Owner, v.Pods, v.Revisions; write through v.Client
//
// The owner in a View is a copy. Observe copies the owner after the check for the owner's writes, because only then
// does the cache certainly have the last written status. Its Pods, revisions and claims are the cache's own objects,
// found by an index on the UID of their controller, so an Observe scans no namespace, matches no selector and copies
// no object. All readers of the cache share these objects, so do not modify them.
//
// The Cache removes its records of an owner or a Pod after the object's deletion. [Cache.OnGone] notifies other
// packages that keep records about objects.
//
// A [Sharer] makes the Pods of an owner share equal strings, maps and slices in memory.
//
// If owners run a Pod on each Node, set Options.Nodes: an owner's reconcile then also waits for the cache of Nodes.
// [WatchNodes] enqueues owners on changes of Nodes. [WatchOrphans] enqueues owners for Pods without a controller, for
// adoption.
//
// Owners of objects other than Pods and revisions list these objects in Options.Owned.
//
// RBAC: list and watch on the owner's kind, on Pods and on ControllerRevisions, on PersistentVolumeClaims if owners
// have claims, and on Nodes if Options.Nodes is set; get on all kinds that the controller writes, to find out whether
// writes without a response happened.
package ownercache
