// Package trackedclient makes clients whose writes are awaited: whatever is written through one is recorded in a tracker of
// package expectations, for the owner that the client was made for.
//
// In a reconciler it is two lines: [Clients.Check] before anything is decided, and writing through what [Clients.For] returns.
// Package ownercache does both. Besides what was answered, three things are looked after that a controller of its own would have
// to:
//
//   - A write that was not answered (a timeout, a broken connection, an internal error) may have been carried out all the
//     same. [Clients.Check] reads such an object once from the API server before the owner's next decision; without that a Pod
//     whose creation timed out would be created twice.
//   - After a change of leader [Clients.Start] holds all owners back until the caches have what the predecessor wrote last.
//   - When a cache is later than the alarm threshold, one live read shows whether it holds everything after all.
//
// RBAC: list on the resources of the sources, and get for those that are written to.
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
	// NoOwner means that a write to a tracked resource was asked for by a client that was made for an empty UID. It is an error
	// of the program; nothing was sent.
	NoOwner reason.Code = "NoOwner"
	// NotTrackable means that the outcome of a write could not be awaited: a deletion without a UID, or of a collection. It
	// is an error of the program; nothing was sent.
	NotTrackable reason.Code = "NotTrackable"
)

// Index is what must be known of a cache. An ownercache.Index is one.
type Index interface {
	expectations.Progress
	// HasSynced reports whether the cache holds the first list.
	HasSynced() bool
	// IsPresent reports whether the object is in the cache and not terminating.
	IsPresent(uid types.UID) bool
	// Versions returns the resourceVersion by UID of all objects that match; nil matches all.
	Versions(match func(metav1.Object) bool) map[types.UID]string
}

// Source is a resource that a controller writes to and decides on. All fields but Restrict are required.
type Source struct {
	// Store names the cache.
	Store expectations.Store
	// Kind of the objects, such as v1 Pod, to read them from the API server.
	Kind schema.GroupVersionKind
	// Index is the cache.
	Index Index
	// Restrict holds what the cache is restricted by, such as client.InNamespace("team-a"), so that live lists are too.
	Restrict []client.ListOption
}

// Pods is the source for Pods.
func Pods(index Index) Source {
	return Source{Store: store("", "pods"), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Index: index}
}

// Revisions is the source for ControllerRevisions.
func Revisions(index Index) Source {
	return Source{
		Store: store(appsv1.GroupName, "controllerrevisions"), Index: index,
		Kind: appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
	}
}

// Nodes is the source for Nodes, for whoever decides on them and writes none.
func Nodes(index Index) Source {
	return Source{Store: store("", "nodes"), Kind: corev1.SchemeGroupVersion.WithKind("Node"), Index: index}
}

// Claims is the source for PersistentVolumeClaims.
func Claims(index Index) Source {
	return Source{
		Store: store("", "persistentvolumeclaims"), Index: index,
		Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	}
}

// Owners is the source for the owners themselves, whose status a controller writes: without it the next decision could be made
// on the status before that.
func Owners(resource schema.GroupResource, kind schema.GroupVersionKind, index Index) Source {
	return Source{Store: expectations.Store{GroupResource: resource}, Kind: kind, Index: index}
}

func store(group, resource string) expectations.Store {
	return expectations.Store{GroupResource: schema.GroupResource{Group: group, Resource: resource}}
}

// stores returns the caches of the sources, for a tracker.
func stores(sources []Source) map[expectations.Store]expectations.Progress {
	out := make(map[expectations.Store]expectations.Progress, len(sources))
	for _, s := range sources {
		out[s.Store] = s.Index
	}
	return out
}

// pageSize bounds how much of a live list is held at once.
const pageSize = 500

// sameAsLive lists the matching objects live and reports whether the cache shows just those, and the version of the list.
func (s Source) sameAsLive(ctx context.Context, apiReader client.Reader, match func(metav1.Object) bool, within ...client.ListOption) (version string, same bool, err error) {
	options := append(append([]client.ListOption{client.Limit(pageSize)}, s.Restrict...), within...)
	list := s.newList()
	cached := s.Index.Versions(match)
	for {
		// All pages are of the version of the first one.
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

// newList returns a list that asks for metadata only. Leaving its resourceVersion unset makes the answer hold every write
// that was answered before.
func (s Source) newList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(s.Kind.GroupVersion().WithKind(s.Kind.Kind + "List"))
	return list
}
