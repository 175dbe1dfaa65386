package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// unused is a flag of klog that has no effect in this manager: such flags say where klog writes lines, or how a line
// begins. This manager always writes log lines to standard error in a format of its own, but must accept command
// lines that were written for other managers. The value is validated, and then ignored.
type unused struct {
	kind, text string
	check      func(string) error
}

// String returns the value as given on the command line.
func (u *unused) String() string { return u.text }

// Type returns the name of the value's type, for the help.
func (u *unused) Type() string { return u.kind }

// Set validates and stores the value.
func (u *unused) Set(text string) error {
	u.text = text
	return u.check(text)
}

// addKlog adds the flags of klog, except v and vmodule. The flags v and vmodule come from the logging configuration.
func addKlog(fs *pflag.FlagSet) {
	add := func(kind, whenBare string, check func(string) error, names ...string) {
		for _, name := range names {
			f := fs.VarPF(&unused{kind: kind, check: check}, name, "", "has no effect: logs go to standard error")
			f.NoOptDefVal, f.Hidden = whenBare, true
		}
	}
	add("bool", "true", isBool, "logtostderr", "alsologtostderr", "legacy_stderr_threshold_behavior", "add_dir_header", "skip_headers",
		"one_output", "skip_log_headers")
	add("string", "", func(string) error { return nil }, "log_dir", "log_file")
	add("uint", "", isUint, "log_file_max_size")
	add("severity", "", isSeverity, "stderrthreshold", "alsologtostderrthreshold")
	add("file:line", "", isPlace, "log_backtrace_at")
}

func isBool(text string) error {
	_, err := strconv.ParseBool(text)
	return err
}

func isUint(text string) error {
	_, err := strconv.ParseUint(text, 10, 64)
	return err
}

func isSeverity(text string) error {
	if slices.Contains([]string{"INFO", "WARNING", "ERROR", "FATAL"}, strings.ToUpper(text)) {
		return nil
	}
	if _, err := strconv.ParseInt(text, 10, 32); err != nil {
		return fmt.Errorf("%q is neither INFO, WARNING, ERROR, FATAL nor a number", text)
	}
	return nil
}

func isPlace(text string) error {
	if text != "" && !regexp.MustCompile(`^[^:]+:[1-9][0-9]*$`).MatchString(text) {
		return fmt.Errorf("%q is not a file and a line, such as main.go:7", text)
	}
	return nil
}

// twoDashes adds a second dash to flags of klog that were written with a single dash, as Go's package flag allows.
// Otherwise pflag would parse the name as a series of one-letter flags.
func twoDashes(args []string) []string {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	addKlog(fs)
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if name = strings.ReplaceAll(name, "-", "_"); strings.HasPrefix(arg, "-") && (name == "vmodule" || fs.Lookup(name) != nil) {
			out[i] = "-" + arg
		}
	}
	return out
}
