package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// simulated is kwok's own annotation for simulated Nodes.
const simulated = "kwok.x-k8s.io/node"

// FirstNode is the name of the first Node that Start creates.
const FirstNode = "sim-01"

// createNodes creates the Nodes as kubelets would; kwok then makes the Nodes Ready.
func createNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	for i := range max(n, 0) {
		node := newNode(i)
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
	}
	return nil
}

// newNode returns one of the Nodes that Start creates; these Nodes are spread over three zones.
func newNode(i int) *corev1.Node {
	node := NewNode(fmt.Sprintf("sim-%02d", i+1))
	node.Labels[corev1.LabelTopologyZone] = []string{"zone-a", "zone-b", "zone-c"}[i%3]
	node.Status.Addresses[0].Address = fmt.Sprintf("10.64.%d.%d", (i+1)/250, (i+1)%250+1)
	return node
}

// NewNode returns a simulated Node for the caller to create: once created, the Node becomes Ready, and Pods can run on
// the Node.
func NewNode(name string) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("500"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelArchStable: "amd64",
				corev1.LabelOSStable:   "linux",
			},
			Annotations: map[string]string{simulated: "fake"},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.65.0.1"},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: kubernetesVersion, ContainerRuntimeVersion: "sim://1",
				OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated", KernelVersion: "simulated",
			},
		},
	}
}

// releaseNodes removes the leases of all Nodes: a new kwok process manages a Node only if no other process holds the
// lease of the Node.
func releaseNodes(ctx context.Context, client kubernetes.Interface) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("remove the leases of the nodes: %w", err)
	}
	return nil
}

// ready returns nil once the cluster is ready for tests, and otherwise says what is missing.
func (c *ControlPlane) ready(ctx context.Context) error {
	if _, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return fmt.Errorf("wait for the first service account: %w", err)
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("wait for the nodes: %w", err)
	}
	for i := range nodes.Items {
		if node := &nodes.Items[i]; !schedulable(node) {
			return fmt.Errorf("node %s is not ready", node.Name)
		}
	}
	return nil
}

// schedulable reports whether the Node is Ready and the controller manager has removed the taint of new Nodes.
func schedulable(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}
