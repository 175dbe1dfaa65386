package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakecri"
)

// TestNothingIsLeft: after 200 failed calls to the container runtime, failed stops of containers and 200 restarts of
// the runtime, the agent has as many goroutines as before and a single connection, and makes no more calls.
func TestNothingIsLeft(t *testing.T) {
	n := newNode(t)
	controllertest.Serve(t, n.cp, n, manager.Options{})
	n.agent()
	var pods []*corev1.Pod
	for i := range 8 {
		pods = append(pods, n.pod(fmt.Sprint("web-", i), "app", "log"))
	}
	n.completed(n.request("first", pods[0].Name, nil, "app"))
	n.poke(pods)
	n.silent()
	before := own(t)

	faults := []fakecri.Fault{{Kind: fakecri.Fail, Err: errors.New("no")}, {Kind: fakecri.Drop}, {Kind: fakecri.Restart}, {Kind: fakecri.Fail, Err: errors.New("no")}, {Kind: fakecri.Hang}}
	asked := n.runtime.Calls()["ListContainers"]
	for i := range 200 {
		n.faults.Queue("ListContainers", faults[i%len(faults)])
	}
	controlplanetest.Eventually(t, 5*time.Minute, func(context.Context) error {
		n.poke(pods)
		if left := asked + 200 - n.runtime.Calls()["ListContainers"]; left > 0 {
			return fmt.Errorf("%d bad answers are left", left)
		}
		return nil
	})
	for i, fault := range faults {
		n.faults.Queue("StopContainer", fault)
		n.abandoned(n.request(fmt.Sprint("bad-", i), pods[i].Name, nil, "app"), fault.Kind == fakecri.Hang)
	}
	for range 200 {
		if err := n.runtime.Restart(); err != nil {
			t.Fatal(err)
		}
		n.poke(pods[:1])
	}
	n.completed(n.request("last", pods[7].Name, nil, "app"))
	n.silent()
	if got := n.runtime.Connections(); got != 1 {
		t.Errorf("%d connections", got)
	}
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if after := own(t); len(after) > len(before) {
			return fmt.Errorf("%d goroutines, %d before:\n%s", len(after), len(before), strings.Join(after, "\n\n"))
		}
		return nil
	})
}

// poke changes Pods so that the agent calls its runtime.
func (n *node) poke(pods []*corev1.Pod) {
	n.t.Helper()
	for _, pod := range pods {
		n.patch(pod, map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			apps.AnnotationSidecarSetHash: strconv.FormatInt(time.Now().UnixNano(), 10),
		}}})
	}
}

// abandoned waits until the agent is stopping a container for a request or the request has ended, and then deletes
// the request.
func (n *node) abandoned(r *v1beta1.ContainerRecreateRequest, hangs bool) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		states := r.Status.ContainerRecreateStates
		isStopping := hangs && len(states) > 0 && states[0].IsKilled
		if r.Status.Phase != v1beta1.ContainerRecreateRequestCompleted && !isStopping {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	if err := n.Delete(n.t.Context(), r); err != nil {
		n.t.Fatal(err)
	}
}

// silent waits until the agent has called only the runtime's Version method for 5 seconds.
func (n *node) silent() {
	n.t.Helper()
	const period = 5 * time.Second
	var calls map[string]int
	var since time.Time
	controlplanetest.Eventually(n.t, 2*time.Minute, func(context.Context) error {
		now := n.runtime.Calls()
		delete(now, "Version")
		if !maps.Equal(now, calls) {
			calls, since = now, time.Now()
		}
		if time.Since(since) < period {
			return fmt.Errorf("calls %v", calls)
		}
		return nil
	})
}

// own returns the stacks of all goroutines of the agent and of its connections to container runtimes.
func own(t *testing.T) (stacks []string) {
	t.Helper()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		t.Fatal(err)
	}
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		for _, part := range []string{"workloadkit/node/", "examples/daemon.", "containerrecreaterequest/onnode", "google.golang.org/grpc"} {
			if strings.Contains(stack, part) {
				stacks = append(stacks, stack)
				break
			}
		}
	}
	return stacks
}
