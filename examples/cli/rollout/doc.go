// Package rollout has the commands of "kubectl kruise rollout" for workloads of Kubernetes, of OpenKruise and for
// Rollouts of Kruise Rollouts.
//
// The exit code of "rollout status" is the state of the rollout: see package progress.
package rollout

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/rollout"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/clock"
)

// workloadTypes returns the resource names for the shell completion of the commands' first argument.
func workloadTypes() []string {
	return []string{
		"clonesets", "statefulsets.apps.kruise.io", "daemonsets.apps.kruise.io", "uniteddeployments", "sidecarsets",
		"broadcastjobs", "deployments", "daemonsets", "statefulsets", "rollouts",
	}
}

// NewCommand returns the command with its subcommands. The clock gives the time of restarts and the duration of
// failures.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout SUBCOMMAND",
		Short: "Manage the rollout of a workload",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	history := rollout.NewCmdRolloutHistory(f, streams)
	history.Example = "  kubectl kruise rollout history cloneset/web\n  kubectl kruise rollout history statefulsets.apps.kruise.io/db --revision 3"
	cmd.AddCommand(
		history,
		newStatus(f, streams, clk),
		newUndo(f, streams),
		newEdit(f, streams, "pause", "Pause a rollout", func(*cobra.Command) edit { return pause(true) }),
		newEdit(f, streams, "resume", "Resume a paused rollout", func(*cobra.Command) edit { return pause(false) }),
		newEdit(f, streams, "restart", "Restart the Pods of a workload, within the limits of its strategy",
			func(*cobra.Command) edit { return restart(clk.Now()) }),
		newApprove(f, streams),
		newWatch(f, streams, clk),
	)
	for _, sub := range cmd.Commands() {
		sub.ValidArgsFunction = completion.SpecifiedResourceTypeAndNameCompletionFunc(f, workloadTypes())
	}
	return cmd
}
