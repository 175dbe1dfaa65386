package containerrestart

import "time"

// defaultGrace is the grace period of a Pod without any, as in Kubernetes.
const defaultGrace = 30 * time.Second

// leastGrace is the shortest time for a runtime to stop a container, as the kubelet gives.
const leastGrace = 2 * time.Second

// Grace is the time for a preStop hook and for the container's own end together.
type Grace time.Duration

// GraceOf returns the grace period of a stop: wanted by the request, or else own, the Pod's, or else 30 s. A negative
// period counts as zero.
func GraceOf(own, wanted *time.Duration) Grace {
	switch {
	case wanted != nil:
		return Grace(*wanted)
	case own != nil:
		return Grace(*own)
	}
	return Grace(defaultGrace)
}

// Hook returns the longest time of a preStop hook. Without grace no hook runs.
func (g Grace) Hook() (limit time.Duration, runs bool) { return time.Duration(max(g, 0)), g > 0 }

// Stop returns the grace period for the runtime after a time spent with the hook: the rest, and 2 s at least.
func (g Grace) Stop(spent time.Duration) time.Duration {
	return max(time.Duration(g)-max(spent, 0), leastGrace)
}
