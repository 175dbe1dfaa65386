// Package prober carries out the checks of probes: commands in a container, and HTTP, TCP and gRPC requests to a Pod.
//
// The rules are the kubelet's (Kubernetes, pkg/probe), with four differences. All requests go to the Pod's address.
// Redirects are not followed: a redirect response counts as success. A check that cannot be carried out is Undecided
// and is not repeated at once. Variables in commands are not expanded.
package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

// Runtime is the container runtime of a Node.
type Runtime interface {
	// RunOutput runs a command in the container with the given ID, for at most the given time, and returns the
	// output. RunOutput returns an error if the command could not be run; the error matches context.DeadlineExceeded
	// if the command has taken too long. An exit code other than zero is not an error.
	RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (Output, error)
}

// Output is the output of a command.
type Output struct {
	ExitCode       int32
	Stdout, Stderr []byte
}

// most is the largest number of bytes that a Prober reads of a response body or of a command's output, as in the
// kubelet.
const most = 10 << 10

// Prober carries out checks. A Prober is safe for concurrent use; make a Prober with New.
type Prober struct {
	runtime Runtime
	agent   string
}

// New returns a Prober for a runtime. userAgent names the program in HTTP and gRPC requests, such as
// "kube-probe/1.36"; if empty, the name is "kube-probe".
func New(runtime Runtime, userAgent string) *Prober {
	if userAgent == "" {
		userAgent = "kube-probe"
	}
	return &Prober{runtime: runtime, agent: userAgent}
}

// Probe carries out the check in the instance with the given ID. Probe returns when the check has ended, at the
// latest after the timeout of the check or at the end of the context. If the context ends, or if the runtime returns
// an error, the verdict is Undecided. A refused connection, a wrong response, or no response in time is a failure.
func (p *Prober) Probe(ctx context.Context, id string, check *probing.Check) probing.Result {
	limit := max(check.Timeout, time.Second)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var result probing.Result
	switch {
	case len(check.Exec) > 0:
		result = p.execute(limited, id, check.Exec, limit)
	case check.HTTP != nil:
		result = p.get(limited, check.HTTP)
	case check.TCP.IsValid():
		result = connect(limited, check.TCP.String())
	case check.GRPC.IsValid():
		result = p.askHealth(limited, check.GRPC.String(), check.Service)
	default:
		result = undecided("the check is empty")
	}
	if err := ctx.Err(); err != nil && result.Verdict != probing.Pass {
		return undecided(err.Error())
	}
	return result
}

// dial connects to a Pod. SO_LINGER is one second, so that a closed connection does not occupy its port for a minute
// in TIME_WAIT. Otherwise a Node with many probes could run out of ports (Kubernetes, pkg/probe/dialer_others.go).
func dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(1); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func connect(ctx context.Context, address string) probing.Result {
	conn, err := dial(ctx, address)
	if err != nil {
		return failed(ctx, err)
	}
	_ = conn.Close() // a TCP probe needs only the connection
	return probing.Result{Verdict: probing.Pass}
}

// failed returns a failure. A timeout has the same message each time, so that messages change rarely.
func failed(ctx context.Context, err error) probing.Result {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return probing.Result{Verdict: probing.Fail, Message: "no answer before the timeout"}
	}
	return probing.Result{Verdict: probing.Fail, Message: reason.Shorten(withoutPort(err).Error(), 512)}
}

// withoutPort removes the agent's own address from an error, because the local port differs in each try.
func withoutPort(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		return fmt.Errorf("%s %s %v: %w", op.Op, op.Net, op.Addr, op.Err)
	}
	return err
}

func undecided(why string) probing.Result {
	return probing.Result{Verdict: probing.Undecided, Message: reason.Shorten(why, 512)}
}
