package onnode

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// onNode provides requests for the Pod shop/web, whose container app runs in the container runtime. Writes to the
// request named refused fail.
type onNode struct {
	requests []*v1beta1.ContainerRecreateRequest
	refused  string
	written  []string
}

func (n *onNode) Pod(types.NamespacedName) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}, Spec: corev1.PodSpec{NodeName: "n1"}}
}

func (n *onNode) Of(types.NamespacedName) ([]*v1beta1.ContainerRecreateRequest, time.Duration) {
	return n.requests, 0
}

func (n *onNode) PatchStatus(_ context.Context, r *v1beta1.ContainerRecreateRequest, status v1beta1.ContainerRecreateRequestStatus) error {
	if r.Name == n.refused {
		return errors.New("refused")
	}
	n.written = append(n.written, r.Name+" "+string(status.Phase))
	return nil
}

func (n *onNode) Containers(context.Context, types.UID, ...string) ([]cri.Container, error) {
	return []cri.Container{{Instance: containerrestart.Instance{ID: "containerd://a0", Name: "app", State: containerrestart.Running}}}, nil
}

func (n *onNode) Environment(context.Context, string) ([]string, error) { return nil, nil }

func (n *onNode) Stop(context.Context, string, time.Duration) error { return nil }

func (n *onNode) Missing() reason.List { return nil }

func (n *onNode) Exec(context.Context, string, []string, time.Duration) (int32, error) { return 0, nil }

// TestBehindRefused: if the API server refuses to record that a request waits, the first request and the other
// waiting requests are still handled. The error is reported.
func TestBehindRefused(t *testing.T) {
	n := &onNode{refused: "b", requests: []*v1beta1.ContainerRecreateRequest{request("a", 1, ""), request("b", 2, ""), request("c", 3, "")}}
	worker, err := agent.NewWorker("n1", n, n, New(n, Options{}).Work, agent.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Do(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}); err == nil {
		t.Error("the refusal is not told")
	}
	if diff := cmp.Diff([]string{"c Pending", "a Recreating"}, n.written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// slow is a Node on which stops take long.
type slow struct {
	*onNode

	begun chan context.Context
}

func (s *slow) PatchStatus(_ context.Context, r *v1beta1.ContainerRecreateRequest, status v1beta1.ContainerRecreateRequestStatus) error {
	r.Status = status
	return nil
}

func (s *slow) Stop(ctx context.Context, _ string, _ time.Duration) error {
	s.begun <- ctx
	<-ctx.Done()
	return ctx.Err()
}

// TestSlowStop: a stop that takes long is started only once, and continues while later reconciliations wait for its
// end. The stop ends if its request is deleted.
func TestSlowStop(t *testing.T) {
	first := request("a", 1, "")
	n := &slow{&onNode{requests: []*v1beta1.ContainerRecreateRequest{first}}, make(chan context.Context, 9)}
	worker, err := agent.NewWorker("n1", n, n, New(n, Options{}).Work, agent.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Start(ctx) }()
	pass := func() {
		t.Helper()
		if _, err := worker.Do(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	stop := <-n.begun
	for range 3 {
		if pass(); stop.Err() != nil {
			t.Fatalf("the stop was ended by a pass that waits for it: %+v", first.Status)
		}
	}
	n.requests = nil
	if pass(); stop.Err() == nil {
		t.Error("the stop goes on without a request")
	}
	cancel()
	if err := <-ended; err != nil || len(n.begun) > 0 {
		t.Errorf("%v, begun again: %d", err, len(n.begun))
	}
}
