// Package probing answers "do the probes of a Pod pass, and which conditions and labels follow?"
//
// A [Marker] selects Pods of a namespace and lists probes of their containers. A probe's state is written as a
// condition, labels and annotations of the Pod (the marks of the probe). The work is divided between a manager and an
// agent on each Node. The manager writes a list of entries for each Node, called the spec of the Node, and the agent
// writes reports:
//
//	book.Assign(pods)             manager: which entries belong in the spec of each Node
//	Targets(entries)              agent: which probes to run
//	Next(target, record, ...)     agent: run a probe now, or wait
//	Observe(target, record, ...)  agent: what the result changes
//	Publish(before, entries, ...) agent: which reports to write, and when
//	Accept(node, entries, ...)    manager: which states of the reports to believe
//	book.Mark(pod, states)        manager: the change to send with podpatch
//
// # States
//
// A [Record] belongs to one probe and to one instance of the probe's container. Two probes of a container have two
// records, and a restart of the container begins a new record with state Unknown. After a restart of the agent, the
// published state stays until the probe has a new result, unless the container has started after that state was
// probed.
//
// # Writes
//
// Publish asks for a write only if a state or a message has changed, so probes with constant results cost no write.
// Changed states are written within a second, and changed messages less often.
//
// # Trust
//
// An attacker who controls a Node controls the reports of the Node. Accept accepts only pairs of Pod and probe from
// the spec, for Pods on the Node. Mark takes the marks for a state from the Marker alone, and no text of a report
// becomes the key of a label or annotation.
//
// # Removal of marks
//
// A Pod's ledger, an annotation, records the marks that each probe has set. If a Marker or a probe disappears, or if
// the selector no longer matches, Mark removes the labels and annotations of the probe, unless another program has
// changed the values. The condition becomes Unknown.
//
// # Other sources of probes
//
// [Join] adds entries from a source other than Markers, for example to restart containers after failed probes. The
// name of such a probe has no "#". The agent treats all probes alike, Accept returns the states of all probes, and
// Mark ignores the states of probes without a Marker.
//
// All functions are pure and safe for concurrent use, and never modify their arguments. Package probing/prober carries
// out probes.
package probing
