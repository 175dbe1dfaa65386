// Package runtimemeta answers "do containers run with the Pod's present labels and annotations?"
//
// A container reads labels and annotations of its Pod through env, but only when the container starts. If a label or
// annotation of a running Pod changes, somebody on the Node has to stop the container, and the kubelet starts a new
// instance with the new values. A node agent stops such containers, and reports in an annotation of the Pod with which
// values the containers run. Package inplaceupdate waits for this report. Controller and agent both use package
// runtimemeta: the agent writes the report with [Rules.Next], the controller reads the report with [Decode], and both
// compute the same hashes.
//
// # The agent
//
//	step := rules.Next(pod, instances, before)
//	read the environments in step.Read, add them to the instances, and call Next again
//	if step.Changed, write step.Report.Encode() to the annotation
//	stop the instances in step.Stop, each with the Pod's grace period and preStop hook
//
// pod is the Pod as the agent knows the Pod, instances are the containers in the Node's container runtime, and before
// is the report in the Pod's annotation. The agent calls Next again after each event of the Pod or of its containers,
// and soon after a failed read of an environment. A failed read does not delay the report about other containers.
//
// The environment is read from the container runtime's own record of a container. The agent needs no program inside the
// container for this read, and a wrapper script cannot have changed the values.
//
// # Stops
//
// Next stops a container only during an in-place update, while the Pod's condition [Rules.Condition] is False. Next
// stops an instance only after the status of the given Pod shows the instance. A Pod with this status is at least as
// new as the labels and annotations that the instance has read, so the agent never stops a container with newer values
// because of a stale Pod.
//
// Next does not remember earlier stops, so the agent must delay repeated stops, by Pod and container name: an
// instance may start once more with old values if the kubelet receives the change of the Pod late. A container may
// need more than one stop, but later stops are never urgent. OpenKruise waits 3 seconds at first, and doubles the
// wait up to 10 minutes.
//
// # Secrets
//
// An environment contains values of Secrets. An [Environment] never prints its values, and no reason or error contains
// values. The report contains only a short hash of the labels and annotations.
//
// # Wire format
//
// The report has OpenKruise's format, with additional entries for native sidecars, which OpenKruise's agent does not
// report. OpenKruise finds containers by name, and ignores the entries of sidecars.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package runtimemeta
