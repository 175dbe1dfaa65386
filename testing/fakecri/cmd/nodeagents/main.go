// Command nodeagents runs a node agent for every simulated Node of a control plane, each with its own simulated
// container runtime behind CRI. The containers are derived from the Pods: see package podview.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

const usage = `nodeagents --kubeconfig FILE --dir DIR -- AGENT [ARGUMENTS]

Run AGENT once for every simulated Node, until interrupted, with NODE_NAME in its environment. The words {kubeconfig},
{socket} and {node} in ARGUMENTS stand for the file, for the socket of the Node's container runtime, and for the name of the
Node. Without ARGUMENTS the agent gets --kubeconfig={kubeconfig} --socket-file={socket} --addr= --metrics-addr=
DIR gets the sockets, and a log of each agent.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "nodeagents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("nodeagents", flag.ContinueOnError)
	flags.SetOutput(out)
	kubeconfig, dir := flags.String("kubeconfig", "", "`file` of the control plane (required)"), flags.String("dir", "", "`directory` for sockets and logs (required)")
	flags.Usage = func() { fmt.Fprint(out, usage); flags.PrintDefaults() }
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kubeconfig == "" || *dir == "" || flags.NArg() == 0 {
		return errors.New("--kubeconfig, --dir and an agent are required: see nodeagents --help")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %q: %w", *kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	view, err := podview.Start(ctx, client)
	if err != nil {
		return err
	}
	agents := &agents{view: view, kubeconfig: *kubeconfig, dir: *dir, command: flags.Args(), out: out, running: map[string]*agent{}}
	if len(agents.command) == 1 {
		agents.command = append(agents.command, "--kubeconfig={kubeconfig}", "--socket-file={socket}", "--addr=", "--metrics-addr=")
	}
	defer agents.stop()
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: agents.nodeCame, DeleteFunc: agents.nodeWent})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// simulated is the annotation of Nodes that kwok simulates.
const simulated = "kwok.x-k8s.io/node"

// agents are the agents of all Nodes.
type agents struct {
	view            *podview.View
	kubeconfig, dir string
	command         []string
	out             io.Writer

	mu      sync.Mutex
	running map[string]*agent
}

// agent is the agent of a Node, with the Node's container runtime.
type agent struct {
	runtime *fakecri.Server
	process *child.Process
	log     *os.File
}

func (a *agents) nodeCame(object any) {
	node, ok := object.(*corev1.Node)
	if !ok || node.Annotations[simulated] == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[node.Name] != nil {
		return
	}
	started, err := a.start(node.Name)
	if err != nil {
		_, _ = fmt.Fprintf(a.out, "Node %s has no agent: %v\n", node.Name, err)
		return
	}
	a.running[node.Name] = started
	_, _ = fmt.Fprintf(a.out, "Node %s has an agent: see %s\n", node.Name, started.log.Name())
}

func (a *agents) nodeWent(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if running := a.running[node.Name]; running != nil {
		delete(a.running, node.Name)
		running.stop()
	}
}

// start starts the container runtime of a Node, and then the agent.
func (a *agents) start(node string) (*agent, error) {
	socket := filepath.Join(a.dir, node+".sock")
	runtime, err := fakecri.Start(fakecri.Options{Machine: a.view.Node(node), Name: podview.Runtime, Socket: socket})
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(a.dir, node+".log"))
	if err != nil {
		runtime.Stop()
		return nil, err
	}
	command := a.commandFor(node, socket)
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // stop ends the whole process group
	cmd.Env = append(os.Environ(), "NODE_NAME="+node)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd)
	if err != nil {
		runtime.Stop()
		return nil, errors.Join(err, log.Close())
	}
	return &agent{runtime: runtime, process: process, log: log}, nil
}

func (a *agents) commandFor(node, socket string) []string {
	out := make([]string, len(a.command))
	for i, word := range a.command {
		out[i] = strings.NewReplacer("{kubeconfig}", a.kubeconfig, "{socket}", socket, "{node}", node).Replace(word)
	}
	return out
}

// grace is how long an agent may take to end after the signal, before it is killed.
const grace = 10 * time.Second

func (a *agent) stop() {
	a.process.Stop(syscall.SIGTERM, grace)
	a.runtime.Stop()
	_ = a.log.Close()
}

// stop ends all agents at the same time.
func (a *agents) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all sync.WaitGroup
	for _, running := range a.running {
		all.Go(running.stop)
	}
	all.Wait()
}
