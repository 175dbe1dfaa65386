package child_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/testing/child"
)

func TestRunStopsGrandchildren(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	cmd.Stdout = in
	done := make(chan error, 1)
	go func() { done <- child.Run(ctx, cmd) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	_ = in.Close()
	// The pipe is closed when the last process that could write has ended.
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("process %s is alive: read: %v", strings.TrimSpace(line), err)
	}
}

func TestHowAProgramEnded(t *testing.T) {
	t.Parallel()
	p, err := child.Start(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Ended() || p.Err() != nil || p.State() != "running" {
		t.Errorf("a program that runs has ended: %v, %v, %s", p.Ended(), p.Err(), p.State())
	}
	p.Stop(syscall.SIGTERM, time.Minute)
	exit := new(exec.ExitError)
	if !p.Ended() || !errors.As(p.Err(), &exit) || p.State() != "signal: terminated" {
		t.Errorf("a program that was asked to end: %v, %v, %s", p.Ended(), p.Err(), p.State())
	}
	p.Stop(syscall.SIGTERM, time.Minute) // the program has ended already, so Stop does nothing
	if _, err := child.Start(exec.Command("/does/not/exist")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}
