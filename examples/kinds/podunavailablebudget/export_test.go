package podunavailablebudget

import "sigs.k8s.io/controller-runtime/pkg/client"

// ReadLive sets the reader for everything unknown to the caches.
func (b *Budgets) ReadLive(from client.Reader) { b.live = from }
