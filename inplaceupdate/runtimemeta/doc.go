// Package runtimemeta answers "do containers run with the Pod's present labels and annotations?"
//
// A container reads labels and annotations of its Pod through env at its start alone. After a change on a live Pod,
// somebody on the Node has to stop the container, and the kubelet starts a new instance with the new values. A node
// agent does so, and reports in an annotation of the Pod with which values the containers run. Package inplaceupdate
// waits for the report. Both sides use package runtimemeta: [Rules.Next] writes, [Decode] reads, and the hashes are the
// same.
//
// # The agent
//
//	step := rules.Next(pod, instances, before)
//	read the environments in step.Read, add them to the instances, and call Next again
//	if step.Changed, write step.Report.Encode() to the annotation
//	stop the instances in step.Stop, each with the Pod's grace period and preStop hook
//
// pod is the Pod as the agent knows, instances are the containers at the Node's runtime, before is the report in the
// annotation. Next is called again after each event of the Pod or of its containers, and soon after a failed reading. A
// failed reading holds up no report about the rest.
//
// The environment comes from the runtime's own record of a container. The record needs no program inside of the
// container, and no wrapper has changed the values.
//
// # Stops
//
// A container is stopped only during an update in place, while the Pod's condition [Rules.Condition] is False. Next
// names an instance only after the Pod's status shows the instance. Such a Pod is at least as new as the labels and
// annotations read by the instance, so a late view of the Pod never stops a container with newer values.
//
// Next keeps no time, so the agent delays repeated stops: by Pod and container name, since an instance may start once
// more with old values if the kubelet sees the change of the Pod late. The same name may need a third stop, but never
// at once. OpenKruise begins with 3 seconds, and doubles up to 10 minutes.
//
// # Secrets
//
// An environment holds values of Secrets. An [Environment] does not print values, and no reason and no error has any.
// The report has a short hash of the labels and annotations alone.
//
// # Wire format
//
// The report is OpenKruise's, with an addition: native sidecars, missing in reports of OpenKruise's agent. OpenKruise
// looks for containers by name, and overlooks the sidecars.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package runtimemeta
