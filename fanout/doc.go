// Package fanout answers "how do I act on many Pods at once, without starving others or repeating what is refused?".
//
// A [Fanout] is made once for a controller, and a [Pass] for each reconcile of an owner. The pass carries decisions
// out:
//
//   - [Each] works on Pods side by side. A Pod's failure does not stop the work on all other Pods.
//   - [Pass.Create] makes new objects in batches of 1, 2, 4, ... calls: if every call would fail, because a quota is
//     exhausted or a webhook refuses, a single request finds out.
//   - [Pass.Once] is for an action done once for the owner.
//   - [Pass.UntilChanged] runs phases in order until a phase has changed something: later phases were decided for the
//     earlier state.
//   - [Pass.Result] is the result of the reconcile.
//
// A pass reads from top to bottom:
//
//	pass := r.fanout.Begin(view)
//	err := pass.UntilChanged(
//		func() error { _, err := pass.Create(ctx, fanout.Task{Name: "create Pods"}, todo.Create, create); return err },
//		func() error { return fanout.Each(ctx, pass, fanout.Task{Name: "delete Pods"}, todo.Delete, remove) },
//		func() error { return fanout.Each(ctx, pass, fanout.Task{Name: "update Pods"}, todo.Update, update) },
//	)
//	return pass.Result(err, r.writeStatus(ctx, view, err))
//
// # Bounds
//
// All passes of a Fanout share a bound on the requests under way, and no namespace may use the whole bound: a webhook
// that takes ten seconds for each Pod of some namespaces leaves room for all other namespaces. A pass changes at most
// [PerPass] objects for each task, or as many as Task.Most says, and asks for another pass. So a status does not stay
// behind, and a mistyped number of replicas costs a quota and not the controller's memory.
//
// # Refusals
//
// A refused request (by a quota, a policy, a webhook, or for a missing right) is tried again after a while, which
// doubles with each refusal, or as soon as the owner's generation changes. A [Backoff] remembers the refusal. Errors
// about refusals are final (see [reason.Final]): [Pass.Result] does not hand them to the queue, because the next event
// would bypass the queue's own back-off. After a pass with a refusal and without a change, passes ask for a single
// object at a time, objects without a refusal first.
package fanout
