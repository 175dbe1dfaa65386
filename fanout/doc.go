// Package fanout answers "how do I act on many Pods at once, without starving others or repeating what is refused?".
//
// A [Fanout] is made once for a controller, and a [Pass] for each reconcile of an owner. The Pass carries out the
// decisions of the reconcile:
//
//   - [Each] changes several Pods concurrently. A Pod's failure does not stop the work on all other Pods.
//   - [Pass.Create] makes new objects in batches of 1, 2, 4, ... calls: if every call would fail, because a quota is
//     exhausted or a webhook refuses, the pass stops after a single request.
//   - [Pass.Once] is for an action done once for the owner, such as a write to the owner's status.
//   - [Pass.UntilChanged] calls functions (phases) in order until a phase has changed an object: later phases were
//     decided for the state before the change.
//   - [Pass.Result] returns the result of the reconcile.
//
// The code of a pass reads from top to bottom:
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
// All passes of a Fanout share a limit on concurrent requests, and no namespace may use the whole limit: if a webhook
// takes ten seconds for each Pod of some namespaces, all other namespaces can still send requests. For each task, a
// pass changes at most [PerPass] objects, or Task.Most if smaller, and then requeues the owner for the remaining
// objects. So the status is updated between passes, and a mistyped number of replicas exhausts a quota but not the
// controller's memory.
//
// # Refusals
//
// A refused request (by a quota, a policy, a webhook, or for lack of rights) is retried after a back-off, which
// doubles with each refusal, or as soon as the owner's generation changes. A [Backoff] remembers the refusal. Errors
// about refusals are final (see [reason.Final]): [Pass.Result] does not return these errors to the work queue,
// because the queue's own back-off does not delay a reconcile triggered by an event. If a pass had a refusal and
// changed nothing, later passes try a single object at a time, beginning with objects without a refusal.
package fanout
