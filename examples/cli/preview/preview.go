// Package preview has the command "kubectl kruise preview", and the flag --preview of "kubectl kruise set".
//
// The command reads a copy of the cluster and never writes. Package foresee plays the change on the copy, and package
// forecast makes the report.
package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/cli/foresee"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/examples/cli/output"
)

// These are exit codes.
const (
	exitRefused = 2
	exitFailOn  = 3
	exitUnread  = 4
)

// options are the flags that both commands have.
type options struct {
	factory   cmdutil.Factory
	clock     clock.PassiveClock
	printer   output.Printer
	failOn    []string
	gates     []string
	namespace string // of the manager
}

// outcomes are the values of --fail-on.
func outcomes() []string { return []string{"recreate", "delete", "stop", "claims"} }

func (o *options) addFlags(cmd *cobra.Command, format bool) {
	flags := cmd.Flags()
	if format {
		o.printer.AddFlag(cmd, "Output format: json, yaml, name or wide (with the names of all Pods).")
	}
	flags.StringSliceVar(&o.failOn, "fail-on", nil, "Exit with code 3 if any of these would happen: recreate, delete, stop, claims.")
	flags.StringSliceVar(&o.gates, "feature-gates", nil, "Feature gates of the cluster's manager that differ from the defaults, as Name=true.")
	flags.StringVar(&o.namespace, "manager-namespace", "kruise-system", "Namespace of the cluster's manager.")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(outcomes(), cobra.ShellCompDirectiveNoFileComp)) // the flag is defined above
}

// NewCommand returns the command.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	o, files := &options{printer: output.Printer{Out: streams.Out}, factory: f, clock: clk}, resource.FilenameOptions{}
	cmd := &cobra.Command{
		Use:   "preview -f FILENAME",
		Short: "Say what applying a manifest would do to the Pods, before it is done",
		Long: "Say what applying a manifest would do: which Pods are updated in place, which are recreated and for which field, in which\n" +
			"batches, which claims come and go, what budgets let, where the rollout would stop and for what, and how long all of this\n" +
			"takes by the times measured in the statuses of the cluster's Pods.\n\n" +
			"The controllers and webhooks of apps.kruise.io run on a copy of the cluster's objects. Only rights to read are needed.\n\n" +
			"Exit codes: 0 the report is complete; 1 error; 2 a webhook refuses the change; 3 something named by --fail-on would happen;\n" +
			"4 with --fail-on stop: objects could not be read, so the rollout may stop although the report names no reason.",
		Example:           "  kubectl kruise preview -f web.yaml\n  kubectl kruise preview -f web.yaml --fail-on recreate,stop -o json\n  kubectl kruise set image cloneset/web app=app:v2 --preview",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmdutil.AddFilenameOptionFlags(cmd, &files, "with the objects as they would be applied.")
	o.addFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmdutil.IsFilenameSliceEmpty(files.Filenames, files.Kustomize) {
			return errors.New("a manifest is required: -f FILENAME")
		}
		namespace, enforce, err := operate.Namespace(f)
		if err != nil {
			return err
		}
		infos, err := f.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().FilenameParam(enforce, &files).
			ContinueOnError().Flatten().Do().Infos()
		if err != nil {
			return err
		}
		changes, err := changesOf(infos)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), changes)
	}
	return cmd
}

// changesOf returns the changes that a manifest makes to objects of kinds that can be previewed. The first change warns
// about all other objects of the manifest.
func changesOf(infos []*resource.Info) (out []change, err error) {
	var others []string
	for _, info := range infos {
		if kind := info.Mapping.GroupVersionKind; len(infos) > 1 && !foresee.Knows(kind.GroupKind()) {
			others = append(others, kind.Kind+" "+info.Name)
			continue
		}
		c, err := applied(info)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", info.ObjectName(), err)
		}
		out = append(out, c)
	}
	switch {
	case len(others) == 0:
	case len(out) == 0:
		return nil, fmt.Errorf("%s: %w", strings.Join(others, ", "), foresee.ErrUnknownKind)
	default:
		out[0].warnings = append(out[0].warnings, "not previewed: "+strings.Join(others, ", "))
	}
	return out, nil
}

// change is a changed object, with the stored object, which is nil if the object does not exist.
type change struct {
	changed, stored *unstructured.Unstructured
	warnings        []string
}

// run previews each change separately.
func (o *options) run(ctx context.Context, changes []change) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("the preview has taken %s: too much is in progress in the namespace", longest))
	defer cancel()
	refused, happened, unread := false, false, false
	for _, c := range changes {
		report, err := o.report(ctx, c)
		if err != nil {
			return fmt.Errorf("%s %s: %w", c.changed.GetKind(), c.changed.GetName(), cmp.Or(context.Cause(ctx), err))
		}
		if err := o.printer.Print(report, names(report), func(wide bool) string { return forecast.Text(report, wide) }); err != nil {
			return err
		}
		refused = refused || report.Refused != ""
		happened = happened || report.Refused == "" && happens(report, o.failOn)
		unread = unread || len(report.Unread) > 0 && slices.Contains(o.failOn, "stop")
	}
	switch {
	case refused:
		return &operate.Exit{Code: exitRefused}
	case happened:
		return &operate.Exit{Code: exitFailOn}
	case unread:
		return &operate.Exit{Code: exitUnread}
	}
	return nil
}

// longest is how long a preview may take. The limit is needed because the preview also plays the work in progress on
// all other objects in the namespace.
const longest = 5 * time.Minute

// report previews a change.
func (o *options) report(ctx context.Context, c change) (*forecast.Report, error) {
	gates, err := gatesOf(o.gates)
	if err != nil {
		return nil, err
	}
	for _, name := range o.failOn {
		if !slices.Contains(outcomes(), name) {
			return nil, fmt.Errorf("--fail-on: %q is not one of %s", name, strings.Join(outcomes(), ", "))
		}
	}
	r, err := newReader(o.factory, o.namespace)
	if err != nil {
		return nil, err
	}
	objects, err := r.read(ctx, c.changed)
	if err != nil {
		return nil, err
	}
	asked, err := r.webhooks(ctx)
	if err != nil {
		return nil, err
	}
	in, err := foresee.Play(ctx, foresee.Question{
		NoWebhooks: !asked,
		Objects:    objects, Changed: c.changed, Stored: c.stored, Now: o.clock.Now().Truncate(time.Second), Gates: gates,
		ManagerNamespace: o.namespace, Times: r.times(c.stored),
	})
	if refused, ok := errors.AsType[*foresee.Refused](err); ok {
		return &forecast.Report{Object: c.changed.GetKind() + " " + c.changed.GetName(), Refused: refused.Error(), Warnings: c.warnings}, nil
	}
	if err != nil {
		return nil, err
	}
	report := forecast.Of(in)
	report.Unread, report.Warnings = r.unread, slices.Concat(c.warnings, report.Warnings)
	return report, nil
}

// happens reports whether an outcome in failOn, the values of --fail-on, would happen.
func happens(r *forecast.Report, failOn []string) bool {
	return slices.ContainsFunc(failOn, func(name string) bool {
		switch name {
		case "recreate":
			return r.Count(forecast.Recreate) > 0
		case "delete":
			return r.Count(forecast.Delete) > 0
		case "stop":
			return len(r.Stops) > 0
		default:
			return len(r.Claims) > 0
		}
	})
}

func gatesOf(texts []string) (map[apps.Gate]bool, error) {
	out := map[apps.Gate]bool{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, known := apps.DefaultGates()[apps.Gate(name)]; !known || !ok || value != "true" && value != "false" {
			return nil, fmt.Errorf("--feature-gates: %q is not the name of a feature gate with =true or =false", text)
		}
		out[apps.Gate(name)] = value == "true"
	}
	return out, nil
}

// names returns a line for each Pod that is changed.
func names(r *forecast.Report) string {
	var b strings.Builder
	for i := range r.Pods {
		if p := &r.Pods[i]; p.Action != forecast.Keep {
			fmt.Fprintf(&b, "pod/%s %s\n", p.Name, p.Action)
		}
	}
	return b.String()
}
