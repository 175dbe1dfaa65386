package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/examples/storagemigration"
)

// migrateCommand returns the subcommand that stores objects in another API version.
func migrateCommand() *cobra.Command {
	var kubeconfig, to string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "migrate-storage",
		Short: "Have the objects of all kinds stored in another version",
		Long:  migrateHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			crds := kind.StoredIn(kinds.All(), to)
			if len(crds) == 0 {
				return usage{fmt.Errorf("--to=%q: no kind is stored in that version; v1beta1 and v1alpha1 can be", to)}
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig %q: %w", kubeconfig, err)
			}
			config.QPS, config.Burst = 50, 100
			c, err := manager.NewClient(config)
			if err != nil {
				return err
			}
			return storagemigration.Migrate(cmd.Context(), c, storagemigration.Options{
				CRDs: crds, To: to, DryRun: dryRun, Report: func(step storagemigration.Step) { report(cmd.OutOrStdout(), step, to, dryRun) },
			})
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the cluster this process runs in")
	cmd.Flags().StringVar(&to, "to", "", "v1beta1, or v1alpha1 on the way back to OpenKruise 1.9.0")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the objects, and write nothing")
	return cmd
}

// report prints a line about a step of the migration.
func report(out io.Writer, step storagemigration.Step, to string, dryRun bool) {
	var line string
	switch {
	case step.Done && step.Written == 0:
		line = "every object is stored in " + to
	case step.Done:
		line = fmt.Sprintf("done: %d objects written, every object is stored in %s", step.Written, to)
	case step.Written == 0:
		line = "stored in " + step.From
	case dryRun:
		line = fmt.Sprintf("%d objects would be written", step.Written)
	default:
		line = fmt.Sprintf("%d objects written", step.Written)
	}
	// An error of the output is ignored: the migration must continue even if the reader of the output has gone.
	_, _ = fmt.Fprintf(out, "%s: %s\n", strings.TrimSpace(step.CRD), line)
}

const migrateHelp = `Have the objects of all kinds stored in another version.

The command makes the version the storage version of each CRD, writes each object once more, and takes all other versions off
status.storedVersions. The manager has to run meanwhile, because objects are converted by its webhooks. The command can be ended and
repeated at any time.

  --to v1beta1    for this manager; v1alpha1 is stored nowhere afterwards
  --to v1alpha1   on the way back to OpenKruise 1.9.0: its CRDs of some kinds know no v1beta1, and an API server refuses them before`
