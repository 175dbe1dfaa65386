// Package program answers the question: what does a program in a simulated container do? A small interpreter
// implements sleep, exit, true, false, echo, env, ls, and sh -c with a script of these commands and ";", "&&" and
// "||".
package program

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

const (
	codeUsage   = 2
	codeUnknown = 127
)

// Result is the result of a program that has ended.
type Result struct {
	Out, ErrOut []byte
	Code        int32
}

// Run runs a program with the environment of a container. For an unknown program, Run returns an error as a container
// runtime does; within a script, the exit code is 127 as in a shell. If ctx ends, the program ends with an error.
func Run(ctx context.Context, argv []string, env []fakecri.Variable) (Result, error) {
	if len(argv) == 0 {
		return Result{}, fmt.Errorf("start a program: the command is empty")
	}
	r := &run{env: env}
	known, err := r.command(ctx, argv)
	if err != nil {
		return Result{}, err
	}
	if !known {
		return Result{}, fmt.Errorf("exec: %q: executable file not found in $PATH", argv[0])
	}
	return Result{Out: []byte(r.out.String()), ErrOut: []byte(r.errOut.String()), Code: r.code}, nil
}

// run is a running program.
type run struct {
	env         []fakecri.Variable
	out, errOut strings.Builder
	code        int32
	over        bool // set by the command exit
}

// command runs a command, and reports whether the command is known.
func (r *run) command(ctx context.Context, argv []string) (known bool, err error) {
	r.code = 0
	switch path.Base(argv[0]) {
	case "true":
	case "false":
		r.code = 1
	case "echo":
		r.out.WriteString(strings.Join(argv[1:], " ") + "\n")
	case "env":
		for _, v := range r.env {
			r.out.WriteString(v.Name + "=" + v.Value + "\n")
		}
	case "ls":
		r.out.WriteString("bin\netc\nproc\ntmp\n")
	case "exit":
		r.exit(argv[1:])
	case "sleep":
		return true, r.sleep(ctx, argv[1:])
	case "sh", "bash":
		return true, r.shell(ctx, argv[1:])
	default:
		return false, nil
	}
	return true, nil
}

func (r *run) failf(code int32, format string, args ...any) {
	r.code = code
	r.errOut.WriteString(fmt.Sprintf(format, args...) + "\n")
}

func (r *run) exit(args []string) {
	r.over = true
	if len(args) == 0 {
		return
	}
	code, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		r.failf(codeUsage, "exit: illegal number: %s", args[0])
		return
	}
	r.code = int32(code)
}

func (r *run) sleep(ctx context.Context, args []string) error {
	if len(args) == 0 {
		r.failf(1, "sleep: missing operand")
		return nil
	}
	if seconds, ok := number(strings.TrimSuffix(args[0], "s")); ok {
		return sleep.For(ctx, time.Duration(seconds*float64(time.Second)))
	}
	r.failf(1, "sleep: invalid time interval '%s'", args[0])
	return nil
}

// number parses a number that is not negative.
func number(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0
}

func (r *run) shell(ctx context.Context, args []string) error {
	if len(args) < 2 || args[0] != "-c" {
		r.failf(codeUsage, "sh: only -c SCRIPT is known")
		return nil
	}
	for rest, skipped := args[1], ""; rest != "" && !r.over; {
		var text, joint string
		text, joint, rest = first(rest)
		words := strings.Fields(strings.NewReplacer(`"`, "", "'", "").Replace(text))
		if len(words) > 0 && (skipped == "" || skipped == "&&" && r.code == 0 || skipped == "||" && r.code != 0) {
			known, err := r.command(ctx, words)
			if err != nil {
				return err
			}
			if !known {
				r.failf(codeUnknown, "sh: 1: %s: not found", words[0])
			}
		}
		skipped = joint
		if joint == ";" || joint == "\n" {
			skipped = ""
		}
	}
	return nil
}

// first splits a script into its first command (text), the operator after the command (joint), and the rest.
func first(script string) (text, joint, rest string) {
	at := len(script)
	for _, j := range []string{";", "\n", "&&", "||"} {
		if i := strings.Index(script, j); i >= 0 && i < at {
			at, joint = i, j
		}
	}
	return script[:at], joint, script[min(at+len(joint), len(script)):]
}
