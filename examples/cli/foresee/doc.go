// Package foresee answers "what would the controllers do after this change?".
//
// [Play] puts the objects of a cluster into an API server in memory, asks the very webhooks about a changed object, and
// runs the very controllers of the kinds until nothing happens any more (package rehearsal). The result contains the
// objects before and after, and the writes in between. Package forecast makes a report of them.
//
// A real cluster has more than the copy: other controllers, autoscalers, quotas, policies, and the capacity of Nodes.
// Images that cannot be pulled and new versions that never become ready are unknown before they run. Containers that
// were unready for a while before the change stay unready until they are restarted.
package foresee
