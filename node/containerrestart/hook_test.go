package containerrestart_test

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

func TestHookOf(t *testing.T) {
	ports := []corev1.ContainerPort{{Name: "admin", ContainerPort: 8081}, {Name: "web", ContainerPort: 8080}}
	get := func(change func(*corev1.HTTPGetAction)) *corev1.LifecycleHandler {
		action := &corev1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/bye"}
		change(action)
		return &corev1.LifecycleHandler{HTTPGet: action}
	}
	plain := func(*corev1.HTTPGetAction) {}
	to := func(scheme, address, path string) containerrestart.Hook {
		return containerrestart.Hook{HTTP: &containerrestart.HTTPGet{Scheme: scheme, Address: netip.MustParseAddrPort(address), Path: path}}
	}
	sleep := func(seconds int64) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
	}
	for _, c := range []struct {
		name    string
		handler *corev1.LifecycleHandler
		podIP   string
		want    containerrestart.Hook
		path    string // the path of the reason, if the hook is unusable
	}{
		{"none", nil, "", containerrestart.Hook{}, ""},
		{"command", &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}, "", containerrestart.Hook{Exec: []string{"bye"}}, ""},
		{"empty command", &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}, "", containerrestart.Hook{}, "preStop.exec.command"},
		{"4.6 sleep", sleep(7), "", containerrestart.Hook{Sleep: 7 * time.Second}, ""},
		{"sleep below zero", sleep(-7), "", containerrestart.Hook{}, ""},
		{"sleep for ever", sleep(math.MaxInt64), "", containerrestart.Hook{Sleep: (1 << 32) * time.Second}, ""},
		{"4.6 an empty handler", &corev1.LifecycleHandler{}, "", containerrestart.Hook{}, "preStop"},
		{"4.6 tcp", &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}, "", containerrestart.Hook{}, "preStop.tcpSocket"},
		{"4.6 to the Pod", get(plain), "10.1.2.3", to("http", "10.1.2.3:80", "/bye"), ""},
		{"4.6 whatever host is named", get(func(a *corev1.HTTPGetAction) { a.Host = "169.254.169.254" }), "10.1.2.3", to("http", "10.1.2.3:80", "/bye"), ""},
		{"named port", get(func(a *corev1.HTTPGetAction) { a.Port = intstr.FromString("web") }), "10.1.2.3", to("http", "10.1.2.3:8080", "/bye"), ""},
		{"unknown port", get(func(a *corev1.HTTPGetAction) { a.Port = intstr.FromString("x") }), "10.1.2.3", containerrestart.Hook{}, "preStop.httpGet.port"},
		{"no port", get(func(a *corev1.HTTPGetAction) { a.Port = intstr.FromInt32(0) }), "10.1.2.3", containerrestart.Hook{}, "preStop.httpGet.port"},
		{"a port too large", get(func(a *corev1.HTTPGetAction) { a.Port = intstr.FromInt32(65536) }), "10.1.2.3", containerrestart.Hook{}, "preStop.httpGet.port"},
		{"https", get(func(a *corev1.HTTPGetAction) { a.Scheme = "HTTPS" }), "10.1.2.3", to("https", "10.1.2.3:80", "/bye"), ""},
		{"another scheme", get(func(a *corev1.HTTPGetAction) { a.Scheme = "FILE" }), "10.1.2.3", containerrestart.Hook{}, "preStop.httpGet.scheme"},
		{"no path", get(func(a *corev1.HTTPGetAction) { a.Path = "" }), "10.1.2.3", to("http", "10.1.2.3:80", "/"), ""},
		{"a path that looks like a host", get(func(a *corev1.HTTPGetAction) { a.Path = "//other/x" }), "10.1.2.3", to("http", "10.1.2.3:80", "/other/x"), ""},
		{"IPv6", get(plain), "fd00::1", to("http", "[fd00::1]:80", "/bye"), ""},
		{"no address", get(plain), "", containerrestart.Hook{}, "preStop.httpGet"},
		{"a name", get(plain), "kubernetes.default", containerrestart.Hook{}, "preStop.httpGet"},
		{"the Node itself", get(plain), "127.0.0.1", containerrestart.Hook{}, "preStop.httpGet"},
		{"the Node itself in IPv6's words", get(plain), "::ffff:127.0.0.1", containerrestart.Hook{}, "preStop.httpGet"},
		{"any address", get(plain), "0.0.0.0", containerrestart.Hook{}, "preStop.httpGet"},
		{"a metadata service", get(plain), "169.254.169.254", containerrestart.Hook{}, "preStop.httpGet"},
		{"an interface of the Node", get(plain), "fd00::1%eth0", containerrestart.Hook{}, "preStop.httpGet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := containerrestart.HookOf("preStop", c.handler, ports, c.podIP)
			if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var path string
			if why := reasonOf(err); why.Code == containerrestart.UnusableHook {
				path = why.Path
			}
			if path != c.path || (err != nil) != (c.path != "") {
				t.Errorf("error %v, want one about %q", err, c.path)
			}
			if got.IsZero() != (c.want.Exec == nil && c.want.HTTP == nil && c.want.Sleep == 0) {
				t.Errorf("IsZero is %v", got.IsZero())
			}
		})
	}
}

func reasonOf(err error) (why reason.Reason) {
	errors.As(err, &why)
	return why
}
