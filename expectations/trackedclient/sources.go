// Package trackedclient makes clients that record each write in a tracker of package expectations, for the client's
// owner, so that the next decision can wait for the write.
//
// A reconciler needs two lines: a call of [Clients.Check] before any decision, and a call of [Clients.For], which
// returns the client for all writes. Package ownercache makes both calls. Besides recording writes, the package
// handles four cases:
//
//   - A write without a response (a timeout, a broken connection, an internal error) may nevertheless have been carried
//     out. [Clients.Check] reads such an object once from the API server before the owner's next decision. Otherwise
//     the controller would create a Pod twice if the first creation timed out.
//   - After a change of leader, [Clients.Start] makes all owners wait until the caches show the previous leader's last
//     writes.
//   - When a cache seems stale for longer than the alarm threshold, a live read shows whether the cache nevertheless
//     holds everything.
//   - The API server answers a write with a conflict if other writes are charged to the same ResourceQuota at the same
//     time; the client retries at once.
//
// RBAC: list on the resources of the sources, and get on the resources that the clients write.
package trackedclient

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// NoOwner means that a client for an empty owner UID was asked to write to a tracked resource. NoOwner means a bug
	// in the calling program; no request was sent.
	NoOwner reason.Code = "NoOwner"
	// NotTrackable means that the outcome of a write could not be awaited: a deletion without a UID, or the deletion of
	// a collection. NotTrackable means a bug in the calling program; no request was sent.
	NotTrackable reason.Code = "NotTrackable"
)

// Index has the questions about a cache that Clients need answered. An ownercache.Index implements Index.
type Index interface {
	expectations.Progress
	// HasSynced reports whether the cache has received its first list.
	HasSynced() bool
	// IsPresent reports whether the object is in the cache and not terminating.
	IsPresent(uid types.UID) bool
	// Versions returns the resourceVersions of all matching objects, by UID; a nil function matches all objects.
	Versions(match func(metav1.Object) bool) map[types.UID]string
}

// Source is a resource that a controller writes and uses for its decisions. All fields but Restrict and Served are
// required.
type Source struct {
	// Store is the name of the cache.
	Store expectations.Store
	// Kind is the kind of the objects, such as v1 Pod, for reads from the API server.
	Kind schema.GroupVersionKind
	// Index shows which objects the cache has.
	Index Index
	// Restrict holds the cache's restrictions, such as client.InNamespace("team-a"), for lists from the API server.
	Restrict []client.ListOption
	// Served reports whether the API server has the resource now, for a resource without which owners can still be
	// reconciled. While Served is false, nobody waits for the cache. The cache must be synced then, as the cache of an
	// absent kind in package watchhealth is. Nil means that the resource is always served.
	Served func() bool
}

func (s *Source) isServed() bool { return s.Served == nil || s.Served() }

// Pods returns the Source for Pods; index is the index of their cache.
func Pods(index Index) Source {
	return Source{Store: store("", "pods"), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Index: index}
}

// Revisions returns the Source for ControllerRevisions; index is the index of their cache.
func Revisions(index Index) Source {
	return Source{
		Store: store(appsv1.GroupName, "controllerrevisions"), Index: index,
		Kind: appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
	}
}

// Nodes returns the Source for Nodes, for controllers that read Nodes but do not write Nodes.
func Nodes(index Index) Source {
	return Source{Store: store("", "nodes"), Kind: corev1.SchemeGroupVersion.WithKind("Node"), Index: index}
}

// Claims returns the Source for PersistentVolumeClaims; index is the index of their cache.
func Claims(index Index) Source {
	return Source{
		Store: store("", "persistentvolumeclaims"), Index: index,
		Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	}
}

// Owners returns the Source for the owners themselves, whose status a controller writes. If Owners is not among the
// sources, the next decision may be based on the previous status.
func Owners(resource schema.GroupResource, kind schema.GroupVersionKind, index Index) Source {
	return Source{Store: expectations.Store{GroupResource: resource}, Kind: kind, Index: index}
}

func store(group, resource string) expectations.Store {
	return expectations.Store{GroupResource: schema.GroupResource{Group: group, Resource: resource}}
}

// stores returns the sources' caches, for a Tracker.
func stores(sources []Source) map[expectations.Store]expectations.Progress {
	out := make(map[expectations.Store]expectations.Progress, len(sources))
	for _, s := range sources {
		out[s.Store] = s.Index
	}
	return out
}

// pageSize limits the number of objects of a live list held in memory at once.
const pageSize = 500

// sameAsLive lists the matching objects from the API server. The result is the version of the list, and whether the
// cache shows exactly the listed objects.
func (s Source) sameAsLive(ctx context.Context, apiReader client.Reader, match func(metav1.Object) bool, within ...client.ListOption) (version string, same bool, err error) {
	options := append(append([]client.ListOption{client.Limit(pageSize)}, s.Restrict...), within...)
	list := s.newList()
	cached := s.Index.Versions(match)
	for {
		// All pages have the version of the first page.
		if err := apiReader.List(ctx, list, append(options, client.Continue(list.Continue))...); err != nil {
			return "", false, err
		}
		for i := range list.Items {
			item := &list.Items[i]
			if match != nil && !match(item) {
				continue
			}
			if cached[item.UID] != item.ResourceVersion {
				return list.ResourceVersion, false, nil
			}
			delete(cached, item.UID)
		}
		if list.Continue == "" {
			return list.ResourceVersion, len(cached) == 0, nil
		}
	}
}

// newList returns an empty list whose request fetches only metadata. Its resourceVersion is unset, so the response
// includes every write to which the API server has responded before.
func (s Source) newList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(s.Kind.GroupVersion().WithKind(s.Kind.Kind + "List"))
	return list
}
