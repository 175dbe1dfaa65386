package imagepull_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/node/imagepull"
)

// A job brings an image to three Nodes, a Node at a time, and begins with the Node whose Pods are updated first.
func ExamplePlan() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	image, err := imagepull.Parse("ghcr.io/team/app:v2")
	if err != nil {
		fmt.Println(err)
		return
	}
	// The API objects of the Nodes contain the wanted images and the agents' reports.
	type object struct {
		wants   []imagepull.Want
		reports []imagepull.Report
	}
	objects := map[string]*object{"node-c": {}, "node-a": {}, "node-b": {}}
	rules := imagepull.Rules{Rules: completion.Rules{Parallelism: 1}}
	pass := func() {
		var nodes []imagepull.Node
		for _, name := range []string{"node-c", "node-a", "node-b"} {
			o := objects[name]
			nodes = append(nodes, imagepull.Node{Name: name, Standing: imagepull.Judge(o.wants, o.reports, image, "job-1", now)})
		}
		nodes[2].NotReady = "kubelet stopped"
		step := imagepull.Plan(nodes, rules, imagepull.Progress{Started: now}, now)
		for _, name := range step.Start {
			claim := imagepull.Claim{Owner: "job-1", Since: now, Policy: imagepull.Policy{Retries: 3}}
			objects[name].wants, err = imagepull.AddClaim(objects[name].wants, objects[name].reports, image, claim)
		}
		fmt.Printf("%s: start %v, %+v, %v\n", step.State, step.Start, step.Counts, err)
	}
	pass()
	objects["node-c"].reports = []imagepull.Report{{Image: image, Phase: imagepull.Succeeded, Present: true}}
	pass()

	// Output:
	// Running: start [node-c], {Desired:3 Active:1 Succeeded:0 Failed:0 Waiting:2}, <nil>
	// Running: start [node-a], {Desired:3 Active:1 Succeeded:1 Failed:0 Waiting:1}, <nil>
}

// An agent pulls an image. The first attempt fails, and the second succeeds.
func ExampleNext() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	image, err := imagepull.Parse("nginx")
	if err != nil {
		fmt.Println(err)
		return
	}
	wants := []imagepull.Want{{Image: image, Claims: []imagepull.Claim{{Owner: "job-1", Since: now, Policy: imagepull.Policy{Retries: 1}}}}}
	bounds := imagepull.Bounds{Pulls: 2, Registries: imagepull.Registries{"docker.io/library"}}
	var reports []imagepull.Report // the recorded reports
	look := func(seen imagepull.Observed) {
		step := imagepull.Next(wants, reports, seen, bounds, now)
		reports = step.Reports
		fmt.Printf("%s, attempt %d %q\n", reports[0].Phase, reports[0].Attempts, reports[0].Message)
		for _, a := range step.Actions {
			fmt.Println("  ", a.Do, a.Image.Normal(), "within", a.Limit)
		}
		now = now.Add(step.After)
	}

	look(imagepull.Observed{Listed: true})
	ended := imagepull.Pull{Image: image, Ended: true, Err: errors.New("connection reset")}
	look(imagepull.Observed{Listed: true, Pulls: []imagepull.Pull{ended}})
	look(imagepull.Observed{Listed: true})
	look(imagepull.Observed{Listed: true, Images: []imagepull.Image{{ID: "sha256:1", Tags: []string{"docker.io/library/nginx:latest"}}}})

	// Output:
	// Pulling, attempt 1 ""
	//    Start docker.io/library/nginx:latest within 10m0s
	// Waiting, attempt 1 "connection reset"
	// Pulling, attempt 2 ""
	//    Start docker.io/library/nginx:latest within 10m0s
	// Succeeded, attempt 2 ""
}
