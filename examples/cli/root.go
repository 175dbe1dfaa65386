// Package cli answers "which commands does kubectl kruise have?"
//
// The commands of kubectl that work unchanged for the kinds of OpenKruise are kubectl's own code: package seams
// registers the kinds with kubectl. The other commands are in the packages below, and tests can run each command
// without a process:
//
//	rollout    status, history, undo, pause, resume, restart, approve, watch
//	create     jobs of one Pod or of all Nodes, restarts of containers
//	scaledown  removes chosen Pods and lowers the number of replicas
//	migrate    moves replicas from a Deployment to a CloneSet
//	execute    exec with the names of sidecars that are upgraded hot
//	why        why an object waits
//	overview   get all
//	inspect    describe, with a view of Rollouts
//	doctor     what is wrong with the installation
//	preview    what a change would do, by the controllers themselves
package cli

import (
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubectl/pkg/cmd/apiresources"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/completion"
	"k8s.io/kubectl/pkg/cmd/config"
	"k8s.io/kubectl/pkg/cmd/diff"
	"k8s.io/kubectl/pkg/cmd/expose"
	"k8s.io/kubectl/pkg/cmd/kustomize"
	"k8s.io/kubectl/pkg/cmd/options"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/replace"
	"k8s.io/kubectl/pkg/cmd/scale"
	"k8s.io/kubectl/pkg/cmd/set"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/kubectl/pkg/scheme"
	utilcompletion "k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/create"
	"github.com/workloadkit/workloadkit/examples/cli/doctor"
	"github.com/workloadkit/workloadkit/examples/cli/execute"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/inspect"
	"github.com/workloadkit/workloadkit/examples/cli/mergepatch"
	"github.com/workloadkit/workloadkit/examples/cli/migrate"
	"github.com/workloadkit/workloadkit/examples/cli/overview"
	"github.com/workloadkit/workloadkit/examples/cli/preview"
	"github.com/workloadkit/workloadkit/examples/cli/rollout"
	"github.com/workloadkit/workloadkit/examples/cli/scaledown"
	"github.com/workloadkit/workloadkit/examples/cli/seams"
	"github.com/workloadkit/workloadkit/examples/cli/why"
)

// Name is how users call the command line.
const Name = "kubectl kruise"

// NewCommand returns the whole command line. The flags of the connection, such as --kubeconfig, fill config.
// NewCommand writes to package variables of kubectl, so no command may run at the same time.
func NewCommand(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, clk clock.WithTicker) (*cobra.Command, error) {
	if err := seams.Install(); err != nil {
		return nil, err
	}
	root := &cobra.Command{
		Use:           "kubectl-kruise",
		Short:         "Operate and explain the workloads of OpenKruise",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: Name},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	warningsAsErrors(root, streams)
	config.WrapConfigFn = translatePatches
	config.AddFlags(root.PersistentFlags())
	matched := cmdutil.NewMatchVersionFlags(config)
	matched.AddFlags(root.PersistentFlags())
	f := cmdutil.NewFactory(matched)
	utilcompletion.SetFactoryForCompletion(f)
	own(root, f, streams, clk)
	sets := set.NewCmdSet(f, streams)
	preview.AddTo(sets, f, streams, clk)
	root.AddCommand(sets)
	kubectl(root, f, streams)
	return root, completeFlags(root, f)
}

// own adds the commands of the packages below.
func own(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.WithTicker) {
	root.AddCommand(
		rollout.NewCommand(f, streams, clk),
		create.NewCommand(f, streams),
		scaledown.NewCommand(f, streams),
		migrate.NewCommand(f, streams, clk),
		execute.NewCommand(f, streams),
		why.NewCommand(f, streams, clk),
		overview.NewCommand(Name, f, streams, clk),
		doctor.NewCommand(f, streams, clk),
		inspect.NewCommand(Name, f, streams, clk),
		preview.NewCommand(f, streams, clk),
		newVersion(f, streams),
	)
}

// kubectl adds kubectl's own commands.
func kubectl(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams) {
	root.AddCommand(
		expose.NewCmdExposeService(f, streams),
		scale.NewCmdScale(f, streams),
		diff.NewCmdDiff(f, streams),
		apply.NewCmdApply(Name, f, streams),
		patch.NewCmdPatch(f, streams),
		replace.NewCmdReplace(f, streams),
		wait.NewCmdWait(f, streams),
		kustomize.NewCmdKustomize(streams),
		config.NewCmdConfig(f, clientcmd.NewDefaultPathOptions(), streams),
		completion.NewCmdCompletion(streams.Out, ""),
		apiresources.NewCmdAPIVersions(f, streams),
		apiresources.NewCmdAPIResources(f, streams),
		options.NewCmdOptions(streams.Out),
	)
}

// warningsAsErrors adds the flag --warnings-as-errors. A warning is a header in the API server's response.
func warningsAsErrors(root *cobra.Command, streams genericiooptions.IOStreams) {
	handler := rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	strict := root.PersistentFlags().Bool("warnings-as-errors", false, "Treat warnings received from the server as errors and exit with a non-zero exit code")
	root.PersistentPreRun = func(*cobra.Command, []string) { rest.SetDefaultWarningHandler(handler) }
	root.PersistentPostRunE = func(*cobra.Command, []string) error {
		if count := handler.WarningCount(); *strict && count > 0 {
			return &warned{count}
		}
		return nil
	}
}

// These client-side rate limits let a command read all kinds without waiting. High limits are harmless, because a
// command runs only for a short time.
const (
	queriesPerSecond = 50
	burst            = 300
)

// translatePatches changes a client configuration so that kubectl's commands can change objects of CRDs: see package
// mergepatch.
func translatePatches(config *rest.Config) *rest.Config {
	config.QPS, config.Burst = queriesPerSecond, burst
	config.Wrap(func(below http.RoundTripper) http.RoundTripper {
		return &mergepatch.Transport{Below: below, Scheme: scheme.Scheme, Groups: []string{facts.AppsGroup, facts.PolicyGroup, facts.RolloutsGroup}}
	})
	return config
}

// completeFlags completes the values of the flags that all commands have.
func completeFlags(root *cobra.Command, f cmdutil.Factory) error {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"namespace": utilcompletion.ResourceNameCompletionFunc(f, "namespace"),
		"context":   utilcompletion.ContextCompletionFunc,
		"cluster":   utilcompletion.ClusterCompletionFunc,
		"user":      utilcompletion.UserCompletionFunc,
	} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			return err
		}
	}
	return nil
}
