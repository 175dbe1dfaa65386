package probing

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/node/internal/podaddress"
	"github.com/workloadkit/workloadkit/reason"
)

// Check is an action that tests a container. Exactly one of the first four fields is set; the zero Check tests nothing.
type Check struct {
	// Exec is a command to run in the container.
	Exec []string
	// HTTP is a GET request to the Pod.
	HTTP *HTTPGet
	// TCP is an address of the Pod to connect to.
	TCP netip.AddrPort
	// GRPC is the address of a gRPC server in the Pod, for a request of grpc.health.v1.Health/Check.
	GRPC netip.AddrPort
	// Service is the service for GRPC; empty for the whole server.
	Service string
	// Timeout is the limit for the whole check, at least a second.
	Timeout time.Duration
}

// HTTPGet is an HTTP request to a Pod.
type HTTPGet struct {
	// Scheme is "http" or "https". The server's certificate is not verified, as in the kubelet.
	Scheme string
	// Address is the Pod's IP address with the port of the check.
	Address netip.AddrPort
	// Path is the path and the query.
	Path    string
	Headers []corev1.HTTPHeader
}

// checkOf returns the Check of a probe in a Pod with the given IP address. Every request goes to the Pod's address,
// even if the probe names another host, because an agent can reach hosts that the author of a probe must not reach.
// Port names must be resolved before: see Resolve. The error is a reason.Reason with the code UnusableProbe.
func checkOf(probe *corev1.Probe, podIP string) (Check, error) {
	check := Check{Timeout: seconds(probe.TimeoutSeconds)}
	handlers := 0
	for _, set := range []bool{probe.Exec != nil, probe.HTTPGet != nil, probe.TCPSocket != nil, probe.GRPC != nil} {
		if set {
			handlers++
		}
	}
	if handlers != 1 {
		return Check{}, unusable("probe", fmt.Sprint(handlers), "exactly one handler must be set")
	}
	if probe.Exec != nil {
		if len(probe.Exec.Command) == 0 {
			return Check{}, unusable("probe.exec.command", "", "the command is empty")
		}
		check.Exec = probe.Exec.Command
		return check, nil
	}
	address, err := podaddress.Parse(podIP)
	if err != nil {
		return Check{}, unusable("IP", podIP, err.Error())
	}
	switch {
	case probe.HTTPGet != nil:
		check.HTTP, err = httpGetOf(probe.HTTPGet, address)
	case probe.TCPSocket != nil:
		check.TCP, err = portAt("probe.tcpSocket.port", probe.TCPSocket.Port, address)
	default:
		if probe.GRPC.Service != nil {
			check.Service = *probe.GRPC.Service
		}
		check.GRPC, err = portAt("probe.grpc.port", intstr.FromInt32(probe.GRPC.Port), address)
	}
	if err != nil {
		return Check{}, err
	}
	return check, nil
}

func httpGetOf(action *corev1.HTTPGetAction, address netip.Addr) (*HTTPGet, error) {
	scheme := strings.ToLower(cmp.Or(string(action.Scheme), "http"))
	if scheme != "http" && scheme != "https" {
		return nil, unusable("probe.httpGet.scheme", string(action.Scheme), "neither HTTP nor HTTPS")
	}
	at, err := portAt("probe.httpGet.port", action.Port, address)
	if err != nil {
		return nil, err
	}
	return &HTTPGet{Scheme: scheme, Address: at, Path: "/" + strings.TrimLeft(action.Path, "/"), Headers: action.HTTPHeaders}, nil
}

// portAt accepts a port number as a number or as text, as the kubelet does (pkg/probe/util.go).
func portAt(path string, port intstr.IntOrString, address netip.Addr) (netip.AddrPort, error) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		var err error
		if number, err = strconv.Atoi(port.StrVal); err != nil {
			return netip.AddrPort{}, unusable(path, port.StrVal, "the name of a port is not resolved")
		}
	}
	if number < 1 || number > 65535 {
		return netip.AddrPort{}, unusable(path, strconv.Itoa(number), "no port has such a number")
	}
	return netip.AddrPortFrom(address, uint16(number)), nil
}

// Resolve returns a copy of a probe for the spec of a Node: port names are replaced by the numbers of the container's
// ports, and the field host is removed. If no port has the name, a name that consists of digits counts as a port
// number. The error is a reason.Reason with the code UnusableProbe.
func Resolve(probe *corev1.Probe, container *corev1.Container) (corev1.Probe, error) {
	resolved := *probe.DeepCopy()
	if get := resolved.HTTPGet; get != nil {
		get.Host = ""
		if err := resolvePort("probe.httpGet.port", &get.Port, container); err != nil {
			return corev1.Probe{}, err
		}
	}
	if connect := resolved.TCPSocket; connect != nil {
		connect.Host = ""
		if err := resolvePort("probe.tcpSocket.port", &connect.Port, container); err != nil {
			return corev1.Probe{}, err
		}
	}
	return resolved, nil
}

func resolvePort(path string, port *intstr.IntOrString, container *corev1.Container) error {
	if port.Type == intstr.String {
		for _, p := range container.Ports {
			if p.Name == port.StrVal {
				*port = intstr.FromInt32(p.ContainerPort)
				return nil
			}
		}
	}
	at, err := portAt(path, *port, netip.IPv4Unspecified())
	if err != nil {
		return unusable(path, port.String(), "the container has no port of the name or number")
	}
	*port = intstr.FromInt32(int32(at.Port()))
	return nil
}

func unusable(path, found, detail string) reason.Reason {
	return reason.Reason{Code: UnusableProbe, Path: path, New: reason.Shorten(found, 63), Detail: detail, Remedy: "repair the probe"}
}

// seconds returns a number of seconds as a duration, at least one second, as in OpenKruise.
func seconds(number int32) time.Duration {
	return time.Duration(max(number, 1)) * time.Second
}
