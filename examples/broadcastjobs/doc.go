// Package broadcastjobs answers: what does a BroadcastJob do now? [Resolve] reads a spec, once for each, [Decide] decides a whole pass, and
// [Transitions] says what is worth an event. All are pure; what jobs have in common they ask of package completion.
package broadcastjobs
