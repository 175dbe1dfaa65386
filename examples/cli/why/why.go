// Package why has the command "kubectl kruise why". The package reads the objects, and package cause finds the
// causes.
//
// The output names the objects that the user may not read after the causes, because such an object may hide a cause.
package why

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/examples/cli/output"
)

// explained returns the resource names for the shell completion of the first argument.
func explained() []string {
	return []string{
		"pods", "clonesets", "statefulsets.apps.kruise.io", "daemonsets.apps.kruise.io", "uniteddeployments", "sidecarsets", "broadcastjobs",
		"containerrecreaterequests", "ephemeraljobs", "deployments", "statefulsets", "daemonsets", "jobs",
	}
}

// NewCommand returns the command.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	printer := &output.Printer{Out: streams.Out}
	cmd := &cobra.Command{
		Use:   "why (POD | TYPE NAME | TYPE/NAME) ...",
		Short: "Say why a Pod, a workload or a job waits, and what ends the wait",
		Long: "Say why an object waits: not created, not scheduled, not started, not ready, not updated, not evicted, not deleted or not\n" +
			"injected. The first cause is the cause to see to first. A healthy object gets a single line.",
		Example: "  kubectl kruise why cloneset/web\n  kubectl kruise why web-x7k2p\n  kubectl kruise why cloneset/web -o json",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return completion.SpecifiedResourceTypeAndNameCompletionFunc(f, explained())(cmd, args, word)
		},
	}
	printer.AddFlag(cmd, "Output format: json, yaml, name or wide (with the names of all Pods).")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		infos, err := find(f, args)
		if err != nil {
			return err
		}
		reader, err := newReader(f)
		if err != nil {
			return err
		}
		for _, info := range infos {
			u, ok := info.Object.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("%T is not read without types", info.Object)
			}
			a := reader.answer(cmd.Context(), u, clk)
			if err := printer.Print(a, a.Object+"\n", a.text); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// find reads the objects that the arguments name. A single word without a slash is the name of a Pod.
func find(f cmdutil.Factory, args []string) ([]*resource.Info, error) {
	if len(args) == 0 {
		return nil, errors.New("an object is required: POD, TYPE NAME or TYPE/NAME")
	}
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		args = []string{"pod/" + args[0]}
	}
	namespace, _, err := operate.Namespace(f)
	if err != nil {
		return nil, err
	}
	return f.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, args...).ContinueOnError().Latest().Flatten().Do().Infos()
}

// answer is the output about one object.
type answer struct {
	Object  string   `json:"object"`
	Healthy bool     `json:"healthy"`
	Summary string   `json:"summary"`
	Causes  []entry  `json:"causes,omitempty"`
	Unread  []string `json:"unread,omitempty"`
}

// entry is a cause in the output.
type entry struct {
	Layer  string   `json:"layer"`
	Code   string   `json:"code"`
	Object string   `json:"object"`
	Path   string   `json:"path,omitempty"`
	Detail string   `json:"detail,omitempty"`
	Ends   string   `json:"endedBy,omitempty"`
	Pods   []string `json:"pods,omitempty"`
}

func (r *reader) answer(ctx context.Context, u *unstructured.Unstructured, clk clock.PassiveClock) *answer {
	facts, unread := r.facts(ctx, u, clk.Now())
	a := &answer{Object: strings.ToLower(u.GetKind()) + "/" + u.GetName(), Unread: unread}
	causes := cause.Of(facts)
	if a.Healthy = len(causes) == 0; a.Healthy {
		a.Summary = cause.Healthy(facts)
		return a
	}
	a.Summary = cause.Summary(facts)
	for _, c := range causes {
		a.Causes = append(a.Causes, entry{
			Layer: string(c.Layer), Code: string(c.Code), Object: c.Object.String(), Path: c.Path, Detail: c.Detail, Ends: c.Remedy, Pods: c.Pods,
		})
	}
	return a
}

// columns is the width of the text, for a terminal of 80 columns.
const columns = 79

// text renders the answer as a numbered list.
func (a *answer) text(wide bool) string {
	var b strings.Builder
	b.WriteString(wrap("", a.Summary))
	for i, c := range a.Causes {
		object := c.Object
		if len(c.Pods) > 1 {
			object = fmt.Sprintf("%s and %d more", object, len(c.Pods)-1)
		}
		fmt.Fprintf(&b, "%d. %s: %s, %s\n", i+1, c.Layer, c.Code, object)
		b.WriteString(wrap("   ", strings.TrimPrefix(c.Path+": "+c.Detail, ": ")))
		if c.Ends != "" {
			b.WriteString(wrap("   ends with: ", c.Ends))
		}
		if wide && len(c.Pods) > 1 {
			b.WriteString(wrap("   pods: ", strings.Join(c.Pods, " ")))
		}
	}
	for _, unread := range a.Unread {
		b.WriteString(wrap("not read: ", unread))
	}
	return b.String()
}

// wrap breaks a text into lines of at most columns characters. Further lines are indented by three more characters.
func wrap(head, text string) string {
	var b strings.Builder
	line := head
	for i, word := range strings.Fields(text) {
		if i > 0 && len(line)+1+len(word) > columns {
			b.WriteString(line + "\n")
			line = "     " + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}
