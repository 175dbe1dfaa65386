// Package probing answers "do the probes of a Pod pass, and which conditions and labels follow?"
//
// A [Marker] selects Pods of a namespace and lists probes of their containers. A probe's state becomes a condition,
// labels and annotations of the Pod. The work is divided between a manager and an agent on each Node; the manager
// writes a list of entries for each Node, and the agent answers with reports:
//
//	book.Assign(pods)             manager: which entries stand in the spec of each Node
//	Targets(entries)              agent: which probes to run
//	Next(target, record, ...)     agent: run a probe now, or wait
//	Observe(target, record, ...)  agent: what the result changes
//	Publish(before, entries, ...) agent: which reports to write, and when
//	Accept(node, entries, ...)    manager: which states of the reports to believe
//	book.Mark(pod, states)        manager: the change to send with podpatch
//
// # States
//
// A [Record] belongs to a single probe and to a single instance of the probe's container. Two probes of a container
// have two records, and a restart of the container begins a new record with state Unknown. After a restart of the
// agent, the published state counts until the probes have reached a verdict about an instance as old as that state.
//
// # Writes
//
// Publish returns reports to write only if a state or a message has changed: probes with constant results cost no
// write. Changed states are written within a second, changed messages less often.
//
// # Trust
//
// Whoever controls a Node controls the reports of the Node. Accept believes only pairs of Pod and probe from the spec,
// for Pods on the Node. Mark reads what a state means from the Marker alone; no text of a report becomes a key.
//
// # Taking back
//
// A Pod's ledger, an annotation, records what each probe has set. If a Marker or a probe disappears, or if the selector
// no longer matches, Mark takes the labels and annotations of the probe back, unless another program has changed the
// values. The condition becomes Unknown.
//
// # Other sources of probes
//
// [Join] adds entries that no Marker has asked for, for example to restart containers after failed probes. The name
// of such a probe has no "#". The agent treats all probes alike, Accept returns the states, and Mark ignores such states.
//
// All functions are pure and safe for concurrent use, and never modify their arguments. Package probing/prober carries
// out probes.
package probing
