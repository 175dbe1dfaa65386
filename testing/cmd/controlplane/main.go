// Command controlplane starts a real Kubernetes control plane with simulated Nodes on this machine, and builds its binaries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/workloadkit/workloadkit/testing/controlplane"
)

const usage = `A real Kubernetes control plane with simulated Nodes, on this machine.

  controlplane up --dir DIR [--nodes N] [--audit-log FILE]   start a control plane and run it until interrupted
  controlplane path NAME                                     print where a binary lies, building it if it is missing

"controlplane up --help" and "controlplane path --help" say more.
`

const upUsage = `controlplane up --dir DIR [--nodes N] [--audit-log FILE]

Start etcd, kube-apiserver, kube-controller-manager, kube-scheduler and simulated Nodes, and run them until interrupted.
DIR gets a kubeconfig, certificates, logs and data; every start begins with an empty cluster. The first start builds the
binaries, which takes minutes.

`

// usageError marks mistakes in the command line, which exit with 2 rather than 1.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal finds the default handling again and ends the process at once; its children die with it.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "controlplane:", err)
	if errors.As(err, &usageError{}) {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New("no command given: see controlplane --help")}
	}
	switch args[0] {
	case "up":
		return up(ctx, args[1:], out, progress)
	case "path":
		return path(ctx, args[1:], out, progress)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, usage)
		return nil
	default:
		return usageError{fmt.Errorf("unknown command %q: see controlplane --help", args[0])}
	}
}

// newFlags returns the flags of a command, which prints its usage when asked for help alone: a mistake is said in one line.
func newFlags(opts *controlplane.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.Binaries, "binaries", "", "`directory` of the binaries (default: "+controlplane.BinariesEnv+", or the user's cache)")
	return flags
}

// parse reads flags, which may stand before and after the arguments that it returns.
func parse(flags *flag.FlagSet, args []string, about string, out io.Writer) (rest []string, err error) {
	for {
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, about)
			flags.SetOutput(out)
			flags.PrintDefaults()
			return nil, err
		}
		if err != nil {
			return nil, usageError{err}
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

func up(ctx context.Context, args []string, out, progress io.Writer) error {
	opts := controlplane.Options{Progress: progress}
	flags := newFlags(&opts)
	flags.StringVar(&opts.Dir, "dir", "", "`directory` of the control plane (required)")
	flags.IntVar(&opts.Nodes, "nodes", 3, "`number` of simulated Nodes")
	flags.StringVar(&opts.AuditLog, "audit-log", "", "`file` that gets one JSON line per request")
	flags.Func("apiserver-flag", "additional `flag` for kube-apiserver, such as --v=2; may be repeated", func(text string) error {
		opts.APIServerFlags = append(opts.APIServerFlags, text)
		return nil
	})
	rest, err := parse(flags, args, upUsage, out)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return usageError{fmt.Errorf("unexpected argument %q", rest[0])}
	case opts.Dir == "":
		return usageError{errors.New("--dir is required")}
	case opts.Nodes < 0:
		return usageError{fmt.Errorf("--nodes %d: want 0 or more", opts.Nodes)}
	case opts.Nodes == 0:
		opts.Nodes = controlplane.NoNodes
	}
	cp, err := controlplane.Start(ctx, opts)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	fmt.Fprintf(out, "control plane is ready: export KUBECONFIG=%s\n", cp.Kubeconfig())
	err = cp.Wait(ctx)
	return errors.Join(err, cp.Stop(context.WithoutCancel(ctx)))
}

func path(ctx context.Context, args []string, out, progress io.Writer) error {
	opts := controlplane.Options{Progress: progress}
	known := strings.Join(controlplane.Binaries(), ", ")
	rest, err := parse(newFlags(&opts), args, "controlplane path NAME\n\nNAME is one of "+known+".\n\n", out)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return usageError{fmt.Errorf("%d names given: want one of %s", len(rest), known)}
	}
	if !slices.Contains(controlplane.Binaries(), rest[0]) {
		return usageError{fmt.Errorf("no binary %q: want one of %s", rest[0], known)}
	}
	file, err := controlplane.Binary(ctx, rest[0], opts)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, filepath.Clean(file))
	return nil
}
