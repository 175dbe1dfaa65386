package cause_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
)

// onNode returns a NodeImage whose spec has a tag of job j in version 2, and whose status has the agent's report.
func onNode(t *testing.T, name, report string) unstructured.Unstructured {
	t.Helper()
	return *object(t, `{kind: NodeImage, metadata: {name: `+name+`}, spec: {images: {reg.test/app: {tags: [{tag: v1, version: 2, ownerReferences: [{uid: j}]}]}, other: {tags: [{tag: v1}]}}},
status: {imageStatuses: {reg.test/app: {tags: [`+report+`]}}}}`)
}

// TestPodsUnread: if Pods could not be read, no Pod counts as missing.
func TestPodsUnread(t *testing.T) {
	u := object(t, "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: web}, spec: {replicas: 1, template: {spec: {containers: [{name: app}]}}}, status: {replicas: 1, updatedReplicas: 1, updatedReadyReplicas: 1, updatedAvailableReplicas: 1, readyReplicas: 1, availableReplicas: 1}}")
	if got := cause.Of(cause.Facts{Object: u, Now: now()}); len(got) != 1 || got[0].Code != cause.PodsMissing {
		t.Errorf("the Pod is missing: %v", lines(got))
	}
	if got := cause.Of(cause.Facts{Object: u, IsPodsUnread: true, Now: now()}); len(got) > 0 {
		t.Errorf("Pods are unread: %v", lines(got))
	}
}

// TestAgents: the causes of unfinished jobs and requests name the Nodes or containers for which the job or request
// waits.
func TestAgents(t *testing.T) {
	const pulled, pulling, old = "{tag: v1, version: 2, phase: Succeeded}", "{tag: v1, version: 2, phase: Pulling}", "{tag: v1, version: 1, phase: Succeeded}"
	const job = "{kind: ImagePullJob, metadata: {name: warm, uid: j}, spec: {image: 'reg.test/app:v1'}, status: {startTime: x, active: 1}}"
	const debug = "{kind: EphemeralJob, metadata: {name: look}, spec: {template: {ephemeralContainers: [{name: debug}]}}, status: {phase: Running}}"
	withDebug := func(status string) []corev1.Pod {
		return []corev1.Pod{*pod(t, "", "{ephemeralContainers: [{name: debug, image: d:1}]}", status), *pod(t, "{name: web-b}", "", "")}
	}
	for _, tc := range []struct {
		name, object string
		images       []unstructured.Unstructured
		pods         []corev1.Pod
		want         []string
	}{
		{name: "no agent has begun", object: job, images: []unstructured.Unstructured{onNode(t, "n2", ""), onNode(t, "n1", old), onNode(t, "n3", pulled)}, want: []string{
			"node NotStarted: the agents of 2 Nodes (n1, n2) have not begun to pull reg.test/app:v1 | see whether the agents run: kubectl kruise doctor",
		}},
		{name: "a Node pulls", object: job, images: []unstructured.Unstructured{onNode(t, "n1", pulling)}, want: []string{
			"runtime Pulling: reg.test/app:v1 is being pulled on Node n1 | the end of the pulls",
		}},
		{name: "all have answered", object: job, images: []unstructured.Unstructured{onNode(t, "n1", pulled)}, want: []string{
			`controller JobNotEnded: ImagePullJob "warm": running, active 1 | the end of the Pods`,
		}},
		{name: "a gate is off", object: "{kind: ImagePullJob, metadata: {name: warm}, status: {desired: 0}}", want: []string{
			"controller SpecUnobserved: no controller has seen the job | see whether the manager runs, and whether the feature gate of the kind is on: kubectl kruise doctor",
		}},
		{name: "an ephemeral container is not started", object: debug, pods: withDebug(""), want: []string{
			"node NotStarted: the kubelet of Node n1 has not started container debug | see the kubelet of the Node",
		}},
		{name: "an ephemeral container cannot start", object: debug, pods: withDebug("{ephemeralContainerStatuses: [{name: debug, image: 'd:1', imageID: '', ready: false, restartCount: 0, state: {waiting: {reason: ErrImagePull, message: no such host}}}]}"), want: []string{
			"runtime ErrImagePull: container debug: no such host (image d:1) | an image that the Node can pull, or credentials for the registry",
		}},
		{name: "an ephemeral container runs", object: debug, pods: withDebug("{ephemeralContainerStatuses: [{name: debug, image: 'd:1', imageID: '', ready: false, restartCount: 0, state: {running: {}}}]}"), want: []string{
			"runtime JobNotEnded: container debug runs | the end of the container",
		}},
		{name: "a schedule is paused", object: "{kind: AdvancedCronJob, metadata: {name: nightly}, spec: {paused: true}}", want: []string{
			"user Paused: somebody has paused the object | kubectl kruise rollout resume advancedcronjob/nightly",
		}},
		{name: "a right is missing", object: "{kind: CloneSet, metadata: {name: web}, spec: {replicas: 1}, status: {conditions: [{type: FailedScale, status: 'True', message: 'pods is forbidden: User \"kruise\" cannot create resource'}]}}", want: []string{
			`controller RightsMissing: pods is forbidden: User "kruise" cannot create resource | give the manager the right: kubectl kruise doctor`,
		}},
		{
			name: "a budget is spent", object: "{kind: CloneSet, metadata: {name: web}, spec: {replicas: 1}, status: {replicas: 1, conditions: [{type: Waiting, status: 'True', reason: BudgetSpent, message: 'Pod s/a: PodUnavailableBudget all: 1 of 1 Pods serve, and 1 have to'}]}}",
			pods: []corev1.Pod{*pod(t, "", "", "")}, want: []string{
				"budget BudgetSpent: Pod s/a: PodUnavailableBudget all: 1 of 1 Pods serve, and 1 have to | more available Pods, or a smaller requirement",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := object(t, tc.object)
			u.SetAPIVersion("apps.kruise.io/v1beta1")
			got := lines(cause.Of(cause.Facts{Object: u, Pods: tc.pods, NodeImages: tc.images, Now: now()}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}
