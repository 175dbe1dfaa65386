// Command bench runs whole rollouts on a real control plane with simulated Nodes and says what they cost: seconds, requests per
// Pod by verb and resource, how long Pods were out of service, CPU and memory of the manager. It draws the rollouts, a row a
// Pod. Any manager that serves the same API can be measured, so that two can be compared on the same work:
//
//	bench --manager bin/kruise-manager --workload cloneset --pods 1000 --change image --max-unavailable 20%
//
// "bench results" makes all runs that RESULTS.md shows, and writes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer, log *os.File) error {
	if len(args) > 0 && args[0] == "results" {
		return results(ctx, args[1:], log)
	}
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	r, pictures, err := runOnce(ctx, o, newProgress(log))
	if err != nil {
		return err
	}
	r.print(out)
	return r.write(o, pictures)
}
