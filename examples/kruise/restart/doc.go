// Package restart answers "which Pods of a workload have their containers restarted in place now?" for all kinds that
// keep Pods.
//
// A user annotates a CloneSet, StatefulSet or DaemonSet with [apps.AnnotationRestartContainers]: a time, and the names
// of containers. Without names, all containers are restarted:
//
//	kubectl annotate clonesets.apps.kruise.io web --overwrite workloadkit.io/restart-containers="$(date -u +%FT%TZ) app"
//
// For each Pod with containers started before the time, the controller creates a ContainerRecreateRequest, and the
// agent of the Pod's Node restarts the containers. No Pod is recreated. A restart follows the rules of an update: the
// order, partition, maxUnavailable and paused, and the PodUnavailableBudgets are asked. The condition
// [apps.ConditionContainersRestarted] in the workload's status has the progress.
//
// A pass decides with [Decide], from the Pods, the requests and the time alone:
//
//   - Updates come first: a pass that updates, creates or deletes Pods restarts no containers.
//   - A Pod under restart counts as unavailable, for updates too ([View.Away]).
//   - For a container that has started after the time, nothing is to be done, whatever the cause: a request, a crash,
//     an update in place, or a new Pod.
//   - A Pod that cannot be restarted is named in the condition, and no other Pod waits for such a Pod: a container does
//     not exist, the kubelet would not start the container again, no agent answers, or a request has failed. A new time
//     in the annotation starts a new attempt. A Pod that is unavailable after a failed restart counts against
//     maxUnavailable, so a restart that breaks the Pods stops by itself.
//   - If the time is in the future, the restart begins at this time. If the annotation is removed, no further Pod is
//     restarted.
//   - While the API server does not serve ContainerRecreateRequests, a workload works as without the annotation. The
//     condition names the missing CustomResourceDefinition, and the restart goes on once the requests are served.
//
// A request is kept until the Pod's status shows the restart, so no container is restarted twice if the clock of a Node
// is behind. An admitted disruption counts against a budget only for some seconds, so while a request runs, the budget
// is asked again and again.
package restart
