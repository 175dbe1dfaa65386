// Package restart answers "which Pods of a workload have their containers restarted in place now?" for all kinds that
// keep Pods.
//
// A user annotates a CloneSet, StatefulSet or DaemonSet with [apps.AnnotationRestartContainers]: a time, and the names
// of containers, none for all:
//
//	kubectl annotate clonesets.apps.kruise.io web --overwrite workloadkit.io/restart-containers="$(date -u +%FT%TZ) app"
//
// Every container started before the time is restarted by its node agent, by a ContainerRecreateRequest for the Pod. No
// Pod is recreated. The rules are those of an update: the order, partition, maxUnavailable and paused, and the
// PodUnavailableBudgets are asked. The condition [apps.ConditionContainersRestarted] in the workload's status has the
// progress.
//
// A pass decides with [Decide], from the Pods, the requests and the time alone:
//
//   - An update goes first: a pass that updates, creates or deletes Pods restarts none.
//   - A Pod under restart counts as unavailable, for updates too ([View.Away]).
//   - Whatever has restarted the containers since the time counts: a request, a crash, an update in place, another Pod.
//   - A Pod that cannot be restarted is named in the condition, and no other Pod waits for such a Pod: a container does
//     not exist, the kubelet would not start the container again, no agent answers, or a request has failed. Another
//     time in the annotation tries again. A failed restart that has left its Pod unavailable uses budget, so a restart
//     that breaks the Pods ends by itself.
//   - A time to come begins the restart then. Without the annotation no further Pod is restarted.
//   - While the API server does not serve ContainerRecreateRequests, a workload works as without the annotation. The
//     condition names the missing CustomResourceDefinition, and the restart goes on once the requests are served.
//
// A request stays until the Pod itself shows the restart, so nothing is restarted twice where the clock of a Node is
// late. A budget's share ends some seconds after the answer: while a request runs, the share is asked for anew.
package restart
