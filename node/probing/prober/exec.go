package prober

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/workloadkit/workloadkit/node/probing"
)

// execute runs a command. The message is stdout after a success and stderr after a failure, or the other output if
// that is empty.
func (p *Prober) execute(ctx context.Context, id string, command []string, limit time.Duration) probing.Result {
	if p.runtime == nil {
		return undecided("the agent runs no commands")
	}
	output, err := p.runtime.RunOutput(ctx, id, command, limit)
	switch {
	case err != nil && isTimeout(ctx, err):
		return probing.Result{Verdict: probing.Fail, Message: "no answer before the timeout"}
	case err != nil:
		return undecided(err.Error())
	case output.ExitCode != 0:
		message := firstText(output.Stderr, output.Stdout)
		if message == "" {
			message = fmt.Sprintf("exit code %d", output.ExitCode)
		}
		return probing.Result{Verdict: probing.Fail, Message: message}
	}
	return probing.Result{Verdict: probing.Pass, Message: firstText(output.Stdout, output.Stderr)}
}

// isTimeout reports whether an error is a timeout. A timeout in the CRI is a gRPC error with the code
// DeadlineExceeded.
func isTimeout(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) ||
		status.Code(err) == codes.DeadlineExceeded
}

func firstText(outputs ...[]byte) string {
	for _, o := range outputs {
		if text := strings.TrimSpace(string(o[:min(len(o), most)])); text != "" {
			return text
		}
	}
	return ""
}
