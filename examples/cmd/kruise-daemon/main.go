// Command kruise-daemon runs the node agent of the project in place of OpenKruise's daemon.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // registers the log format json
	"k8s.io/klog/v2"

	"github.com/workloadkit/workloadkit/examples/daemon"
)

// usage is an error in the command line; the exit code is then 2.
type usage struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command(os.Getenv).ExecuteContext(ctx)
	logs.FlushLogs()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "kruise-daemon:", err)
	if errors.As(err, new(usage)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// version is set by the linker, by -X main.version=v0.1.0.
var version = "dev"

const longHelp = `Run the node agent for apps.kruise.io.

The agent runs once on each Node, with the Node's /var/run at /hostvarrun. It waits for what is missing: see /healthz.

Environment:
  NODE_NAME   name of the Node; required`

// flags are the flags of the command line. Flags that OpenKruise's daemon also has keep their names and defaults.
type flags struct {
	kubeconfig              string
	address, metrics, pprof string
	profiles                bool
	sockets                 daemon.Sockets
	images                  imageFlags
	qps                     float32
	burst                   int
	logging                 *logsapi.LoggingConfiguration
}

func command(getenv func(string) string) *cobra.Command {
	f := &flags{logging: logsapi.NewLoggingConfiguration()}
	cmd := &cobra.Command{
		Use: "kruise-daemon", Short: "Run the node agent for apps.kruise.io", Long: longHelp, Version: version,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{fmt.Errorf("unexpected argument %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), getenv("NODE_NAME")) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "file with the API server and the credentials; empty for those of the Pod")
	fs.StringVar(&f.address, "addr", ":10221", "address of /livez and /healthz")
	fs.StringVar(&f.metrics, "metrics-addr", "127.0.0.1:10223", "address of /metrics; empty for none")
	fs.BoolVar(&f.profiles, "enable-pprof", false, "serve profiles of the agent")
	fs.StringVar(&f.pprof, "pprof-addr", "127.0.0.1:10222", "address of the profiles")
	fs.StringVar(&f.sockets.File, "socket-file", "", "socket of the container runtime: a name below --host-run, or an absolute path; empty for the kubelet's own and all usual places")
	fs.StringVar(&f.sockets.Run, "host-run", "/hostvarrun", "place of the Node's /var/run")
	fs.StringVar(&f.sockets.KubeletConfig, "kubelet-config", "/var/lib/kubelet/config.yaml", "file with the kubelet's configuration, for its endpoint of the runtime; may be missing")
	f.images.add(fs)
	fs.Float32Var(&f.qps, "rest-config-qps", 0, "requests per second to the API server; 0 for the default of the client")
	fs.IntVar(&f.burst, "rest-config-burst", 0, "requests at once to the API server; 0 for the default of the client")
	logsapi.AddFlags(f.logging, fs)
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

func (f *flags) run(ctx context.Context, node string) error {
	if node == "" {
		return usage{errors.New("NODE_NAME is not set: name the Node in the environment")}
	}
	logging := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(logging); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(f.logging, logging); err != nil {
		return usage{err}
	}
	log := klog.Background().WithValues("node", node)
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %q: %w", f.kubeconfig, err)
	}
	config.QPS, config.Burst = f.qps, f.burst
	return f.serve(logr.NewContext(ctx, log), rest.AddUserAgent(config, "kruise-daemon"), node)
}

// serve runs the agent and the HTTP servers until a server fails, or ctx ends.
func (f *flags) serve(ctx context.Context, config *rest.Config, node string) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	images, err := f.images.read()
	if err != nil {
		return usage{err}
	}
	d, err := daemon.New(config, daemon.Options{Node: node, Sockets: f.sockets, Images: images, Registry: registry})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	run := func(part func() error) {
		all.Go(func() {
			if err := part(); err != nil {
				cancel(err)
			}
		})
	}
	run(func() error { return daemon.Serve(ctx, f.address, d.Health()) })
	run(func() error { return daemon.Serve(ctx, f.metrics, daemon.Metrics(registry)) })
	if f.profiles {
		run(func() error { return daemon.Serve(ctx, f.pprof, daemon.Profiles()) })
	}
	run(func() error { return d.Run(ctx) })
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
