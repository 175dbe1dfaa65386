// Package puller pulls the images that a Node must have, and reports.
//
// Package imagepull decides which images to pull when. A [Puller] asks the container runtime, records, and pulls:
//
//	p := puller.New(runtime, keyring, puller.Options{Bounds: bounds, Record: write, Done: queue.Add})
//	go p.Start(ctx)                           // ends all pulls with ctx, and returns after the last
//	step, err := p.Sync(ctx, wants, recorded) // in each pass
//	look again after step.After, and after each call of Done
//
// Each pull runs in its own goroutine, so that no worker waits for a registry. A pull is recorded before the pull
// begins: if the agent dies in between, the pull counts as a failed attempt.
package puller
