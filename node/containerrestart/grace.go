package containerrestart

import "time"

// defaultGrace is the grace period of a Pod that sets none, as in Kubernetes.
const defaultGrace = 30 * time.Second

// leastGrace is the shortest time that the kubelet gives a runtime to stop a container.
const leastGrace = 2 * time.Second

// Grace is how long a preStop hook and the stop of its container may take together.
type Grace time.Duration

// GraceOf returns the grace period of a stop: wanted (the request's period) or, if wanted is nil, own (the Pod's
// period) or, if both are nil, 30 s. A negative period counts as zero.
func GraceOf(own, wanted *time.Duration) Grace {
	switch {
	case wanted != nil:
		return Grace(*wanted)
	case own != nil:
		return Grace(*own)
	}
	return Grace(defaultGrace)
}

// Hook returns how long a preStop hook may run. If the grace period is zero, no hook is run.
func (g Grace) Hook() (limit time.Duration, runs bool) { return time.Duration(max(g, 0)), g > 0 }

// Stop returns the grace period for the runtime after the hook has used some of the time: the remaining time, but at
// least 2 s.
func (g Grace) Stop(spent time.Duration) time.Duration {
	return max(time.Duration(g)-max(spent, 0), leastGrace)
}
