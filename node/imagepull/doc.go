// Package imagepull answers "how do images get to Nodes in advance, and how far is each Node?"
//
// Jobs of your own kind bring images to Nodes before Pods need the images. Each Node has an object with the wanted
// images, shared by all jobs, and an agent on the Node pulls the images and reports. Package imagepull decides for both
// sides, and knows no registry, no container runtime and no API type.
//
// The controller of a job adds a claim for the image on a limited number of Nodes at a time:
//
//	standing := imagepull.Judge(wants, reports, image, owner, now)      // for each Node
//	step := imagepull.Plan(nodes, rules, progress, now)
//	for each name in step.Start: wants, err = imagepull.AddClaim(wants, reports, image, claim)
//	at the job's end: wants = imagepull.Release(wants, owner)
//
// The agent of a Node pulls:
//
//	step := imagepull.Next(wants, reports, observed, bounds, now)
//	record step.Reports, then carry out step.Actions
//	look again after step.After, and when a pull ends
//
// Record the reports first: if the agent dies after the record, the pull counts as a failed attempt, so that the
// number of attempts stays limited. Package imagepull/puller implements the agent's part for a given container
// runtime.
//
// # Claims and rounds
//
// A [Claim] says that one job, its owner, wants an image, since when, and with which policy. A [Want] is an image
// with all of its claims. The image is pulled once for all claims, with the longest times and the most attempts of
// all policies. The last Release removes the Want.
//
// The pulls of an image on a Node are numbered: each pull, with all its attempts, is a round. A [Report] belongs to a
// round. The result of the round, the [Answer], is the result for all claims that wait for this round or an earlier
// round. A new claim joins the present round if the pull is not over, or if the image is still present. Otherwise the
// claim begins a new round. A Report also contains the Answers of earlier rounds, so jobs with earlier claims keep
// their results.
//
// # Images that disappear
//
// The kubelet deletes unused images when the disk is full. A Report says whether the image is present now, and
// [Condition] makes a condition from all reports, so a Node can be kept free of Pods until its images are present.
// With Policy.Keep, an image is pulled again after the kubelet has deleted the image. The wait before each such pull
// doubles up to four hours, so that kubelet and agent do not delete and pull in a tight loop.
//
// # Hostile Nodes
//
// A Node under the control of an attacker can write any report. [Merge] removes reports about unwanted images and
// unknown rounds, and limits texts, numbers and times. Controllers must call Merge before they read reports. A Node
// that never ends a pull delays a job until the deadline of the claim or of the job, so set a deadline.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package imagepull
