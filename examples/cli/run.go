package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/workloadkit/workloadkit/examples/cli/operate"
)

// warned is the error of --warnings-as-errors.
type warned struct{ count int }

func (w *warned) Error() string {
	if w.count == 1 {
		return "1 warning received"
	}
	return fmt.Sprintf("%d warnings received", w.count)
}

// Execute runs a command line and returns the exit code: 0, 1 for an error, or the code of the command. An error is
// printed to the error stream of the command. Commands of kubectl do not return errors, but end the process by the
// function set with cmdutil.BehaviorOnFatal.
func Execute(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	if exit, ok := errors.AsType[*operate.Exit](err); ok {
		code = exit.Code
		if exit.Err == nil {
			return code
		}
	}
	text := err.Error()
	if !strings.HasPrefix(text, "error: ") {
		text = "error: " + text
	}
	root.PrintErrln(text)
	return code
}
