package containerrestart

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/node/internal/podaddress"
	"github.com/workloadkit/workloadkit/reason"
)

// UnusableHook means that a preStop hook cannot be run: the kind or the port is unknown, or the Pod's address is
// unusable. The container is stopped without the hook.
const UnusableHook reason.Code = "UnusableHook"

// Hook is a preStop hook. At most one field is set; if none is set, there is no hook.
type Hook struct {
	// Exec is the command to run in the container.
	Exec []string
	// HTTP is the request to send to the Pod.
	HTTP *HTTPGet
	// Sleep is how long to wait.
	Sleep time.Duration
}

// IsZero reports whether there is no hook.
func (h Hook) IsZero() bool { return len(h.Exec) == 0 && h.HTTP == nil && h.Sleep <= 0 }

// HTTPGet is an HTTP request to a Pod.
type HTTPGet struct {
	// Scheme is "http" or "https". The server's certificate is not verified, as in the kubelet.
	Scheme string
	// Address is the Pod's IP address with the port of the hook.
	Address netip.AddrPort
	// Path is the path and the query.
	Path    string
	Headers []corev1.HTTPHeader
}

// HookOf returns the hook for a preStop handler, for a container with the given ports in a Pod with the given IP
// address. The request of an httpGet is sent to the Pod's address, even if the handler names another host, because
// the agent can reach hosts that the author of the Pod must not reach. path is the handler's field path, for the
// reason.
func HookOf(path string, handler *corev1.LifecycleHandler, ports []corev1.ContainerPort, podIP string) (Hook, error) {
	switch {
	case handler == nil:
		return Hook{}, nil
	case handler.Exec != nil:
		if len(handler.Exec.Command) == 0 {
			return Hook{}, unusable(path+".exec.command", "", "the command is empty")
		}
		return Hook{Exec: handler.Exec.Command}, nil
	case handler.HTTPGet != nil:
		get, err := httpGetOf(path+".httpGet", handler.HTTPGet, ports, podIP)
		if err != nil {
			return Hook{}, err
		}
		return Hook{HTTP: &get}, nil
	case handler.Sleep != nil:
		return Hook{Sleep: time.Duration(min(max(handler.Sleep.Seconds, 0), longestSleep)) * time.Second}, nil
	case handler.TCPSocket != nil:
		return Hook{}, unusable(path+".tcpSocket", "", "no kubelet runs such a hook")
	}
	return Hook{}, unusable(path, "", "the handler is empty, or of a newer kind")
}

// longestSleep is the largest number of seconds that fits into a duration, far more than any grace period.
const longestSleep = 1 << 32

func httpGetOf(path string, action *corev1.HTTPGetAction, ports []corev1.ContainerPort, podIP string) (HTTPGet, error) {
	address, err := podaddress.Parse(podIP)
	if err != nil {
		return HTTPGet{}, unusable(path, podIP, err.Error())
	}
	port, err := portOf(path+".port", action.Port, ports)
	if err != nil {
		return HTTPGet{}, err
	}
	scheme := strings.ToLower(cmp.Or(string(action.Scheme), "http"))
	if scheme != "http" && scheme != "https" {
		return HTTPGet{}, unusable(path+".scheme", string(action.Scheme), "neither HTTP nor HTTPS")
	}
	return HTTPGet{
		Scheme: scheme, Address: netip.AddrPortFrom(address, port),
		Path: "/" + strings.TrimLeft(action.Path, "/"), Headers: action.HTTPHeaders,
	}, nil
}

func portOf(path string, port intstr.IntOrString, ports []corev1.ContainerPort) (uint16, error) {
	number := int64(port.IntVal)
	if port.Type == intstr.String {
		number = 0
		for _, p := range ports {
			if p.Name == port.StrVal {
				number = int64(p.ContainerPort)
			}
		}
		if number == 0 {
			return 0, unusable(path, reason.Shorten(port.StrVal, 63), "the container has no port of the name")
		}
	}
	if number < 1 || number > 65535 {
		return 0, unusable(path, fmt.Sprint(number), "no port has such a number")
	}
	return uint16(number), nil
}

func unusable(path, found, detail string) reason.Reason {
	return reason.Reason{Code: UnusableHook, Path: path, New: reason.Shorten(found, 63), Detail: detail, Remedy: "repair the preStop hook of the Pod"}
}
