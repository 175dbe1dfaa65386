// Command quickstart shows on a real control plane what in-place updates are: it starts one with simulated Nodes, runs the
// reference controllers, and takes a CloneSet of 20 Pods through an update in place, halted by a partition and then to its
// end, and through a change that no live Pod can take.
//
// On a terminal it draws one table that follows every Pod; otherwise it prints a line for each thing that happens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

func main() {
	nodes := flag.Int("nodes", 20, "number of simulated Nodes")
	dir := flag.String("dir", "", "directory for data and logs; empty means a temporary one that is removed at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the process at once; its children die with it.
	context.AfterFunc(ctx, stop)
	err := run(ctx, *dir, *nodes)
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

func run(ctx context.Context, dir string, nodes int) (err error) {
	if dir == "" {
		temporary, err := os.MkdirTemp("", "workloadkit-quickstart-")
		if err != nil {
			return fmt.Errorf("making a directory for the control plane: %w", err)
		}
		defer func() { _ = os.RemoveAll(temporary) }()
		dir = temporary
	}
	fmt.Println("A real etcd, kube-apiserver, scheduler and controller-manager, and kwok with", nodes, "simulated Nodes.")
	fmt.Println("The first run builds them from source, which takes a few minutes.")
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Nodes: nodes, AuditLog: filepath.Join(dir, "audit.log"), Progress: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, cp.Stop(stopping))
	}()
	logs, err := os.Create(filepath.Join(dir, "kruise-manager.log"))
	if err != nil {
		return fmt.Errorf("creating the manager's log: %w", err)
	}
	defer func() { _ = logs.Close() }()
	return show(ctx, cp, stdr.New(newLogger(logs)))
}

// show installs the CRDs, runs the manager beside the show and ends both together.
func show(ctx context.Context, cp *controlplane.ControlPlane, log logr.Logger) error {
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
		if err := runManager(logr.NewContext(ctx, log), cp.Config()); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("manager: %w", err))
		}
	}()
	w := newWorld()
	var out screen = &lines{out: os.Stdout, world: w}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = &table{out: os.Stdout, world: w, lines: func() int {
			_, height, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				return 0
			}
			return height
		}}
	}
	s := &story{client: c, world: w, screen: out, auditLog: cp.AuditLog()}
	err = s.tell(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-stopped
	return err
}

func runManager(ctx context.Context, config *rest.Config) error {
	return manager.Run(ctx, config, manager.Options{Version: "quickstart"})
}
