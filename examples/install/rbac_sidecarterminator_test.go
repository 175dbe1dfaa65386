package install_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarterminator"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveSidecars makes the controller that stops sidecars work on a Pod whose only running container is a sidecar. The
// controller creates a ContainerRecreateRequest, and the webhooks of another running manager set the request's
// defaults.
func (c *cluster) liveSidecars(ns string, own *rest.Config) {
	c.t.Helper()
	defer c.terminator(own)() // the audit log records watches at their end
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "agent-" + ns}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job"}, Spec: corev1.PodSpec{
		NodeName: node.Name, RestartPolicy: corev1.RestartPolicyNever, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "main", Image: "example.test/main:v1"}, {
			Name: "log", Image: "example.test/log:v1",
			Env: []corev1.EnvVar{{Name: apps.EnvTerminateSidecar, Value: "true"}, {Name: apps.EnvIgnoreExitCode, Value: "true"}},
		}},
	}}
	for _, object := range []client.Object{node, pod} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
		defer func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), object, client.GracePeriodSeconds(0)) }()
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", ContainerID: "containerd://a", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "log", ContainerID: "containerd://b", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}}
	if err := c.Status().Update(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		request := &v1beta1.ContainerRecreateRequest{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "sidecar-termination-" + string(pod.UID)}, request); err != nil {
			return err
		}
		if request.Labels[apps.LabelRequestNodeName] != node.Name || request.Spec.Containers[0].StatusContext == nil {
			return errors.New("the request was not completed by admission")
		}
		return c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	})
	if pod.Status.Phase != corev1.PodSucceeded {
		c.t.Errorf("phase %s, want it set before the last sidecar is stopped", pod.Status.Phase)
	}
}

// terminator runs the controller with the manager's rights until stop is called.
func (c *cluster) terminator(own *rest.Config) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(c.t.Context()), logr.Discard()))
	direct, err := manager.NewClient(own)
	if err != nil {
		c.t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme: direct.Scheme(), Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GateSidecarTerminator: true})
	if err := sidecarterminator.Setup(ctx, mgr, mgr.GetClient(), kruise.Options{Gates: gates}); err != nil {
		c.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the controller of sidecars: %v", err)
		}
	}
}
