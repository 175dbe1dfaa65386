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

// onNode is Pod shop/web with requests and with container app at the runtime. Writes to refused requests fail.
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

// TestBehindRefused: CR-20 a request that cannot be told to wait holds up neither the request in front nor others
// behind. The error is told.
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
