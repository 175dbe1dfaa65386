// Package puller pulls the wanted images of a Node, and reports the results.
//
// Package imagepull decides when to pull which image. A [Puller] lists the images in the container runtime, records
// reports, and pulls:
//
//	p := puller.New(runtime, keyring, puller.Options{Bounds: bounds, Record: write, Done: queue.Add})
//	go p.Start(ctx)                           // ends all pulls with ctx, and returns after the last
//	step, err := p.Sync(ctx, wants, recorded) // in each pass
//	look again after step.After, and after each call of Done
//
// Each pull runs in its own goroutine, so that no worker waits for a registry. Each pull is recorded before the pull
// begins: if the agent dies during the pull, the pull counts as a failed attempt.
package puller
