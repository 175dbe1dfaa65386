package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// Run measures the manager in all phases, on a new control plane. Run works only on Linux, because it reads CPU time
// and memory from /proc. Several runs at the same time distort each other's figures.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options of the bench: %w", err)
	}
	// The yardstick runs only while nothing else runs: before the start of the control plane and after it was stopped.
	before := yardstick()
	defer func() {
		if err == nil {
			result.Pace = Pace{Before: before, After: yardstick()}
		}
	}()
	dir, err := os.MkdirTemp("", "workloadkit-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the control plane: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Nodes: o.nodes(), AuditLog: filepath.Join(dir, "audit.log"), Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cp.Stop(context.WithoutCancel(ctx))) }()
	return measureOn(ctx, cp, dir, o)
}

// newClient returns a client whose scheme contains the kinds of client-go and of the workload.
func newClient(config *rest.Config, w Workload) (client.Client, error) {
	scheme := runtime.NewScheme()
	err := clientgoscheme.AddToScheme(scheme)
	if w.AddToScheme != nil {
		err = errors.Join(err, w.AddToScheme(scheme))
	}
	if err != nil {
		return nil, fmt.Errorf("registering API types: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return c, nil
}

// measureOn measures the manager on a control plane that has no other users. The files of the run are in the
// directory dir.
func measureOn(ctx context.Context, cp *controlplane.ControlPlane, dir string, o Options) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &bench{o: o, progress: newProgress(o.Progress), user: user(), log: auditLog{path: cp.AuditLog()}, foreign: map[string]int{}}
	c, err := newClient(cp.Config(), o.Workload)
	if err != nil {
		return nil, err
	}
	b.client = c
	kubeconfig := filepath.Join(dir, "manager.kubeconfig")
	if err := errors.Join(installCRDs(ctx, c, o.Workload, o.CRDs), createAccount(ctx, c, cp.Config(), kubeconfig)); err != nil {
		return nil, err
	}
	if b.pods, err = follow(ctx, cp.Config()); err != nil {
		return nil, err
	}
	if b.manager, err = startManager(ctx, o, kubeconfig, filepath.Join(dir, "manager.log")); err != nil {
		return nil, err
	}
	defer b.manager.stop()
	// If a process exits too early, the run ends with the reason.
	for _, wait := range []func(context.Context) error{b.manager.wait, cp.Wait} {
		go func() {
			if err := wait(ctx); err != nil {
				cancel(err)
			}
		}()
	}
	r := &Result{Setup: setupOf(o), Machine: thisMachine()}
	if r.Phases, r.rollouts, err = b.run(ctx); err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		// The cause of the context says why the run has ended, unlike the error of the interrupted request.
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w\nend of the manager's log:\n%s", err, child.EndOfLog(b.manager.log))
}

func setupOf(o Options) Setup {
	s := Setup{
		Manager: filepath.Base(o.Manager), Workload: o.Workload.Name, Objects: o.Objects, Pods: o.Pods, Nodes: o.nodes(),
		Change: o.Change, MaxUnavailable: o.MaxUnavailable.String(),
	}
	if o.StartDelay > 0 {
		s.StartDelay = o.StartDelay.String()
	}
	if o.SlowStart > 0 {
		s.SlowStart = o.SlowStart.String()
	}
	return s
}
