// Package create has the commands of "kubectl kruise create": kubectl's own commands, and commands for jobs and for
// restarts of containers.
package create

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectlcreate "k8s.io/kubectl/pkg/cmd/create"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/kubectl/pkg/util"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// NewCommand returns kubectl's command with the subcommands of this package added.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := kubectlcreate.NewCmdCreate(f, streams)
	for _, sub := range slices.Clone(cmd.Commands()) {
		if sub.Name() == "job" {
			cmd.RemoveCommand(sub)
		}
	}
	cmd.AddCommand(
		newJob(f, streams, "job", schema.GroupKind{Group: "batch", Kind: "Job"}),
		newJob(f, streams, "broadcastJob", schema.GroupKind{Group: "apps.kruise.io", Kind: "BroadcastJob"}),
		newRequest(f, streams),
	)
	return cmd
}

// maker creates an object for a command.
type maker struct {
	genericiooptions.IOStreams

	factory    cmdutil.Factory
	printFlags *genericclioptions.PrintFlags
	manager    string
}

func newMaker(f cmdutil.Factory, streams genericiooptions.IOStreams, cmd *cobra.Command) *maker {
	m := &maker{IOStreams: streams, factory: f, printFlags: genericclioptions.NewPrintFlags("created").WithTypeSetter(scheme.Scheme)}
	m.printFlags.AddFlags(cmd)
	cmdutil.AddApplyAnnotationFlags(cmd)
	cmdutil.AddValidateFlags(cmd)
	cmdutil.AddDryRunFlag(cmd)
	cmdutil.AddFieldManagerFlagVar(cmd, &m.manager, "kubectl-create")
	return m
}

// create sends an object to the API server, in the API server's preferred version of the kind, and prints the
// created object.
func (m *maker) create(cmd *cobra.Command, gk schema.GroupKind, content fields.Object) error {
	dryRun, err := cmdutil.GetDryRunStrategy(cmd)
	if err != nil {
		return err
	}
	validation, err := cmdutil.GetValidationDirective(cmd)
	if err != nil {
		return err
	}
	mapper, err := m.factory.ToRESTMapper()
	if err != nil {
		return err
	}
	mapping, err := mapper.RESTMapping(gk)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := util.CreateOrUpdateAnnotation(cmdutil.GetFlagBool(cmd, cmdutil.ApplyAnnotationsFlag), u, scheme.DefaultJSONEncoder()); err != nil {
		return err
	}
	if dryRun != cmdutil.DryRunClient {
		client, err := m.factory.DynamicClient()
		if err != nil {
			return err
		}
		options := metav1.CreateOptions{FieldManager: m.manager, FieldValidation: validation}
		if dryRun == cmdutil.DryRunServer {
			options.DryRun = []string{metav1.DryRunAll}
		}
		if u, err = client.Resource(mapping.Resource).Namespace(u.GetNamespace()).Create(cmd.Context(), u, options); err != nil {
			return fmt.Errorf("failed to create %s: %w", gk.Kind, err)
		}
	}
	cmdutil.PrintFlagsWithDryRunStrategy(m.printFlags, dryRun)
	printer, err := m.printFlags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(u, m.Out)
}
