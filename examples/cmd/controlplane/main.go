// Command controlplane starts a real Kubernetes control plane with simulated Nodes on this machine, and builds its binaries.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/workloadkit/workloadkit/examples/controlplane"
)

// usageError marks mistakes in the command line, which exit with 2 rather than 1.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal finds the default handling again and ends the process at once; its children die with it.
	context.AfterFunc(ctx, stop)
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "controlplane:", err)
	if errors.As(err, &usageError{}) {
		os.Exit(2)
	}
	os.Exit(1)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "controlplane",
		Short:         "A real Kubernetes control plane with simulated Nodes, on this machine",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q: see controlplane --help", args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("no command given: see controlplane --help")}
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(upCommand(), pathCommand())
	return root
}

func upCommand() *cobra.Command {
	var opts controlplane.Options
	cmd := &cobra.Command{
		Use:   "up --dir DIR [--nodes N] [--audit-log FILE]",
		Short: "Start a control plane and run it until interrupted",
		Long: "Start etcd, kube-apiserver, kube-controller-manager, kube-scheduler and simulated Nodes, and run them until interrupted.\n" +
			"DIR gets a kubeconfig, certificates, logs and data; every start begins with an empty cluster. The first start builds the\n" +
			"binaries, which takes minutes.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd, opts) },
	}
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "directory of the control plane (required)")
	cmd.Flags().IntVar(&opts.Nodes, "nodes", 3, "number of simulated Nodes")
	cmd.Flags().StringVar(&opts.AuditLog, "audit-log", "", "file that gets one JSON line per request")
	cmd.Flags().StringVar(&opts.Binaries, "binaries", "", "directory of the binaries (default: "+controlplane.BinariesEnv+", or the user's cache)")
	cmd.Flags().StringArrayVar(&opts.APIServerFlags, "apiserver-flag", nil, "additional flag for kube-apiserver, such as --v=2; may be repeated")
	return cmd
}

func up(cmd *cobra.Command, opts controlplane.Options) error {
	switch {
	case opts.Dir == "":
		return usageError{errors.New("--dir is required")}
	case opts.Nodes < 0:
		return usageError{fmt.Errorf("--nodes %d: want 0 or more", opts.Nodes)}
	case opts.Nodes == 0:
		opts.Nodes = controlplane.NoNodes
	}
	opts.Progress = cmd.ErrOrStderr()
	ctx := cmd.Context()
	cp, err := controlplane.Start(ctx, opts)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "control plane is ready: export KUBECONFIG=%s\n", cp.Kubeconfig())
	err = cp.Wait(ctx)
	return errors.Join(err, cp.Stop(context.WithoutCancel(ctx)))
}

func pathCommand() *cobra.Command {
	var opts controlplane.Options
	cmd := &cobra.Command{
		Use:       "path NAME",
		Short:     "Print where a binary lies, building it if it is missing",
		ValidArgs: controlplane.Binaries(),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w: want one of %v", err, controlplane.Binaries())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Progress = cmd.ErrOrStderr()
			path, err := controlplane.Binary(cmd.Context(), args[0], opts)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), filepath.Clean(path))
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Binaries, "binaries", "", "directory of the binaries (default: "+controlplane.BinariesEnv+", or the user's cache)")
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}
