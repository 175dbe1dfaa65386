package preview

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/cmd/set"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/output"
)

// AddTo adds the flag --preview to the subcommands of "set" that change Pod templates.
func AddTo(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) {
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "image", "env", "resources":
			addTo(cmd, f, streams, clk)
		}
	}
}

// addTo adds the flag to a command.
func addTo(cmd *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) {
	o := &options{printer: output.Printer{Out: streams.Out}, factory: f, clock: clk}
	o.addFlags(cmd, false)
	on := cmd.Flags().Bool("preview", false, "Say what the change would do to the Pods, and change nothing. See kubectl kruise preview.")
	run := cmd.Run
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*on {
			run(cmd, args)
			return nil
		}
		o.printer.Format = cmd.Flag("output").Value.String()
		changed, err := dryRun(cmd, args, f, streams)
		if err != nil {
			return err
		}
		var changes []change
		for _, u := range changed {
			c, err := o.stored(u)
			if err != nil {
				return err
			}
			changes = append(changes, c)
		}
		return o.run(cmd.Context(), changes)
	}
}

// dryRun runs a subcommand of "set" as a dry run, and returns the objects that the command would write.
func dryRun(cmd *cobra.Command, args []string, f cmdutil.Factory, streams genericiooptions.IOStreams) (out []*unstructured.Unstructured, err error) {
	var printed bytes.Buffer
	streams.Out = &printed
	var twin *cobra.Command
	switch cmd.Name() {
	case "image":
		twin = set.NewCmdImage(f, streams)
	case "env":
		twin = set.NewCmdEnv(f, streams)
	default:
		twin = set.NewCmdResources(f, streams)
	}
	for _, name := range []string{"filename", "kustomize", "recursive", "selector", "all", "containers", "from", "prefix", "keys", "env", "overwrite", "limits", "requests"} {
		if from, to := cmd.Flag(name), twin.Flag(name); from != nil && to != nil && from.Changed {
			to.Value, to.Changed = from.Value, true
		}
	}
	if err := errors.Join(twin.Flags().Set("dry-run", "client"), twin.Flags().Set("output", "json")); err != nil {
		return nil, err
	}
	twin.SetContext(cmd.Context())
	twin.Run(twin, args)
	decoder := utilyaml.NewYAMLOrJSONDecoder(&printed, 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := decoder.Decode(u); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading the changed objects: %w", err)
		}
		out = append(out, u)
	}
}

// stored returns the change of an object, with the object read from the API server.
func (o *options) stored(u *unstructured.Unstructured) (change, error) {
	mapper, err := o.factory.ToRESTMapper()
	if err != nil {
		return change{}, err
	}
	gvk := u.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return change{}, err
	}
	c, err := o.factory.UnstructuredClientForMapping(mapping)
	if err != nil {
		return change{}, err
	}
	found, err := resource.NewHelper(c, mapping).Get(u.GetNamespace(), u.GetName())
	if err != nil {
		return change{}, err
	}
	before, ok := found.(*unstructured.Unstructured)
	if !ok {
		return change{}, fmt.Errorf("%T is not read without types", found)
	}
	return change{changed: u, stored: before}, nil
}
