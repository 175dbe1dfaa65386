package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/internal/served"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

// agentsOptions are the options of "bench agents".
type agentsOptions struct {
	manager, agent      string
	nodes, pods, atOnce int
	idle                time.Duration
}

// agentsCommand runs the node agents of many Nodes, and restarts a container of each Pod with a
// ContainerRecreateRequest. The command prints the CPU time, memory and requests of the agents, the manager and the
// API server, both without work and during the restarts.
func agentsCommand(ctx context.Context, args []string, out, log io.Writer) error {
	var o agentsOptions
	flags := flag.NewFlagSet("bench agents", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.manager, "manager", "bin/kruise-manager", "manager to measure")
	managerArgs := flags.String("manager-args", "", "further arguments of the manager, separated by spaces")
	flags.StringVar(&o.agent, "agent", "", "agent to run as a process for each Node, with the flags of kruise-daemon; empty for the agents of all Nodes in this process, on a watch for all")
	flags.IntVar(&o.nodes, "nodes", 100, "simulated Nodes")
	flags.IntVar(&o.pods, "pods", 0, "Pods, spread over the Nodes; 0 for a Pod on each Node")
	flags.IntVar(&o.atOnce, "at-once", 500, "requests at a time")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "how long each part without requests lasts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.pods == 0 {
		o.pods = o.nodes
	}
	if o.nodes < 1 || o.pods < o.nodes || o.atOnce < 1 || o.idle < time.Second {
		return fmt.Errorf("--nodes %d, --pods %d, --at-once %d, --idle %v: want positive numbers, a Pod for each Node, and a second", o.nodes, o.pods, o.atOnce, o.idle)
	}
	var parts []part
	// With the usual lease duration, the Nodes would renew hundreds of leases each second.
	lease := min(max(40*time.Second, time.Duration(o.nodes)*40*time.Millisecond), 4*time.Minute)
	options := served.Options{Manager: o.manager, Args: strings.Fields(*managerArgs), Nodes: controlplane.NoNodes, LeaseDuration: lease, AuditLog: true}
	err := onCluster(ctx, options, func(c *served.Cluster) (err error) {
		parts, err = measureAgents(ctx, c, o, log)
		return err
	})
	printParts(out, o, parts)
	return err
}

// agentBench is a cluster with Pods on simulated Nodes.
type agentBench struct {
	*served.Cluster

	o       agentsOptions
	log     io.Writer
	clients *kubernetes.Clientset
	pods    cache.SharedIndexInformer
	view    *podview.View // the containers of all Nodes
	agents  agents        // nil before their start
	offset  int64         // in the audit log
}

// agents are the agents of all Nodes.
type agents interface {
	// metrics returns the URLs of the agents' metrics.
	metrics() []string
	// connections returns the number of connections to container runtimes.
	connections() int
	// stop ends all agents.
	stop()
}

// measureAgents returns the measurements of the parts of a run. After an error, measureAgents returns the parts
// before the error.
func measureAgents(ctx context.Context, c *served.Cluster, o agentsOptions, log io.Writer) (parts []part, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &agentBench{Cluster: c, o: o, log: log}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if b.agents != nil {
			b.agents.stop()
		}
	}()
	for _, p := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"no agents", b.rest},
		{"agents start", b.start},
		{"agents idle", b.rest},
		{"a change of each Pod", b.annotate},
		{"a restart in each Pod", b.restart},
		{"agents idle again", b.rest},
	} {
		fmt.Fprintf(log, "== %s\n", p.name)
		measured, err := b.measure(ctx, p.name, p.do)
		if err != nil {
			return parts, fmt.Errorf("%s: %w", p.name, err)
		}
		parts = append(parts, measured)
	}
	return parts, b.checkRestarts(ctx)
}

const agentsNamespace = "agents"

// sideBySide is the number of concurrent requests that the bench command sends.
const sideBySide = 32

// prepare creates Nodes and Pods, and returns when all Pods are ready.
func (b *agentBench) prepare(ctx context.Context) (err error) {
	config := rest.CopyConfig(b.Plane.Config())
	config.QPS = -1
	if b.clients, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentsNamespace}}
	if _, err := b.clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(b.clients, 0, informers.WithNamespace(agentsNamespace))
	b.pods = factory.Core().V1().Pods().Informer()
	if b.view, err = podview.New(b.clients, b.pods); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	fmt.Fprintf(b.log, "== %d Nodes and %d Pods\n", b.o.nodes, b.o.pods)
	if err := inParallel(ctx, b.o.nodes, func(i int) error {
		_, err := b.clients.CoreV1().Nodes().Create(ctx, controlplane.NewNode(nodeName(i)), metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("creating Nodes: %w", err)
	}
	if err := inParallel(ctx, b.o.pods, func(i int) error {
		_, err := b.clients.CoreV1().Pods(agentsNamespace).Create(ctx, podOn(i, b.o.nodes), metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("creating Pods: %w", err)
	}
	return b.untilReady(ctx)
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }
func podName(i int) string  { return fmt.Sprintf("web-%04d", i) }

// podOn returns a Pod that tolerates Nodes that have not become ready yet.
func podOn(i, nodes int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentsNamespace, Name: podName(i), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: nodeName(i % nodes), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "app", Image: "example.test/app:v1"}, {Name: "log", Image: "example.test/log:v1"}},
		},
	}
}

func inParallel(ctx context.Context, n int, do func(i int) error) error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, sideBySide, n, func(i int) { errs[i] = do(i) })
	return errors.Join(errors.Join(errs...), ctx.Err())
}
