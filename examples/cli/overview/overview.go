package overview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/kubectl/pkg/cmd/get"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
)

// NewCommand returns kubectl's get, in which "all" means all kinds of OpenKruise and of Kruise Rollouts.
func NewCommand(name string, f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	cmd := get.NewCmdGet(name, f, streams)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		found, directive := completion.ResourceTypeAndNameCompletionFunc(f)(cmd, args, word)
		if len(args) == 0 && strings.HasPrefix("all", word) {
			found = append(found, "all")
		}
		return found, directive
	}
	kubectl := cmd.Run
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Equal(args, []string{"all"}) {
			kubectl(cmd, args)
			return nil
		}
		return show(cmd, f, streams, clk)
	}
	return cmd
}

// kind is a served kind.
type kind struct {
	schema.GroupVersionResource

	namespaced bool
}

func (k kind) title() string { return k.Resource + "." + k.Group }

func show(cmd *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) error {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if cmdutil.GetFlagBool(cmd, "all-namespaces") {
		namespace = ""
	}
	finder, err := f.ToDiscoveryClient()
	if err != nil {
		return err
	}
	kinds, err := served(finder)
	if err != nil {
		return err
	}
	client, err := f.DynamicClient()
	if err != nil {
		return err
	}
	output := cmdutil.GetFlagString(cmd, "output")
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion("v1")
	all.SetKind("List")
	separator := ""
	for _, k := range kinds {
		objects, err := list(cmd.Context(), client, k, namespace, cmdutil.GetFlagString(cmd, "selector"))
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			fmt.Fprintf(streams.ErrOut, "%s: %v\n", k.title(), err)
			continue
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", k.title(), err)
		case len(objects) == 0:
			continue
		case output != "" && output != "wide":
			all.Items = append(all.Items, objects...)
			continue
		}
		fmt.Fprintf(streams.Out, "%s%s:\n", separator, k.title())
		separator = "\n"
		if err := write(streams.Out, rows(k.Resource, objects, output == "wide", clk.Now())); err != nil {
			return err
		}
	}
	if output == "" || output == "wide" {
		return nil
	}
	return printList(streams.Out, output, all)
}

// printList prints objects with the printers of kubectl.
func printList(out io.Writer, output string, all *unstructured.UnstructuredList) error {
	flags := genericclioptions.NewPrintFlags("")
	flags.OutputFormat = &output
	printer, err := flags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(all, out)
}

func list(ctx context.Context, client dynamic.Interface, k kind, namespace, selector string) ([]unstructured.Unstructured, error) {
	if !k.namespaced {
		namespace = ""
	}
	found, err := client.Resource(k.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}

// served returns the kinds that the API server serves, each in its preferred version, in the order of the tables. API
// groups whose discovery fails, for example because an aggregated API server is down, are left out.
func served(finder discovery.DiscoveryInterface) ([]kind, error) {
	lists, err := finder.ServerPreferredResources()
	if failed := new(discovery.ErrGroupDiscoveryFailed); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	var kinds []kind
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil || !facts.IsKruise(gv.Group) {
			continue
		}
		for i := range l.APIResources {
			if r := &l.APIResources[i]; !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") {
				kinds = append(kinds, kind{gv.WithResource(r.Name), r.Namespaced})
			}
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int {
		if d := place(a.Resource) - place(b.Resource); d != 0 {
			return d
		}
		return strings.Compare(a.title(), b.title())
	})
	return kinds, nil
}

func place(resource string) int {
	all := tables()
	if i := slices.IndexFunc(all, func(t table) bool { return t.resource == resource }); i >= 0 {
		return i
	}
	return len(all)
}

func write(out io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
