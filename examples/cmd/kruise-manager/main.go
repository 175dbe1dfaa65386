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
	_ "time/tzdata" // for schedules with a time zone, because an image may lack time zone data

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // registers the log format json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// usage is an error in the command line. The exit code is then 2.
type usage struct{ error }

func main() {
	if os.Getenv("GOGC") == "" {
		spareGarbage(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cmd := command(os.Getenv)
	cmd.SetArgs(twoDashes(os.Args[1:]))
	err := cmd.ExecuteContext(ctx)
	logs.FlushLogs()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "kruise-manager:", err)
	if errors.As(err, new(usage)) {
		os.Exit(2)
	}
	os.Exit(1)
}

func command(getenv func(string) string) *cobra.Command {
	f := newFlags(getenv)
	cmd := &cobra.Command{
		Use:           "kruise-manager",
		Short:         "Run the reference controllers for apps.kruise.io",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{fmt.Errorf("unexpected argument %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := f.options()
			if err = errors.Join(err, limitMemory(getenv)); err != nil {
				return usage{err}
			}
			logging := featuregate.NewFeatureGate()
			if err := logsapi.AddFeatureGates(logging); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(f.logging, logging); err != nil {
				return usage{err}
			}
			log := klog.Background()
			f.announce(log)
			config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig %q: %w", f.kubeconfig, err)
			}
			ctrl.SetLogger(log)
			return manager.Run(logr.NewContext(cmd.Context(), log), config, options)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	f.add(cmd.Flags())
	cmd.AddCommand(migrateCommand())
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

const longHelp = `Run the reference controllers for apps.kruise.io.

Environment, as OpenKruise reads it where it does:
  POD_NAMESPACE         namespace of Lease, Secret and Service (kruise-system)
  SECRET_NAME           Secret of the webhooks' certificates (kruise-webhook-certs)
  SERVICE_NAME          Service of the webhooks (kruise-webhook-service)
  WEBHOOK_HOST          what API servers call instead of the Service: a lower-case DNS name or an IP address
  WEBHOOK_PORT          port of the webhooks (9876)
  WEBHOOK_CERT_DIR      gets the certificates as files, too
  CERTS_RENEW_BEFORE    when the serving certificate is renewed, such as 180d, 6m or 1y before its end (180d)
  MEMORY_LIMIT          the container's limit in bytes, near which garbage is collected sooner

A feature gate that nobody knows is refused with a list of all.`

// version is set by the linker, by -X main.version=v0.1.0, if the build information contains no version.
var version string

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
