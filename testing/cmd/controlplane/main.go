// Command controlplane starts a real Kubernetes control plane with simulated Nodes on the local machine, and builds the
// binaries for it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const usage = `A real Kubernetes control plane with simulated Nodes, on this machine.

  controlplane up --dir DIR [--nodes N] [--agent FILE]       start a control plane and run it until interrupted
  controlplane run [--nodes N] COMMAND [ARGUMENTS]           start a control plane, run a command with it, and stop it
  controlplane path NAME                                     print where a binary lies, building it if it is missing

"controlplane up --help" says more, and so do the others.
`

const upUsage = `controlplane up --dir DIR [--nodes N] [--audit-log FILE] [--agent FILE]

Start etcd, kube-apiserver, kube-controller-manager, kube-scheduler and simulated Nodes, and run them until interrupted.
DIR gets a kubeconfig, certificates, logs and data; every start begins with an empty cluster. The first start builds the
binaries, which takes minutes.

With --agent every simulated Node gets a container runtime behind CRI, and the agent in FILE, run with NODE_NAME in its
environment and --kubeconfig, --socket-file, --addr= and --metrics-addr=. The command nodeagents must lie beside this
command.

`

const runUsage = `controlplane run [--nodes N] COMMAND [ARGUMENTS]

Start a control plane in a temporary directory, run the command with KUBECONFIG and ` + controlplanetest.SharedEnv + ` in its
environment, stop the control plane, and end with the command's exit code. Tests of packages that can share a control plane
use this one:

  controlplane run --nodes 20 go test ./...

`

// usageError is an error in the command line, for which the exit code is 2 in place of 1.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// commandError is the failure of a child command. Command controlplane exits with the child's exit code.
type commandError struct {
	error
	code int
}

func (e commandError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// After the first signal, a second signal ends the process at once; the kernel then kills the child processes.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "controlplane:", err)
	if errors.As(err, &usageError{}) {
		os.Exit(2)
	}
	if failed := (commandError{}); errors.As(err, &failed) {
		os.Exit(failed.code)
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
	case "run":
		return runCommand(ctx, args[1:], out, progress)
	case "path":
		return path(ctx, args[1:], out, progress)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, usage)
		return nil
	default:
		return usageError{fmt.Errorf("unknown command %q: see controlplane --help", args[0])}
	}
}

// newFlags returns the flags of a command. The flags print the usage only on request: after an error only a single line
// is printed.
func newFlags(opts *controlplane.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.Binaries, "binaries", "", "`directory` of the binaries (default: "+controlplane.BinariesEnv+", or the user's cache)")
	return flags
}

// parse parses flags up to the first argument.
func parse(flags *flag.FlagSet, args []string, about string, out io.Writer) error {
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, about)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// parseAll parses flags before and after the arguments, and returns the arguments.
func parseAll(flags *flag.FlagSet, args []string, about string, out io.Writer) (rest []string, err error) {
	for {
		if err := parse(flags, args, about, out); err != nil || flags.NArg() == 0 {
			return rest, err
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

func up(ctx context.Context, args []string, out, progress io.Writer) error {
	opts := controlplane.Options{Progress: progress}
	flags := startFlags(&opts)
	flags.StringVar(&opts.Dir, "dir", "", "`directory` of the control plane (required)")
	flags.StringVar(&opts.AuditLog, "audit-log", "", "`file` that gets one JSON line per request")
	agent := flags.String("agent", "", "`file` of a node agent to be run for every simulated Node")
	rest, err := parseAll(flags, args, upUsage, out)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return usageError{fmt.Errorf("unexpected argument %q", rest[0])}
	case opts.Dir == "":
		return usageError{errors.New("--dir is required")}
	}
	if err := checkNodes(&opts); err != nil {
		return err
	}
	beside, err := agents(*agent)
	if err != nil {
		return err
	}
	cp, err := controlplane.Start(ctx, opts)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	fmt.Fprintf(out, "control plane is ready: export KUBECONFIG=%s\n", cp.Kubeconfig())
	stopAgents := func() {}
	if *agent != "" {
		cmd := exec.Command(beside, "--kubeconfig", cp.Kubeconfig(), "--dir", filepath.Join(opts.Dir, "agents"), "--", *agent) //nolint:noctx // Stop ends the whole process group.
		cmd.Stdout, cmd.Stderr = progress, progress
		process, err := child.Start(cmd)
		if err != nil {
			return errors.Join(err, cp.Stop(context.WithoutCancel(ctx)))
		}
		stopAgents = func() { process.Stop(syscall.SIGTERM, agentsEnd) }
	}
	err = cp.Wait(ctx)
	stopAgents()
	return errors.Join(err, cp.Stop(context.WithoutCancel(ctx)))
}

// agentsEnd is how long the agents may take to end after the signal.
const agentsEnd = 15 * time.Second

// agents returns the command that runs the node agents, which is in another module because of CRI.
func agents(agent string) (string, error) {
	if agent == "" {
		return "", nil
	}
	if _, err := os.Stat(agent); err != nil {
		return "", usageError{fmt.Errorf("--agent: %w", err)}
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(own), "nodeagents")
	if _, err := os.Stat(beside); err != nil {
		return "", fmt.Errorf("--agent needs a further command: go build -o %s ./testing/fakecri/cmd/nodeagents", beside)
	}
	return beside, nil
}

// runCommand starts a control plane, runs a command, and stops the control plane after the command has ended.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	opts := controlplane.Options{Progress: progress}
	flags := startFlags(&opts)
	if err := parse(flags, args, runUsage, out); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return usageError{errors.New("no command to run: see controlplane run --help")}
	}
	if err := checkNodes(&opts); err != nil {
		return err
	}
	if opts.Dir, err = os.MkdirTemp("", "controlplane-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(opts.Dir)) }()
	opts.AuditLog = filepath.Join(opts.Dir, "audit.log")
	cp, err := controlplane.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop(context.WithoutCancel(ctx))) }()
	cmd := exec.Command(flags.Arg(0), flags.Args()[1:]...) //nolint:noctx // child.Run also ends all processes that the command has started.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, progress
	cmd.Env = append(os.Environ(), controlplanetest.SharedEnv+"="+opts.Dir, "KUBECONFIG="+cp.Kubeconfig())
	err = child.Run(ctx, cmd)
	if exit := (&exec.ExitError{}); errors.As(err, &exit) && ctx.Err() == nil {
		return commandError{fmt.Errorf("%s: %w", flags.Arg(0), err), max(exit.ExitCode(), 1)}
	}
	return err
}

// startFlags are the flags of commands that start a control plane.
func startFlags(opts *controlplane.Options) *flag.FlagSet {
	flags := newFlags(opts)
	flags.IntVar(&opts.Nodes, "nodes", 3, "`number` of simulated Nodes")
	flags.Func("apiserver-flag", "additional `flag` for kube-apiserver, such as --v=2; may be repeated", func(text string) error {
		opts.APIServerFlags = append(opts.APIServerFlags, text)
		return nil
	})
	return flags
}

func checkNodes(opts *controlplane.Options) error {
	if opts.Nodes < 0 {
		return usageError{fmt.Errorf("--nodes %d: want 0 or more", opts.Nodes)}
	}
	if opts.Nodes == 0 {
		opts.Nodes = controlplane.NoNodes
	}
	return nil
}

func path(ctx context.Context, args []string, out, progress io.Writer) error {
	opts := controlplane.Options{Progress: progress}
	known := strings.Join(controlplane.Binaries(), ", ")
	rest, err := parseAll(newFlags(&opts), args, "controlplane path NAME\n\nNAME is one of "+known+".\n\n", out)
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
