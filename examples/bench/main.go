// Command bench runs whole rollouts on a real control plane with simulated Nodes, and reports their cost: seconds,
// requests per Pod by verb and resource, how long Pods were unavailable, CPU and memory of the manager. The command
// can draw a picture of each rollout, with a row for each Pod. Any manager with the same API can be measured, so that
// users can compare two managers that do the same work:
//
//	bench --manager bin/kruise-manager --workload cloneset --pods 1000 --change image --max-unavailable 20%
//
// "bench admission" creates Pods, first at a fixed rate and then many at once, in a cluster with thousands of
// SidecarSets. "bench spread" creates Pods of a WorkloadSpread's target at a fixed rate. "bench agents" runs the node
// agents of many Nodes. "bench results" makes all runs that RESULTS.md shows, and writes RESULTS.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/workloadkit/workloadkit/testing/bench"
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
	if len(args) > 0 && args[0] == "admission" {
		return admissionCommand(ctx, args[1:], out, log)
	}
	if len(args) > 0 && args[0] == "spread" {
		return spreadCommand(ctx, args[1:], out, log)
	}
	if len(args) > 0 && args[0] == "agents" {
		return agentsCommand(ctx, args[1:], out, log)
	}
	return runOnce(ctx, args, out, log)
}

// runOnce makes a run, prints its figures, and writes the files that the command line requests.
func runOnce(ctx context.Context, args []string, out io.Writer, log *os.File) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	result, err := bench.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	result.Print(out)
	if o.json != "" {
		raw, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the figures: %w", err)
		}
		if err := os.WriteFile(o.json, append(raw, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the figures: %w", err)
		}
	}
	if o.timeline == "" {
		return nil
	}
	draw := result.WriteHTML
	if filepath.Ext(o.timeline) == ".svg" {
		draw = result.WriteSVG
	}
	var picture bytes.Buffer
	if err := draw(&picture); err != nil {
		return err
	}
	if err := os.WriteFile(o.timeline, picture.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the timeline: %w", err)
	}
	return nil
}
