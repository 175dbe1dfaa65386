// Command kubectl-kruise operates and explains workloads of OpenKruise, as "kubectl kruise" or by its own name.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // logins of cloud providers
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workloadkit/workloadkit/examples/cli"
)

func main() { os.Exit(run()) }

// run runs the command and returns the exit code. main exits afterwards, so that deferred calls run before the exit.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	config := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	log.SetLogger(logr.Discard()) // the log of the controllers in a preview is of no use to users
	root, err := cli.NewCommand(config, streams, clock.RealClock{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return cli.Execute(ctx, root)
}
