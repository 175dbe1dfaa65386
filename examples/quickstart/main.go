// Command quickstart shows the reference controllers on a real control plane: the command starts a control plane with
// simulated Nodes, runs the controllers, and takes a workload through several changes. The flag --workload chooses the
// workload:
//
//   - cloneset: 20 Pods are updated in place, first as far as the partition allows, and then completely. Then the Pods
//     are replaced, because of a change that cannot be made in live Pods.
//   - statefulset: reserved ordinals and a start ordinal determine which numbered Pods exist. Then the Pods are updated
//     in place, several at a time, and finally recreated under their names.
//   - daemonset: Pods are created and deleted because Nodes join and are tainted. Then the Pods are updated in place as
//     far as the partition allows, and finally recreated.
//
// At the end of each part, quickstart compares the outcome with the expected outcome. On a terminal, quickstart draws a
// table with every Pod; otherwise quickstart prints a line for each event.
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
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// options are the values of the command line.
type options struct {
	workload workload
	dir      string
}

// parse writes errors to out, as package flag does.
func parse(args []string, out io.Writer) (options, error) {
	all := workloads()
	var names []string
	for _, w := range all {
		names = append(names, w.name)
	}
	last := len(names) - 1
	choice := strings.Join(names[:last], ", ") + " or " + names[last]
	o := options{workload: all[0]}
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.dir, "dir", "", "directory for data and logs; empty means a temporary one that is removed at the end")
	flags.Func("workload", fmt.Sprintf("`kind` that is shown: %s (default %s)", choice, names[0]), func(value string) error {
		i := slices.Index(names, value)
		if i < 0 {
			return fmt.Errorf("want %s", choice)
		}
		o.workload = all[i]
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("argument %q: want flags alone", flags.Arg(0))
		fmt.Fprintln(out, err)
		return o, err
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the process at once; the processes of the control plane then end as well.
	context.AfterFunc(ctx, stop)
	err = run(ctx, o)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interrupted; everything is stopped")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.dir == "" {
		temporary, err := os.MkdirTemp("", "workloadkit-quickstart-")
		if err != nil {
			return fmt.Errorf("making a directory for the control plane: %w", err)
		}
		defer func() { _ = os.RemoveAll(temporary) }()
		o.dir = temporary
	}
	fmt.Println("A real etcd, kube-apiserver, scheduler and controller-manager, and kwok with", o.workload.nodes, "simulated Nodes.")
	fmt.Println("The first run builds them from source, which takes a few minutes.")
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir: o.dir, Nodes: o.workload.nodes, AuditLog: filepath.Join(o.dir, "audit.log"), Progress: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, cp.Stop(stopping))
	}()
	logs, err := os.Create(filepath.Join(o.dir, "kruise-manager.log"))
	if err != nil {
		return fmt.Errorf("creating the manager's log: %w", err)
	}
	defer func() { _ = logs.Close() }()
	return show(ctx, cp, o.workload, stdr.New(newLogger(logs)))
}

// show installs the CRDs, and runs the manager and the demonstration until one of the two ends.
func show(ctx context.Context, cp *controlplane.ControlPlane, shown workload, log logr.Logger) error {
	ctrl.SetLogger(log)
	c, err := connect(ctx, cp.Config())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := runManager(logr.NewContext(ctx, log), cp.Config(), shown.gates); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("manager: %w", err))
		}
	}()
	w := newWorld(shown.place)
	w.byNode = shown.places == nodePlaces
	var out screen = &lines{out: os.Stdout, world: w}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = &table{out: os.Stdout, world: w, size: terminalSize}
	}
	s := &story{workload: shown, client: c, world: w, screen: out, out: os.Stdout, auditLog: cp.AuditLog()}
	err = s.tell(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err == nil {
		invite(ctx, os.Stdout, cp.Kubeconfig(), shown.name, term.IsTerminal(int(os.Stdout.Fd())))
	}
	cancel(nil)
	<-stopped
	return err
}

func terminalSize() size {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return size{}
	}
	return size{width, height}
}

func runManager(ctx context.Context, config *rest.Config, gates map[apps.Gate]bool) error {
	return manager.Run(ctx, config, manager.Options{Version: "quickstart", Gates: gates})
}
