package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/internal/served"
)

// Where Pods are created: the webhook is not asked about those in a namespace with the label control-plane.
const (
	spared = "spared"
	asked  = "asked"
)

// admissionOptions are the command line of "bench admission".
type admissionOptions struct {
	manager        string
	sets, matching int
	rate, parallel int
	lasts          time.Duration
}

// burst is what a number of creations cost.
type burst struct {
	name, namespace string
	latencies       []time.Duration // sorted
	failed          []error
	// byServer and byManager is how long the webhook took, as the API server and the manager see it.
	byServer, byManager histogram
	cpu                 float64 // seconds of the manager
}

// admissionCommand creates Pods at a rate, and then many at once, with the webhook of Pods and without, and says how long that took.
func admissionCommand(ctx context.Context, args []string, out, log io.Writer) (err error) {
	var o admissionOptions
	flags := flag.NewFlagSet("bench admission", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.manager, "manager", "bin/kruise-manager", "manager to measure")
	managerArgs := flags.String("manager-args", "", "further arguments of the manager, separated by spaces")
	flags.IntVar(&o.sets, "sets", 1000, "SidecarSets in all")
	flags.IntVar(&o.matching, "matching", 3, "SidecarSets that match the Pods")
	flags.IntVar(&o.rate, "rate", 200, "Pods to create in a second")
	flags.DurationVar(&o.lasts, "for", 30*time.Second, "for how long")
	flags.IntVar(&o.parallel, "parallel", 1000, "Pods to create at once afterwards")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.matching < 0 || o.sets < o.matching || o.rate < 1 || o.parallel < 1 || o.lasts < time.Second {
		return fmt.Errorf("--sets %d, --matching %d, --rate %d, --parallel %d, --for %v: want matching sets among all, and at least 1, 1 and 1s",
			o.sets, o.matching, o.rate, o.parallel, o.lasts)
	}
	if o.manager, err = locate(o.manager); err != nil {
		return err
	}
	c, err := served.Start(ctx, served.Options{Manager: o.manager, Args: strings.Fields(*managerArgs), Nodes: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	loads, err := measureAdmission(ctx, c, o, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Pod admission with %d SidecarSets of which %d match\n\n", o.sets, o.matching)
	printLoads(out, loads)
	return nil
}

// measureAdmission runs the loads: first a small one that is not shown, because connections are opened and caches filled by it.
func measureAdmission(ctx context.Context, c *served.Cluster, o admissionOptions, log io.Writer) ([]burst, error) {
	for name, labels := range map[string]map[string]string{spared: {"control-plane": spared}, asked: nil} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			return nil, fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	for i := range o.sets {
		if err := c.Create(ctx, loadSet(i, i < o.matching)); err != nil {
			return nil, fmt.Errorf("SidecarSet %d: %w", i, err)
		}
	}
	g, err := newGenerator(c)
	if err != nil {
		return nil, err
	}
	var out []burst
	for _, l := range []struct {
		name string
		do   func(context.Context, string) ([]time.Duration, []error)
	}{
		{"", func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atOnce(ctx, namespace, min(100, o.parallel))
		}},
		{fmt.Sprintf("%d a second for %v", o.rate, o.lasts), func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atRate(ctx, namespace, o.rate, o.lasts)
		}},
		{fmt.Sprintf("%d at once", o.parallel), func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atOnce(ctx, namespace, o.parallel)
		}},
	} {
		for _, namespace := range []string{spared, asked} {
			fmt.Fprintf(log, "== %s: namespace %s\n", cmp.Or(l.name, "the first Pods"), namespace)
			measured, err := g.measure(ctx, l.name, namespace, l.do)
			if err != nil {
				return nil, err
			}
			if l.name != "" {
				out = append(out, measured)
			}
		}
	}
	return out, g.checkInjected(ctx, o.matching)
}

// loadSet injects one small container.
func loadSet(i int, matches bool) *v1beta1.SidecarSet {
	app := "load"
	if !matches {
		app = "other-" + strconv.Itoa(i)
	}
	name := "sidecar-" + strconv.Itoa(i)
	return &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.SidecarSetSpec{
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Containers: []pub.SidecarContainer{{Container: corev1.Container{Name: name, Image: "example.test/sidecar:v1"}}},
		},
	}
}

// generator creates Pods, with a client that does not hold itself back. Nobody schedules them.
type generator struct {
	cluster *served.Cluster
	clients *kubernetes.Clientset
}

func newGenerator(c *served.Cluster) (*generator, error) {
	config := rest.CopyConfig(c.Plane.Config())
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	return &generator{c, clients}, err
}

func (g *generator) create(ctx context.Context, namespace string) (time.Duration, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "load-", Labels: map[string]string{"app": "load"}},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	began := time.Now()
	_, err := g.clients.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return time.Since(began), err
}

// atOnce creates n Pods, all of them at the same time.
func (g *generator) atOnce(ctx context.Context, namespace string, n int) ([]time.Duration, []error) {
	latencies, errs := make([]time.Duration, n), make([]error, n)
	workqueue.ParallelizeUntil(ctx, n, n, func(i int) { latencies[i], errs[i] = g.create(ctx, namespace) })
	return latencies, errs
}

// atRate begins a creation whenever its time has come, whatever became of those before.
func (g *generator) atRate(ctx context.Context, namespace string, rate int, lasts time.Duration) ([]time.Duration, []error) {
	n := rate * int(lasts/time.Second)
	latencies, errs := make([]time.Duration, n), make([]error, n)
	ticks := time.NewTicker(time.Second / time.Duration(rate))
	defer ticks.Stop()
	var group sync.WaitGroup
	for i := range n {
		select {
		case <-ctx.Done():
			errs[i] = ctx.Err()
			continue
		case <-ticks.C:
		}
		group.Go(func() { latencies[i], errs[i] = g.create(ctx, namespace) })
	}
	group.Wait()
	return latencies, errs
}

func (g *generator) measure(
	ctx context.Context, name, namespace string, do func(context.Context, string) ([]time.Duration, []error),
) (l burst, err error) {
	l = burst{name: name, namespace: namespace}
	cpu, err := g.cluster.CPU()
	if err != nil {
		return l, err
	}
	serverBefore, managerBefore, err := g.calls(ctx)
	if err != nil {
		return l, err
	}
	var errs []error
	l.latencies, errs = do(ctx, namespace)
	l.failed = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.Sort(l.latencies)
	server, manager, err := g.calls(ctx)
	l.byServer, l.byManager = server.since(serverBefore), manager.since(managerBefore)
	now, cpuErr := g.cluster.CPU()
	l.cpu = now - cpu
	return l, errors.Join(err, cpuErr, ctx.Err())
}

// checkInjected makes sure that what was measured is injection.
func (g *generator) checkInjected(ctx context.Context, matching int) error {
	pods := &corev1.PodList{}
	if err := g.cluster.List(ctx, pods, client.InNamespace(asked)); err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; len(pod.Spec.Containers) != 1+matching {
			return fmt.Errorf("Pod %s has %d containers, want its own and %d sidecars", pod.Name, len(pod.Spec.Containers), matching)
		}
	}
	return nil
}

func printLoads(out io.Writer, loads []burst) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "load\twebhook\tPods\tfailed\tp50 ms\tp99 ms\tmax ms\twebhook ms: mean (half) for the API server\tfor the manager\tCPU ms a Pod of the manager")
	for _, l := range loads {
		at := func(share float64) string { return milliseconds(l.latencies[int(share*float64(len(l.latencies)-1))]) }
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%.2f\n", l.name, l.namespace, len(l.latencies), len(l.failed), at(0.5), at(0.99), at(1),
			l.byServer, l.byManager, l.cpu*1000/float64(len(l.latencies)))
	}
	_ = w.Flush()
	for _, l := range loads {
		if len(l.failed) > 0 {
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", l.name, l.namespace, l.failed[0])
		}
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}
