package ownercache

import (
	"context"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ordinals"
)

// numberedClaims enqueues owners on events of claims of Pods with ordinals (pvc.Numbered): such claims have no
// controller, and still exist after their Pods are deleted. A claim's name is the name of its template, a hyphen and
// the name of the Pod, which begins with the name of the owner. Both names may contain hyphens, so a claim enqueues
// each existing owner whose name fits.
func (c *Cache[O]) numberedClaims() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, claim client.Object) (out []reconcile.Request) {
		for _, name := range numberedOwners(claim.GetName()) {
			if owner, ok := c.Owners.Get(claim.GetNamespace(), name); ok {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
			}
		}
		return out
	})
}

// numberedOwners returns the possible names of the owner to whose Pods a claim belongs.
func numberedOwners(claim string) (names []string) {
	name, _, found := ordinals.ParseName(claim)
	for found {
		if _, name, found = strings.Cut(name, "-"); found {
			names = append(names, name)
		}
	}
	return names
}
