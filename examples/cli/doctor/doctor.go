// Package doctor has the command "kubectl kruise doctor". The package reads the objects of an installation, and
// package checkup finds the problems.
package doctor

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli/checkup"
	"github.com/workloadkit/workloadkit/examples/cli/operate"
	"github.com/workloadkit/workloadkit/examples/cli/output"
	"github.com/workloadkit/workloadkit/reason"
)

// NewCommand returns the command. The exit code is 1 for an installation with findings.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	printer := &output.Printer{Out: streams.Out}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the installation, with a remedy for each finding",
		Long: "Look at certificates and bundles, webhooks that nobody serves, CRDs and stored versions, gates against CRDs, node agents and\n" +
			"the manager's rights. The exit code is 1 for an installation with findings.",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	printer.AddFlag(cmd, "Output format: json, yaml, name (the codes) or wide.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := newReader(f)
		if err != nil {
			return err
		}
		report := &report{}
		found := checkup.Of(r.facts(cmd.Context(), clk.Now()))
		report.add(found)
		report.Unread = r.unread
		if err := printer.Print(report, report.codes(), report.text); err != nil || len(found) == 0 {
			return err
		}
		return &operate.Exit{Code: 1}
	}
	return cmd
}

// report is the output of the command.
type report struct {
	Findings []finding `json:"findings"`
	Unread   []string  `json:"unread,omitempty"`
}

// finding is a finding in the output.
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

func (r *report) codes() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f.Code)
	}
	return b.String()
}

func (r *report) text(bool) string {
	var raw []byte
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
	return string(raw)
}
