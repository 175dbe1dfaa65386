package ownercache

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ordinals"
)

// WatchClaims returns a ControllerOptions.Watch that wakes owners for the claims of Pods with ordinals (pvc.Numbered):
// such claims outlive their Pods and have no controller, so the claims' own events wake nobody. A claim's name is the
// name of its template, a hyphen and the name of the Pod, which begins with the name of the owner. Both names may
// contain hyphens, so a claim wakes each existing owner for which its name fits.
func WatchClaims[O client.Object](cache *Cache[O]) func(*builder.Builder) *builder.Builder {
	return func(b *builder.Builder) *builder.Builder {
		return b.Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) (out []reconcile.Request) {
			for _, name := range numberedOwners(claim.GetName()) {
				if owner, ok := cache.Owners.Get(claim.GetNamespace(), name); ok {
					out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
				}
			}
			return out
		}))
	}
}

// numberedOwners returns the possible names of the owner of a claim.
func numberedOwners(claim string) (names []string) {
	name, _, found := ordinals.ParseName(claim)
	for found {
		if _, name, found = strings.Cut(name, "-"); found {
			names = append(names, name)
		}
	}
	return names
}
