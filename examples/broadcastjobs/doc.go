// Package broadcastjobs decides the next work of a BroadcastJob. [Resolve] reads a spec, once for each spec. [Decide]
// decides a whole pass. [Transitions] returns the events. All are pure. Package completion has the common rules of
// jobs.
package broadcastjobs
