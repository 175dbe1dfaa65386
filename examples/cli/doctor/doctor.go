// Package doctor has the command "kubectl kruise doctor": the package reads the objects by which package checkup finds
// faults of an installation.
package doctor

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/checkup"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/reason"
)

// NewCommand returns the command. The exit code is 1 for an installation with findings.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the installation, with a remedy for each finding",
		Long: "Look at certificates and bundles, webhooks that nobody serves, CRDs and stored versions, gates against CRDs, node agents and\n" +
			"the manager's rights. The exit code is 1 for an installation with findings.",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: json, yaml, name (the codes) or wide.")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", "name", "wide"}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := newReader(f)
		if err != nil {
			return err
		}
		report := &report{}
		found := checkup.Of(r.facts(cmd.Context(), clk.Now()))
		report.add(found)
		report.Unread = r.unread
		if err := report.print(streams.Out, output); err != nil || len(found) == 0 {
			return err
		}
		return &operate.Exit{Code: 1}
	}
	return cmd
}

// report is what the command prints.
type report struct {
	Findings []finding `json:"findings"`
	Unread   []string  `json:"unread,omitempty"`
}

// finding is a finding as printed.
type finding struct {
	Code   string `json:"code"`
	Object string `json:"object,omitempty"`
	Path   string `json:"path,omitempty"`
	Found  string `json:"found,omitempty"`
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func (r *report) add(list reason.List) {
	r.Findings = []finding{}
	for _, why := range list {
		value := why.New
		if why.Old != "" {
			value = why.Old + " -> " + why.New
		}
		r.Findings = append(r.Findings, finding{string(why.Code), why.Object.String(), why.Path, value, why.Detail, why.Remedy})
	}
}

func (r *report) print(out io.Writer, format string) (err error) {
	var raw []byte
	switch format {
	case "json":
		raw, err = json.MarshalIndent(r, "", "    ")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yaml.Marshal(r)
	case "name":
		for _, f := range r.Findings {
			raw = fmt.Appendln(raw, f.Code)
		}
	case "", "wide":
		raw = r.text()
	default:
		return fmt.Errorf("--output: %q is not json, yaml, name or wide", format)
	}
	if err == nil {
		_, err = out.Write(raw)
	}
	return err
}

func (r *report) text() (raw []byte) {
	if len(r.Findings) == 0 {
		raw = fmt.Appendln(raw, "no findings")
	}
	for i, f := range r.Findings {
		raw = fmt.Appendf(raw, "%d. %s", i+1, f.Code)
		if f.Object != "" {
			raw = fmt.Appendf(raw, ", %s", f.Object)
		}
		raw = fmt.Appendln(raw)
		for _, line := range [][2]string{{"at: ", f.Path}, {"found: ", f.Found}, {"", f.Detail}, {"remedy: ", f.Remedy}} {
			if line[1] != "" {
				raw = fmt.Appendf(raw, "   %s%s\n", line[0], line[1])
			}
		}
	}
	for _, unread := range r.Unread {
		raw = fmt.Appendf(raw, "not read: %s\n", unread)
	}
	return raw
}
