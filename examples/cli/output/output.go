// Package output answers "how does a command print a report in the format that the user has chosen?"
package output

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Printer prints the reports of a command, one after the other. A Printer is not safe for concurrent use.
type Printer struct {
	Out io.Writer
	// Format is json, yaml, name, wide, or empty for text.
	Format string

	printed int
}

// AddFlag adds the flag of the format to a command, with completion.
func (p *Printer) AddFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVarP(&p.Format, "output", "o", "", help)
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", "name", "wide"}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
}

// Print prints a report: as a JSON or YAML document, as names, or as text. Messages in a text can come from
// containers, so control characters are escaped. Print returns an error if the format is unknown, or if the output
// cannot be written.
func (p *Printer) Print(report any, names string, text func(wide bool) string) error {
	var raw []byte
	var err error
	switch p.Format {
	case "json":
		raw, err = json.MarshalIndent(report, "", "    ")
		raw = append(raw, '\n')
	case "yaml":
		if raw, err = yaml.Marshal(report); p.printed > 0 {
			raw = append([]byte("---\n"), raw...)
		}
	case "name":
		raw = []byte(names)
	case "", "wide":
		return printers.WriteEscaped(p.Out, text(p.Format == "wide"))
	default:
		return fmt.Errorf("--output: %q is not json, yaml, name or wide", p.Format)
	}
	if err == nil {
		_, err = p.Out.Write(raw)
	}
	p.printed++
	return err
}
