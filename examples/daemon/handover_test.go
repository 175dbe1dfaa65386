package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestTakeOverMidway: the agent completes ContainerRecreateRequests that the manager and the daemon of OpenKruise
// 1.9.0 have left in any state, stored as v1alpha1. All requests succeed, and a container that OpenKruise's daemon
// has stopped is not stopped again.
func TestTakeOverMidway(t *testing.T) {
	n := newNode(t)
	n.installReleased()
	killed := []any{map[string]any{"name": "app", "phase": "Recreating", "isKilled": true}}
	cases := []struct {
		name    string
		status  map[string]any
		unready bool
		// away is true if the container app has ended. back is true if the kubelet has started app again.
		away, back bool
	}{
		{name: "new"},
		{name: "waiting", status: map[string]any{"phase": "Pending"}},
		{name: "begun", status: map[string]any{"phase": "Recreating"}},
		{name: "unready", status: map[string]any{"phase": "Recreating"}, unready: true},
		{name: "not-recorded", status: map[string]any{"phase": "Recreating"}, unready: true, away: true, back: true},
		{name: "stopped", status: map[string]any{"phase": "Recreating", "containerRecreateStates": killed}, unready: true, away: true},
		{name: "started", status: map[string]any{"phase": "Recreating", "containerRecreateStates": killed}, unready: true, away: true, back: true},
	}
	pods, requests := map[string]*corev1.Pod{}, map[string]*unstructured.Unstructured{}
	for _, tc := range cases {
		pods[tc.name] = n.pod(tc.name, "app", "log")
		requests[tc.name] = n.oldRequest(tc.name, pods[tc.name])
		if tc.unready {
			n.patch(requests[tc.name], map[string]any{"metadata": map[string]any{
				"annotations": map[string]string{apps.AnnotationRequestUnreadyAcquired: time.Now().UTC().Format(time.RFC3339)},
				"finalizers":  []string{apps.FinalizerRequestUnreadyAcquired},
			}})
		}
		if tc.away {
			n.end(pods[tc.name], tc.back)
		}
		if tc.status != nil {
			n.patchStatus(requests[tc.name], tc.status)
		}
	}
	controllertest.Client(t, n.cp) // installs the present CRD
	controllertest.Serve(t, n.cp, n, manager.Options{})
	n.agent()
	for _, tc := range cases {
		request := requests[tc.name]
		status := n.untilOld(request, func(status map[string]any) bool {
			return status["phase"] == "Completed" && len(request.GetFinalizers()) == 0
		})
		want := []any{map[string]any{"name": "app", "phase": "Succeeded", "isKilled": true}}
		if diff := cmp.Diff(want, status["containerRecreateStates"]); diff != "" {
			t.Errorf("%s: status %v (-want +got):\n%s", tc.name, status, diff)
		}
		if got := n.restarts(pods[tc.name]); got != "app 1, log 0" {
			t.Errorf("%s: restarts %s", tc.name, got)
		}
	}
}

// end ends container app as OpenKruise's daemon does.
func (n *node) end(pod *corev1.Pod, back bool) {
	n.t.Helper()
	runtime, err := cri.New(n.socket)
	if err != nil {
		n.t.Fatal(err)
	}
	defer runtime.Close()
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	if err := runtime.Stop(n.t.Context(), id, 0); err != nil {
		n.t.Fatal(err)
	}
	if back {
		n.until(pod, "app 1, log 0")
	}
}

func (n *node) patchStatus(object client.Object, status map[string]any) {
	n.t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.Status().Patch(n.t.Context(), object, client.RawPatch(types.MergePatchType, body)); err != nil {
		n.t.Fatal(err)
	}
}

// until waits until the containers of a Pod have the given numbers of restarts.
func (n *node) until(pod *corev1.Pod, restarts string) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(context.Context) error {
		if got := n.restarts(pod); got != restarts {
			return errors.New("restarts " + got)
		}
		return nil
	})
}
