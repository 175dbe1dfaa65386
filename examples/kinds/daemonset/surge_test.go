package daemonset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestCrowding: an update with maxSurge never completes on a Node that can run only one of the two Pods.
func TestCrowding(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ports := func(ports ...corev1.ContainerPort) func(*v1beta1.DaemonSet) {
		return func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Containers[1].Ports = ports }
	}
	surge := func(value intstr.IntOrString) func(*v1beta1.DaemonSet) {
		return func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxSurge: &value}
		}
	}
	hostNetwork := func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.HostNetwork = true }
	hostPort, plain := ports(corev1.ContainerPort{ContainerPort: 80}, corev1.ContainerPort{ContainerPort: 443, HostPort: 8443}), ports(corev1.ContainerPort{ContainerPort: 80})
	init := func(policy *corev1.ContainerRestartPolicy) func(*v1beta1.DaemonSet) {
		return func(set *v1beta1.DaemonSet) {
			set.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: policy, Ports: []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}}}}
		}
	}
	type change = func(*v1beta1.DaemonSet)
	for _, tc := range []struct {
		name string
		with []change
		want *crowding
	}{
		{"a host port", []change{surge(intstr.FromInt32(1)), hostPort}, &crowding{Path: "spec.template.spec.containers[1].ports[1].hostPort", Value: "8443", Certain: true}},
		{"a percentage", []change{surge(intstr.FromString("10%")), hostPort}, &crowding{Path: "spec.template.spec.containers[1].ports[1].hostPort", Value: "8443", Certain: true}},
		{"no surge", []change{surge(intstr.FromInt32(0)), hostPort}, nil},
		{"no surge in percent", []change{surge(intstr.FromString("0%")), hostPort}, nil},
		{"nothing is said of surge", []change{hostPort}, nil},
		{"OnDelete leaves it unread", []change{surge(intstr.FromInt32(1)), hostPort, func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType
		}}, nil},
		{"a port of the Pod alone", []change{surge(intstr.FromInt32(1)), plain}, nil},
		{"which in the network of the Node is one of the Node", []change{surge(intstr.FromInt32(1)), plain, hostNetwork}, &crowding{Path: "spec.template.spec.containers[1].ports[0].containerPort", Value: "80", Certain: true}},
		{"the network of the Node, and no port is named", []change{surge(intstr.FromInt32(1)), hostNetwork}, &crowding{Path: "spec.template.spec.hostNetwork", Value: "true"}},
		{"a native sidecar", []change{surge(intstr.FromInt32(1)), init(&always)}, &crowding{Path: "spec.template.spec.initContainers[0].ports[0].hostPort", Value: "1", Certain: true}},
		{"an init container, which has ended by then", []change{surge(intstr.FromInt32(1)), init(nil)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := &v1beta1.DaemonSet{}
			set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
			for _, change := range tc.with {
				change(set)
			}
			if diff := cmp.Diff(tc.want, crowdingOf(set)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
