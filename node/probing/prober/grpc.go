package prober

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

// askHealth asks a gRPC server for the health of a service, without TLS, as the kubelet does (KEP-2727). Only the
// status SERVING passes.
func (p *Prober) askHealth(ctx context.Context, address, service string) probing.Result {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(p.agent),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, address) }),
		grpc.WithNoProxy(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(most), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most)))
	if err != nil {
		return undecided(err.Error())
	}
	answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	_ = conn.Close() // an error of Close is ignored, because the response was received
	switch code := status.Code(err); {
	case err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING:
		return probing.Result{Verdict: probing.Pass, Message: "service healthy"}
	case err == nil:
		return probing.Result{Verdict: probing.Fail, Message: fmt.Sprintf("service unhealthy: %s", answer.GetStatus())}
	case code == codes.DeadlineExceeded:
		return failed(ctx, context.DeadlineExceeded)
	case code == codes.Unimplemented:
		return probing.Result{Verdict: probing.Fail, Message: "the server has no health service of gRPC (grpc.health.v1.Health)"}
	default:
		return probing.Result{Verdict: probing.Fail, Message: reason.Shorten(fmt.Sprintf("%s: %s", code, status.Convert(err).Message()), 512)}
	}
}
