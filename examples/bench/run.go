package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// runOnce measures the manager on a control plane of its own.
func runOnce(ctx context.Context, o options, p *progress) (r result, pictures []drawn, err error) {
	if o.manager, err = locate(o.manager); err != nil {
		return r, nil, err
	}
	// Only where nothing else is under way: neither the control plane's start nor what it tidies up after the last phase.
	before := yardstick()
	defer func() { r.Pace = pace{Before: before, After: yardstick()} }()
	dir, err := os.MkdirTemp("", "workloadkit-bench-")
	if err != nil {
		return r, nil, fmt.Errorf("making a directory for the control plane: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Nodes: o.nodes, AuditLog: filepath.Join(dir, "audit.log"), Progress: os.Stderr,
	})
	if err != nil {
		return r, nil, err
	}
	defer func() { err = errors.Join(err, cp.Stop(context.WithoutCancel(ctx))) }()
	return measureOn(ctx, cp, dir, o, p)
}

// locate finds the manager before anything is started. A relative path is looked for in the parent directory too: "make build"
// puts binaries beside the module that this command is run from.
func locate(path string) (string, error) {
	for _, candidate := range []string{path, filepath.Join("..", path)} {
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(candidate)
		}
		if filepath.IsAbs(path) {
			break
		}
	}
	return "", fmt.Errorf("--manager %s: no such file; \"make build\" makes bin/kruise-manager", path)
}

// measureOn measures the manager on a control plane that nobody else uses. Files of the run lie in the directory.
func measureOn(ctx context.Context, cp *controlplane.ControlPlane, dir string, o options, p *progress) (r result, pictures []drawn, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &bench{o: o, progress: p, user: user(), log: auditLog{path: cp.AuditLog()}}
	c, err := manager.NewClient(cp.Config())
	if err != nil {
		return r, nil, err
	}
	b.client = c
	kubeconfig := filepath.Join(dir, "manager.kubeconfig")
	if err := errors.Join(installCRDs(ctx, c, o.workload, o.crds), createAccount(ctx, c, cp.Config(), kubeconfig)); err != nil {
		return r, nil, err
	}
	if b.pods, err = follow(ctx, cp.Config()); err != nil {
		return r, nil, err
	}
	if b.manager, err = startManager(ctx, o, kubeconfig, filepath.Join(dir, "manager.log")); err != nil {
		return r, nil, err
	}
	defer b.manager.stop()
	// Whatever ends too soon ends the run, with its reason.
	for _, wait := range []func(context.Context) error{b.manager.wait, cp.Wait} {
		go func() {
			if err := wait(ctx); err != nil {
				cancel(err)
			}
		}()
	}
	r = result{Setup: setupOf(o), Machine: thisMachine()}
	if r.Phases, pictures, err = b.run(ctx); err == nil {
		return r, pictures, nil
	}
	if ctx.Err() != nil {
		// Why the run was ended says more than which request was cut off.
		return r, nil, context.Cause(ctx)
	}
	return r, nil, fmt.Errorf("%w\nend of the manager's log:\n%s", err, child.EndOfLog(b.manager.log))
}

func setupOf(o options) setup {
	s := setup{
		Manager: filepath.Base(o.manager), Workload: o.workload.name, Objects: o.objects, Pods: o.pods, Nodes: o.nodes,
		Change: o.change.name, MaxUnavailable: o.maxUnavailable.String(),
	}
	if o.startDelay > 0 {
		s.StartDelay = o.startDelay.String()
	}
	if o.slowStart > 0 {
		s.SlowStart = o.slowStart.String()
	}
	return s
}

// write stores what the command line asks for.
func (r result) write(o options, pictures []drawn) error {
	if o.timeline != "" {
		if err := writeTimeline(o.timeline, r.Setup, pictures); err != nil {
			return err
		}
	}
	if o.json == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	if err := os.WriteFile(o.json, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
