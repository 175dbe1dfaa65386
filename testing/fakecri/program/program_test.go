package program_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/program"
)

func TestRun(t *testing.T) {
	type outcome struct {
		Out, ErrOut string
		Code        int32
		Failed      bool
		Took        time.Duration
	}
	env := []fakecri.Variable{{Name: "A", Value: "1"}, {Name: "B", Value: "2 3"}}
	for _, tt := range []struct {
		name string
		argv []string
		want outcome
	}{
		{"nothing", nil, outcome{Failed: true}},
		{"true", []string{"/bin/true"}, outcome{}},
		{"false", []string{"false"}, outcome{Code: 1}},
		{"env", []string{"env"}, outcome{Out: "A=1\nB=2 3\n"}},
		{"ls", []string{"ls", "/"}, outcome{Out: "bin\netc\nproc\ntmp\n"}},
		{"echo", []string{"echo", "a", "b"}, outcome{Out: "a b\n"}},
		{"exit", []string{"exit", "7"}, outcome{Code: 7}},
		{"exit without a code", []string{"exit"}, outcome{}},
		{"exit with nonsense", []string{"exit", "x"}, outcome{Code: 2, ErrOut: "exit: illegal number: x\n"}},
		{"sleep", []string{"sleep", "2.5"}, outcome{Took: 2500 * time.Millisecond}},
		{"sleep with a unit", []string{"sleep", "3s"}, outcome{Took: 3 * time.Second}},
		{"sleep without a time", []string{"sleep"}, outcome{Code: 1, ErrOut: "sleep: missing operand\n"}},
		{"sleep with nonsense", []string{"sleep", "-1"}, outcome{Code: 1, ErrOut: "sleep: invalid time interval '-1'\n"}},
		{"an unknown program", []string{"curl"}, outcome{Failed: true}},
		{"beyond the patience", []string{"sleep", "3600"}, outcome{Failed: true, Took: time.Minute}},
		{"a script", []string{"/bin/sh", "-c", "sleep 1; echo \"a b\"; exit 3; echo c"}, outcome{Out: "a b\n", Code: 3, Took: time.Second}},
		{"a script with an unknown program", []string{"sh", "-c", "curl x"}, outcome{Code: 127, ErrOut: "sh: 1: curl: not found\n"}},
		{"a script that goes on", []string{"sh", "-c", "curl x\ntrue"}, outcome{ErrOut: "sh: 1: curl: not found\n"}},
		{"and", []string{"sh", "-c", "true && exit 4"}, outcome{Code: 4}},
		{"not and", []string{"sh", "-c", "false && echo a"}, outcome{Code: 1}},
		{"or", []string{"sh", "-c", "false || echo a"}, outcome{Out: "a\n"}},
		{"not or", []string{"sh", "-c", "true || exit 5"}, outcome{}},
		{"a shell without a script", []string{"sh"}, outcome{Code: 2, ErrOut: "sh: only -c SCRIPT is known\n"}},
		{"a script within a script", []string{"sh", "-c", "sh -c false"}, outcome{Code: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				result, err := program.Run(ctx, tt.argv, env)
				got := outcome{string(result.Out), string(result.ErrOut), result.Code, err != nil, time.Since(began)}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("outcome (-want +got):\n%s\nerror: %v", diff, err)
				}
			})
		})
	}
}

func TestRunSaysWhy(t *testing.T) {
	if _, err := program.Run(t.Context(), []string{"curl"}, nil); err == nil || !strings.Contains(err.Error(), `"curl": executable file not found`) {
		t.Errorf("an unknown program: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := program.Run(ctx, []string{"sh", "-c", "sleep 5"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a script cut short: error %v, want %v", err, context.Canceled)
	}
}
