package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

// processes runs each agent as a separate process with its own watches. The simulated runtimes run in the process of
// the bench.
type processes struct {
	dir       string
	runtimes  []*fakecri.Server
	processes []*child.Process
	// urls contains the URLs of the agents' metrics, and health contains the URLs of their health checks.
	urls, health []string
}

func startProcesses(ctx context.Context, b *agentBench) (agents, error) {
	dir, err := os.MkdirTemp("", "agents-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	p := &processes{dir: dir}
	command, err := locate(b.o.agent)
	for i := 0; i < b.o.nodes && err == nil; i++ {
		err = p.add(b, command, nodeName(i))
	}
	if err == nil {
		err = p.untilHealthy(ctx)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// add starts the runtime and the agent of a Node.
func (p *processes) add(b *agentBench, command, node string) error {
	socket := filepath.Join(p.dir, node+".sock")
	server, err := fakecri.Start(fakecri.Options{Machine: b.view.Node(node), Name: podview.Runtime, Socket: socket})
	if err != nil {
		return err
	}
	p.runtimes = append(p.runtimes, server)
	// The connections of hundreds of agents use the free ports of 127.0.0.1, so the agents' servers get other loopback
	// addresses.
	n := len(p.runtimes)
	host := fmt.Sprintf("127.1.%d.%d", n/250, n%250+1)
	health, metrics := host+":10221", host+":10223"
	log, err := os.Create(filepath.Join(p.dir, node+".log"))
	if err != nil {
		return fmt.Errorf("creating the agent's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	//nolint:noctx // stop ends the whole process group; a context would kill its leader alone.
	cmd := exec.Command(command, "--kubeconfig="+b.Plane.Kubeconfig(), "--socket-file="+socket, "--addr="+health, "--metrics-addr="+metrics)
	cmd.Env = append(os.Environ(), "NODE_NAME="+node)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("starting the agent of %s: %w", node, err)
	}
	p.processes = append(p.processes, process)
	p.health, p.urls = append(p.health, "http://"+health+"/healthz"), append(p.urls, "http://"+metrics+"/metrics")
	return nil
}

// untilHealthy waits until each agent has listed its Pods and requests, and has connected to its runtime.
func (p *processes) untilHealthy(ctx context.Context) error {
	waits := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		for i, process := range p.processes {
			if process.Ended() {
				return false, fmt.Errorf("the agent of %s has ended: %s", nodeName(i), child.EndOfLog(filepath.Join(p.dir, nodeName(i)+".log")))
			}
			if text, err := bodyOf(ctx, p.health[i]); err != nil || string(text) != "ok" {
				waits = fmt.Sprintf("the agent of %s: %v %s", nodeName(i), err, text)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", waits, err)
	}
	return nil
}

func (p *processes) metrics() []string { return p.urls }

func (p *processes) connections() (n int) {
	for _, server := range p.runtimes {
		n += server.Connections()
	}
	return n
}

func (p *processes) stop() {
	var all sync.WaitGroup
	for _, process := range p.processes {
		all.Go(func() { process.Stop(syscall.SIGTERM, 10*time.Second) })
	}
	all.Wait()
	for _, server := range p.runtimes {
		server.Stop()
	}
	_ = os.RemoveAll(p.dir)
}
