package probing_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/probing"
)

func httpGet(get corev1.HTTPGetAction) corev1.Probe {
	return corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &get}}
}

func tcpSocket(host string, port intstr.IntOrString) corev1.Probe {
	return corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: port}}}
}

var compareAddresses = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func TestCheckOf(t *testing.T) {
	address := netip.MustParseAddrPort("10.0.0.1:8080")
	for _, c := range []struct {
		name  string
		probe corev1.Probe
		ip    string
		want  probing.Check // zero if the probe is refused
	}{
		{"ND-32 a command", command(), "", check(1, "check")},
		{"ND-32 the timeout is a second at least", command(timeout(-3)), "", check(1, "check")},
		{"ND-71 http goes to the Pod, whatever the host", httpGet(corev1.HTTPGetAction{Host: "169.254.169.254", Path: "healthz?full=1", Port: intstr.FromInt32(8080)}), "10.0.0.1", probing.Check{
			HTTP: &probing.HTTPGet{Scheme: "http", Address: address, Path: "/healthz?full=1"}, Timeout: time.Second,
		}},
		{"ND-71 no path leads to another host", httpGet(corev1.HTTPGetAction{Path: "//evil/x", Scheme: "HTTPS", Port: intstr.FromInt32(8080)}), "10.0.0.1", probing.Check{
			HTTP: &probing.HTTPGet{Scheme: "https", Address: address, Path: "/evil/x"}, Timeout: time.Second,
		}},
		{"ND-71 tcp goes to the Pod, whatever the host", tcpSocket("127.0.0.1", intstr.FromInt32(8080)), "10.0.0.1", probing.Check{TCP: address, Timeout: time.Second}},
		{"tcp, the number is text", tcpSocket("", intstr.FromString("8080")), "10.0.0.1", probing.Check{TCP: address, Timeout: time.Second}},
		{"grpc", corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 8080, Service: ptr.To("s")}}}, "10.0.0.1", probing.Check{
			GRPC: address, Service: "s", Timeout: time.Second,
		}},
		{"PP 7.4 no address", tcpSocket("", intstr.FromInt32(80)), "", probing.Check{}},
		{"ND-71 the Node itself", tcpSocket("", intstr.FromInt32(80)), "127.0.0.1", probing.Check{}},
		{"ND-71 the Node itself, in IPv6", tcpSocket("", intstr.FromInt32(80)), "::ffff:127.0.0.1", probing.Check{}},
		{"ND-71 the metadata service", tcpSocket("", intstr.FromInt32(80)), "169.254.169.254", probing.Check{}},
		{"no handler", corev1.Probe{}, "10.0.0.1", probing.Check{}},
		{"two handlers", corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}, GRPC: &corev1.GRPCAction{Port: 1}}}, "10.0.0.1", probing.Check{}},
		{"no command", corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}, "10.0.0.1", probing.Check{}},
		{"a port by name", tcpSocket("", intstr.FromString("web")), "10.0.0.1", probing.Check{}},
		{"port 0", tcpSocket("", intstr.FromInt32(0)), "10.0.0.1", probing.Check{}},
		{"port 65536", tcpSocket("", intstr.FromInt32(65536)), "10.0.0.1", probing.Check{}},
		{"another scheme", httpGet(corev1.HTTPGetAction{Scheme: "FTP", Port: intstr.FromInt32(80)}), "10.0.0.1", probing.Check{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := probing.CheckOf(&c.probe, c.ip)
			if diff := cmp.Diff(c.want, got, compareAddresses); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
			if refused := errors.Is(err, probing.UnusableProbe); refused != (c.want.Timeout == 0) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	container := &corev1.Container{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}, {Name: "admin", ContainerPort: 9090}}}
	for _, c := range []struct {
		name        string
		probe, want corev1.Probe
		refused     bool
	}{
		{name: "PP-3 http by name", probe: httpGet(corev1.HTTPGetAction{Host: "h", Port: intstr.FromString("admin")}), want: httpGet(corev1.HTTPGetAction{Port: intstr.FromInt32(9090)})},
		{name: "PP-3 tcp by name", probe: tcpSocket("h", intstr.FromString("web")), want: tcpSocket("", intstr.FromInt32(8080))},
		{name: "PP-3 a number as text", probe: tcpSocket("", intstr.FromString("81")), want: tcpSocket("", intstr.FromInt32(81))},
		{name: "PP-3 unknown name", probe: tcpSocket("", intstr.FromString("none")), refused: true},
		{name: "PP-3 impossible number", probe: httpGet(corev1.HTTPGetAction{Port: intstr.FromInt32(-1)}), refused: true},
		{name: "a command stays", probe: command(period(3)), want: command(period(3))},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.probe.DeepCopy()
			got, err := probing.Resolve(&c.probe, container)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
			if diff := cmp.Diff(*before, c.probe); diff != "" {
				t.Error("the argument was modified:\n" + diff)
			}
			if errors.Is(err, probing.UnusableProbe) != c.refused {
				t.Errorf("error %v", err)
			}
		})
	}
}
