// Package imagepull answers "how do images get to Nodes in advance, and how far is each Node?"
//
// Jobs of your own kind bring images to Nodes before Pods need the images. Each Node has an object with the wanted
// images, shared by all jobs, and an agent on the Node pulls the images and reports. Package imagepull decides for both
// sides, and knows no registry, no container runtime and no API type.
//
// The controller of a job claims the image on some Nodes at a time:
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
// Record the reports first: if the agent dies in between, the pull counts as a failed attempt, and the attempts stay
// limited. Package imagepull/puller does the agent's half for a given container runtime.
//
// # Claims and rounds
//
// A [Claim] says who wants an image, since when, and with which policy. A [Want] is an image with all of its claims.
// The image is pulled once for all claims, with the most patient policy. The last Release removes the Want.
//
// A round is the number of a pull: a [Report] belongs to a round, and answers the claims made up to the round. A new
// claim joins the present round if the pull is not over, or if the image is still present. Otherwise the claim begins a
// new round. Jobs with earlier claims keep their answers: a Report also holds the answers of earlier rounds.
//
// # Images that disappear
//
// The kubelet deletes unused images when the disk is full. A Report says whether the image is present now, and
// [Condition] makes a condition from all reports, so a Node can be kept free of Pods until its images are present. A
// Want with Policy.Keep is pulled again after an image was deleted. The wait before each such pull doubles up to four
// hours, so that kubelet and agent do not delete and pull in turn.
//
// # Hostile Nodes
//
// A stolen Node can write any report. [Merge] drops reports about unwanted images and unknown rounds, and limits texts,
// numbers and times. Controllers must call Merge before they read reports. A Node that never ends a pull holds up a job
// until the deadline of the claim or of the job, so set a deadline.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package imagepull
