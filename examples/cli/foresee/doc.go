// Package foresee answers "what would the controllers do after this change?".
//
// [Play] copies the objects of a cluster into an API server in memory, sends a changed object through the real
// webhooks, and runs the real controllers of the kinds until the controllers make no more writes (package rehearsal).
// The result contains the objects before and after, and the writes in between. Package forecast turns the result into
// a report.
//
// A real cluster has more than the copy: other controllers, autoscalers, quotas, policies, and the capacity of Nodes.
// Play cannot know whether an image can be pulled, or whether a new version becomes ready. Containers that were
// unready for a while before the change stay unready until their restart.
package foresee
