package budgets

import "sigs.k8s.io/controller-runtime/pkg/client"

// ReadLive has what caches do not know read from a reader.
func (b *Budgets) ReadLive(from client.Reader) { b.live = from }
