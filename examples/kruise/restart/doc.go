// Package restart restarts containers of a workload's Pods in place, for all kinds whose controllers create Pods.
//
// A user annotates a CloneSet, StatefulSet or DaemonSet with [apps.AnnotationRestartContainers]: a time, and the names
// of containers. If no names are given, all containers are restarted:
//
//	kubectl annotate clonesets.apps.kruise.io web --overwrite workloadkit.io/restart-containers="$(date -u +%FT%TZ) app"
//
// For each Pod with containers that were started before this time, the controller creates a ContainerRecreateRequest,
// and the agent of the Pod's Node restarts the containers. No Pod is recreated. A restart follows the same rules as an
// update: the order, partition, maxUnavailable and paused. PodUnavailableBudgets are asked for each Pod. The condition
// [apps.ConditionContainersRestarted] in the workload's status shows the progress.
//
// [Decide] decides from the Pods, the requests and the time alone:
//
//   - Updates come first: in a reconciliation that updates, creates or deletes Pods, no container is restarted.
//   - A Pod whose containers are being restarted counts as unavailable, also when updates are decided ([View.Away]).
//   - A container that was started after the requested time is not restarted, whatever has started the container: a
//     request, a crash, an update in place, or the creation of the Pod.
//   - If a Pod cannot be restarted, the condition names the Pod, and other Pods do not wait for it. Possible causes: a
//     container does not exist, the kubelet would not start the container again, no agent answers, or a request has
//     failed. A new time in the annotation starts a new attempt. A Pod that is unavailable after a failed restart
//     counts against maxUnavailable, so a restart that breaks Pods stops after a few Pods.
//   - If the requested time is in the future, the restart begins at this time. If the annotation is removed, no further
//     Pod is restarted.
//   - While the API server does not serve ContainerRecreateRequests, the workload is reconciled as if the annotation
//     did not exist. The condition names the missing CustomResourceDefinition, and the restart continues once
//     ContainerRecreateRequests are served.
//
// A request is kept until the Pod's status shows the restart, so that no container is restarted twice if the clock of
// a Node is behind. A budget counts an admitted disruption only for some seconds, so the controller asks the budget
// again and again while a request is in progress.
package restart
