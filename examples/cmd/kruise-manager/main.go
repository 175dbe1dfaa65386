// Command kruise-manager runs the reference controllers in place of OpenKruise's manager.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// usage marks errors of the command line, which end with exit code 2.
type usage struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "kruise-manager:", err)
	if errors.As(err, new(usage)) {
		os.Exit(2)
	}
	os.Exit(1)
}

func command() *cobra.Command {
	var kubeconfig, gates string
	var verbosity int
	options := manager.Options{Version: buildVersion()}
	cmd := &cobra.Command{
		Use:           "kruise-manager",
		Short:         "Run the reference controllers for apps.kruise.io",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{fmt.Errorf("unexpected argument %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if options.Gates, err = manager.ParseGates(gates); err != nil {
				return usage{err}
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig %q: %w", kubeconfig, err)
			}
			log := zap.New(zap.Level(zapcore.Level(-verbosity)))
			ctrl.SetLogger(log)
			return manager.Run(logr.NewContext(cmd.Context(), log), config, options)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the cluster this process runs in")
	flags.StringVar(&gates, "feature-gates", "", "feature gates, as Name=true,Other=false")
	flags.StringVar(&options.MetricsAddress, "metrics-addr", "", "address to serve metrics on; empty serves none")
	flags.IntVar(&options.CloneSetWorkers, "cloneset-workers", 3, "CloneSets reconciled side by side")
	flags.BoolVar(&options.ExcludePreparingDelete, "cloneset-scaling-exclude-preparing-delete", false,
		"replace Pods whose deletion waits for a hook before they are gone, for every CloneSet")
	flags.IntVar(&verbosity, "v", 0, "verbosity of the log")
	return cmd
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
