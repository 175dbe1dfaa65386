// Package fanout answers "how do I carry out what was decided, for many Pods at once, without starving others or repeating what
// is refused?".
//
// A [Fanout] is made once for a controller, and a [Pass] for each reconcile of an owner. The pass carries decisions out:
//
//   - [Each] works on Pods side by side. One Pod's failure does not keep the others from being worked on.
//   - [Pass.Create] makes new objects in batches of 1, 2, 4, ... calls: where every call would fail, because a quota is exhausted
//     or a webhook refuses, one request finds out.
//   - [Pass.Once] is for what is done once for the owner.
//   - [Pass.UntilChanged] runs phases in their order until one has changed something: what comes after it was decided for what
//     was there before.
//   - [Pass.Result] is what the reconcile returns.
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
// All passes of a Fanout share one bound on the requests that are under way, and no namespace may have all of them: a webhook
// that takes ten seconds for each Pod of some namespaces leaves room for the others. A pass changes at most [PerPass] objects for
// each task, or as many as Task.Most says, and asks to be called again, so that a status does not stay behind, and a mistyped number of replicas costs a quota
// and not the controller's memory.
//
// # What is refused
//
// What the API server does not accept as it is (a quota, a policy, a webhook, a missing right) is tried again after a while,
// which doubles with each refusal, or as soon as the owner's generation changes. A [Backoff] remembers it. Errors about it are
// final (see [reason.Final]): [Pass.Result] does not hand them to the queue, whose own back-off the next event would go past. A
// pass that was refused something and has changed nothing asks for one object at a time from then on, those first of which
// nothing was refused.
package fanout
