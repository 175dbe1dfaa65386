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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/internal/served"
)

// These are the two namespaces in which Pods are created. The API server does not call the webhook for Pods in the
// namespace spared, because this namespace has the label control-plane.
const (
	spared = "spared"
	asked  = "asked"
)

// admissionOptions are the options of the command "bench admission".
type admissionOptions struct {
	manager        string
	sets, matching int
	budgets        int
	rate, parallel int
	lasts          time.Duration
}

// burst is the measured cost of creating or deleting a number of Pods.
type burst struct {
	name, namespace string
	latencies       []time.Duration // sorted
	failed          []error
	// byServer and byManager contain the durations of webhook calls, as measured by the API server and by the manager.
	byServer, byManager histogram
	cpu                 float64 // CPU seconds of the manager
}

// admissionCommand creates Pods with and without the Pod webhook, first at a fixed rate and then many at the same
// time, and prints the durations.
func admissionCommand(ctx context.Context, args []string, out, log io.Writer) error {
	var o admissionOptions
	flags := flag.NewFlagSet("bench admission", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.manager, "manager", "bin/kruise-manager", "manager to measure")
	managerArgs := flags.String("manager-args", "", "further arguments of the manager, separated by spaces")
	flags.IntVar(&o.sets, "sets", 1000, "SidecarSets in all")
	flags.IntVar(&o.matching, "matching", 3, "SidecarSets that match the Pods")
	flags.IntVar(&o.budgets, "budgets", 1000, "PodUnavailableBudgets in the namespace; one of them is for the Pods, and lets all go")
	flags.IntVar(&o.rate, "rate", 200, "Pods to create in a second")
	flags.DurationVar(&o.lasts, "for", 30*time.Second, "for how long")
	flags.IntVar(&o.parallel, "parallel", 1000, "Pods to create at once afterwards")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.matching < 0 || o.sets < o.matching || o.budgets < 0 || o.rate < 1 || o.parallel < 1 || o.lasts < time.Second {
		return fmt.Errorf("--sets %d, --matching %d, --budgets %d, --rate %d, --parallel %d, --for %v: want matching sets among all, no negative number, and at least 1, 1 and 1s",
			o.sets, o.matching, o.budgets, o.rate, o.parallel, o.lasts)
	}
	var loads []burst
	err := onCluster(ctx, served.Options{Manager: o.manager, Args: strings.Fields(*managerArgs), Nodes: 1}, func(c *served.Cluster) (err error) {
		loads, err = measureAdmission(ctx, c, o, log)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Pod admission with %d SidecarSets of which %d match, and %d PodUnavailableBudgets in the namespace\n\n", o.sets, o.matching, o.budgets)
	printLoads(out, loads)
	return nil
}

// onCluster starts a control plane and a manager with webhooks, and calls measure.
func onCluster(ctx context.Context, o served.Options, measure func(*served.Cluster) error) (err error) {
	if o.Manager, err = locate(o.Manager); err != nil {
		return err
	}
	c, err := served.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	return measure(c)
}

// measureAdmission measures several loads. The first load is small and not shown in the output: it only opens
// connections and fills caches.
func measureAdmission(ctx context.Context, c *served.Cluster, o admissionOptions, log io.Writer) ([]burst, error) {
	for _, namespace := range loadNamespaces() {
		if err := c.Create(ctx, namespace); err != nil {
			return nil, fmt.Errorf("namespace %s: %w", namespace.GetName(), err)
		}
	}
	for i := range o.sets {
		if err := c.Create(ctx, loadSet(i, i < o.matching)); err != nil {
			return nil, fmt.Errorf("SidecarSet %d: %w", i, err)
		}
	}
	for i := range o.budgets {
		if err := c.Create(ctx, loadBudget(i)); err != nil {
			return nil, fmt.Errorf("PodUnavailableBudget %d: %w", i, err)
		}
	}
	g, err := newGenerator(c, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "load-", Labels: map[string]string{"app": "load"}},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	})
	if err != nil {
		return nil, err
	}
	var out []burst
	for _, l := range []struct {
		name string
		of   hook
		do   func(context.Context, string) ([]time.Duration, []error)
	}{
		{"", creationHook(), func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atOnce(ctx, namespace, min(100, o.parallel))
		}},
		{fmt.Sprintf("%d a second for %v", o.rate, o.lasts), creationHook(), func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atRate(ctx, namespace, o.rate, o.lasts)
		}},
		{fmt.Sprintf("%d at once", o.parallel), creationHook(), func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atOnce(ctx, namespace, o.parallel)
		}},
		{fmt.Sprintf("%d deleted a second", o.rate), deletionHook(), func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.deleteAtRate(ctx, namespace, o.rate, o.lasts)
		}},
	} {
		for _, namespace := range []string{spared, asked} {
			fmt.Fprintf(log, "== %s: namespace %s\n", cmp.Or(l.name, "the first Pods"), namespace)
			measured, err := g.measure(ctx, l.name, l.of, namespace, l.do)
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

// loadNamespaces returns the namespaces in which Pods are created.
func loadNamespaces() []client.Object {
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: spared, Labels: map[string]string{"control-plane": spared}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: asked}},
	}
}

// loadBudget returns a PodUnavailableBudget for the Pods of an app. The budget for the measured app admits all
// requests.
func loadBudget(i int) *policyv1beta1.PodUnavailableBudget {
	app := "other-" + strconv.Itoa(i)
	if i == 0 {
		app = "load"
	}
	return &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: asked, Name: "budget-" + strconv.Itoa(i)},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, MaxUnavailable: ptr.To(intstr.FromString("100%")),
		},
	}
}

// loadSet returns a SidecarSet that injects a single small container. If matches is true, the SidecarSet selects the
// measured Pods.
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

// generator creates identical Pods with a client that has no rate limit.
type generator struct {
	cluster *served.Cluster
	clients *kubernetes.Clientset
	pod     *corev1.Pod
}

func newGenerator(c *served.Cluster, pod *corev1.Pod) (*generator, error) {
	config := rest.CopyConfig(c.Plane.Config())
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	return &generator{c, clients, pod}, err
}

func (g *generator) create(ctx context.Context, namespace string) (time.Duration, error) {
	began := time.Now()
	// The encoder of the client sets the kind.
	_, err := g.clients.CoreV1().Pods(namespace).Create(ctx, g.pod.DeepCopy(), metav1.CreateOptions{})
	return time.Since(began), err
}

// atOnce creates n Pods at the same time.
func (g *generator) atOnce(ctx context.Context, namespace string, n int) ([]time.Duration, []error) {
	latencies, errs := make([]time.Duration, n), make([]error, n)
	workqueue.ParallelizeUntil(ctx, n, n, func(i int) { latencies[i], errs[i] = g.create(ctx, namespace) })
	return latencies, errs
}

// atRate creates Pods at a fixed rate. Each creation starts at its time, even if earlier creations have not ended.
func (g *generator) atRate(ctx context.Context, namespace string, rate int, lasts time.Duration) ([]time.Duration, []error) {
	return paced(ctx, rate*int(lasts/time.Second), rate, func(int) (time.Duration, error) { return g.create(ctx, namespace) })
}

// deleteAtRate deletes the created Pods at a fixed rate.
func (g *generator) deleteAtRate(ctx context.Context, namespace string, rate int, lasts time.Duration) ([]time.Duration, []error) {
	pods, err := g.clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: int64(rate * int(lasts/time.Second))})
	if err != nil {
		return []time.Duration{0}, []error{err}
	}
	return paced(ctx, len(pods.Items), rate, func(i int) (time.Duration, error) {
		began := time.Now()
		err := g.clients.CoreV1().Pods(namespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{})
		return time.Since(began), err
	})
}

// paced calls do n times, at a fixed rate per second, and returns the durations and errors of the calls.
func paced(ctx context.Context, n, rate int, do func(i int) (time.Duration, error)) ([]time.Duration, []error) {
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
		group.Go(func() { latencies[i], errs[i] = do(i) })
	}
	group.Wait()
	return latencies, errs
}

func (g *generator) measure(
	ctx context.Context, name string, of hook, namespace string, do func(context.Context, string) ([]time.Duration, []error),
) (l burst, err error) {
	l = burst{name: name, namespace: namespace}
	cpu, err := g.cluster.CPU()
	if err != nil {
		return l, err
	}
	serverBefore, managerBefore, err := g.calls(ctx, of)
	if err != nil {
		return l, err
	}
	var errs []error
	l.latencies, errs = do(ctx, namespace)
	l.failed = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.Sort(l.latencies)
	server, manager, err := g.calls(ctx, of)
	l.byServer, l.byManager = server.since(serverBefore), manager.since(managerBefore)
	now, cpuErr := g.cluster.CPU()
	l.cpu = now - cpu
	return l, errors.Join(err, cpuErr, ctx.Err())
}

// checkInjected returns an error unless the Pods have the injected sidecars, because the measurement is meaningless
// without the injection.
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
