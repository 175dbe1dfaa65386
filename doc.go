// Package workloadkit is the entrance to a kit of parts that Kubernetes workload controllers are made of. It holds no code
// itself; import the package that answers your question.
//
//	partition      how many is "25%", and how many Pods does a partition keep?
//	rollout        what next: how many (or which numbered) Pods of which revision to create, delete and update now, and what limits it?
//	ordinals       which numbers do Pods have, with a start and reserved ranges?
//	podorder       which Pod first, to update and to delete?
//	expectations   has my cache seen my own writes?
//	revision       has the template changed, and which template was that Pod made from?
//	podreadiness   who keeps this Pod out of service?
//	lifecycle      may I delete or update this Pod now, or does somebody have to finish something first?
//	inplaceupdate  can this Pod become that template without being recreated, and is it done?
//	reason         why was it decided that way?
//	podstate       what state is this Pod in?
//	podpatch       which requests carry out all of these decisions?
//	ownerindex     which Pods and revisions does this owner have, and how fresh is that answer?
//	claim          which objects are mine, which should I take, which let go?
//	slowstart      how do I make a thousand requests without making a thousand mistakes?
//	decode         what does this JSON say, and what of it makes no sense?
//	fairqueue      how do I keep one namespace from holding up all the others?
//	webhookcert    which certificate does this webhook server show, and whom do its clients trust?
//
// # Decide, then act
//
// Every mechanism has a deciding half and an acting half. The deciding half is package x: it takes values and returns a
// decision, without client, clock, randomness or log, so that the same input always gives the same answer. It can be
// fuzzed, called by a webhook to predict a rollout, and read by whoever wants to know what a system does. The acting half
// is package x/apply: it takes a client and writes what was decided, as few times as the API allows.
//
// Between the two stands podpatch: deciders return changes, and podpatch merges the changes of all of them for one Pod into
// at most one patch each for pods, pods/status and pods/resize.
//
// # Reasons are data
//
// Whatever refuses, waits or falls back says why in a reason.Reason: a stable code, a field path, what was found and what
// would change the answer. See docs/reasons.md for all codes; they are API.
//
// # Layers
//
// Imports point down only. reason is below all; podstate, partition, ordinals, expectations and webhookcert know nothing but
// it, decode not even that; podpatch reads Pods through podstate; rollout, revision, podorder, podreadiness, lifecycle and
// claim stand on those; inplaceupdate is above them. ownerindex is the one package that knows informers, fairqueue the one that knows queues.
// Nothing here knows an API type of its own: annotation, label and condition names are Keys that the caller gives.
//
// The module in testing holds what operator authors test their controllers with: a real control plane and a real Node on one machine,
// an API server in memory, and schedules of faults. The module in examples assembles these parts into reference controllers for the OpenKruise API, and examples/embed into a
// small operator for a kind of its own.
package workloadkit
