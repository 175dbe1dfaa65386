// Package child answers the question: how do I run my manager, or another program, so that the program never outlives
// my test? A program that keeps running occupies ports and files, and disturbs later tests.
package child

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running program with all child processes, in a separate process group. Process is safe for concurrent
// use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done is closed
}

// Start starts the command. On Linux the kernel kills the program when this process dies; on other systems the program
// keeps running.
//
// The kernel binds the parent-death signal to the thread that forks, not to the process, so the goroutine that starts
// the program keeps its thread until the program has ended.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Run runs a command and waits for its end. If ctx ends first, Run interrupts the whole process group, because a
// command can have children: the go command, for example, starts compilers.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	p, err := Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.Stop(syscall.SIGINT, 5*time.Second)
		return errors.Join(context.Cause(ctx), p.err)
	}
}

// ID is the number of the program and of the process group.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended. Its child processes may still run.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns an *exec.ExitError if the program has failed or was ended by a signal. Err returns nil while the program
// runs.
func (p *Process) Err() error {
	if !p.Ended() {
		return nil
	}
	return p.err
}

// State returns a text about the end of the program, such as "exit status 0" or "signal: killed", or "running".
func (p *Process) State() string {
	if !p.Ended() {
		return "running"
	}
	return p.cmd.ProcessState.String()
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the whole process group.
func (p *Process) Signal(sig syscall.Signal) { _ = syscall.Kill(-p.ID(), sig) }

// Stop sends the signal to the whole process group, kills the processes that still run after the grace period, and
// returns when the program has ended.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) {
	if p.Ended() {
		return
	}
	p.Signal(sig)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
	// The program may have ended before the children.
	p.Signal(syscall.SIGKILL)
	<-p.done
}
