package fakecri_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/realnode"
)

// enableEnv enables the test that needs root: "make test-node" sets the variable.
const enableEnv = "WORKLOADKIT_NODE"

var env = controlplanetest.New(controlplane.Options{Nodes: controlplane.NoNodes})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// TestContainerd: a real containerd, with a container started by a kubelet, gives the responses in the table. So the
// table shows whether the fake behaves like containerd.
func TestContainerd(t *testing.T) {
	if os.Getenv(enableEnv) == "" {
		t.Skip("starts a real kubelet, as root: run make test-node")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // the very first start builds the binaries
	defer cancel()
	cp := env.Start(t)
	node, err := realnode.Start(ctx, realnode.Options{ControlPlane: cp, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	image, err := node.Image("v1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	pod, err := pods.Create(ctx, newPod(image), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "") {
			err = fmt.Errorf("the status is %+v", pod.Status)
		}
		return err
	})
	s := newSubject(t, dialled(t, "unix://"+node.Socket()), pod, image+"-missing")
	s.run(t, table(s))
}
