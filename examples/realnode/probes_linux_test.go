package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestProbes: the results of probes of each type become a condition and a label of the Pod. The condition and the
// label are removed when the PodProbeMarker is deleted. The test program has no gRPC server, so the gRPC probe of the
// program fails.
func TestProbes(t *testing.T) {
	f := startAgent(t)
	web := f.cloneSet("probed", v1beta1.InPlaceIfPossible, 0)
	pods := f.create(web, 1)
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "m"}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "probed"}}
	handlers := map[string]corev1.ProbeHandler{
		"exec": {Exec: &corev1.ExecAction{Command: []string{"/app", "exit", "0"}}}, "exec-fails": {Exec: &corev1.ExecAction{Command: []string{"/app", "exit", "1"}}},
		"http": {HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080), Scheme: corev1.URISchemeHTTP}},
		"tcp":  {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}, "tcp-fails": {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9)}},
		"grpc-fails": {GRPC: &corev1.GRPCAction{Port: 8080}},
	}
	want := map[string]string{"exec": "yes", "exec-fails": "no", "http": "yes", "tcp": "yes", "tcp-fails": "no", "grpc-fails": "no"}
	for name, handler := range handlers {
		marker.Spec.Probes = append(marker.Spec.Probes, v1alpha1.PodContainerProbe{
			Name: name, ContainerName: "app", PodConditionType: "example.com/" + name,
			Probe: v1alpha1.ContainerProbeSpec{Probe: corev1.Probe{ProbeHandler: handler, TimeoutSeconds: 5}},
			MarkerPolicy: []v1alpha1.ProbeMarkerPolicy{
				{State: v1alpha1.ProbeSucceeded, Labels: map[string]string{name: "yes"}}, {State: v1alpha1.ProbeFailed, Labels: map[string]string{name: "no"}},
			},
		})
	}
	if err := f.Create(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(&pods[0])
	f.marked(key, want)
	if err := f.Delete(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(marker), marker); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the marker is there"), err)
		}
		return nil
	})
	pod := f.podNow(key)
	for name := range want {
		c := podstate.Condition(pod, corev1.PodConditionType("example.com/"+name))
		if _, left := pod.Labels[name]; left || c != nil && c.Status != corev1.ConditionUnknown {
			t.Errorf("label %q and condition %+v are left of %s", pod.Labels[name], c, name)
		}
	}
	if pod.Annotations[apps.AnnotationProbeMarks] != "" || !podstate.IsReady(pod) {
		t.Errorf("the Pod has %v, %+v", pod.Annotations, pod.Status.Conditions)
	}
}

// marked waits until a Pod has the label of each probe, and the condition that belongs to the label.
func (f *fixture) marked(key client.ObjectKey, want map[string]string) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := f.Get(ctx, key, pod); err != nil {
			return err
		}
		for name, value := range want {
			status := corev1.ConditionTrue
			if value == "no" {
				status = corev1.ConditionFalse
			}
			if c := podstate.Condition(pod, corev1.PodConditionType("example.com/"+name)); pod.Labels[name] != value || c == nil || c.Status != status {
				return fmt.Errorf("%s: label %q, condition %+v", name, pod.Labels[name], c)
			}
		}
		return nil
	})
}

// TestProbeOfGRPC: a gRPC probe of a Pod succeeds. The Pod uses the network of the Node, and so has the Node's
// address, at which a gRPC server of the test listens.
func TestProbeOfGRPC(t *testing.T) {
	f := startAgent(t)
	listener, err := net.Listen("tcp", ":0") //nolint:gosec // the Node's address is known to the kubelet alone
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	web := f.cloneSet("grpc", v1beta1.InPlaceIfPossible, 0)
	pods := f.create(web, 1, func(template *corev1.PodTemplateSpec) {
		template.Spec.HostNetwork = true
		template.Spec.Containers = template.Spec.Containers[:1]
		template.Spec.Containers[0].Env[0].Value, template.Spec.Containers[0].ReadinessProbe = "18080", nil
	})
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "g"}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "grpc"}}
	marker.Spec.Probes = []v1alpha1.PodContainerProbe{{
		Name: "health", ContainerName: "app", PodConditionType: "example.com/health",
		Probe:        v1alpha1.ContainerProbeSpec{Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port}}}},
		MarkerPolicy: []v1alpha1.ProbeMarkerPolicy{{State: v1alpha1.ProbeSucceeded, Labels: map[string]string{"health": "yes"}}},
	}}
	if err := f.Create(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	f.marked(client.ObjectKeyFromObject(&pods[0]), map[string]string{"health": "yes"})
}
