package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/internal/served"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

// spreadOptions are the options of the command "bench spread".
type spreadOptions struct {
	manager             string
	pods, subsets, rate int
	nodes               int
}

// subsetLabel is the label that contains the name of a Pod's subset.
const subsetLabel = "bench.workloadkit.io/subset"

// spreadCommand creates the Pods of a WorkloadSpread's target at a fixed rate, without and with the Pod webhook, and
// prints durations and requests.
func spreadCommand(ctx context.Context, args []string, out, log io.Writer) error {
	var o spreadOptions
	flags := flag.NewFlagSet("bench spread", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.manager, "manager", "bin/kruise-manager", "manager to measure")
	managerArgs := flags.String("manager-args", "", "further arguments of the manager, separated by spaces")
	flags.IntVar(&o.pods, "pods", 10000, "Pods to create")
	flags.IntVar(&o.subsets, "subsets", 5, "subsets, each with room for its share of the Pods")
	flags.IntVar(&o.rate, "rate", 200, "Pods to create in a second")
	flags.IntVar(&o.nodes, "nodes", 0, "simulated Nodes that run the Pods; 0 leaves all Pods unscheduled")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.pods < 1 || o.subsets < 1 || o.rate < 1 || o.nodes < 0 || o.pods%o.subsets != 0 || o.pods%o.rate != 0 {
		return fmt.Errorf("--pods %d, --subsets %d, --rate %d, --nodes %d: want positive numbers, and Pods for whole shares and whole seconds",
			o.pods, o.subsets, o.rate, o.nodes)
	}
	nodes := o.nodes
	if nodes == 0 {
		nodes = controlplane.NoNodes
	}
	var m spreading
	options := served.Options{Manager: o.manager, Args: strings.Fields(*managerArgs), Nodes: nodes, AuditLog: true}
	err := onCluster(ctx, options, func(c *served.Cluster) (err error) {
		m, err = measureSpread(ctx, c, o, log)
		return err
	})
	if err != nil {
		return err
	}
	m.print(out, o)
	return nil
}

// spreading is the measured cost of creating the Pods of a WorkloadSpread's target.
type spreading struct {
	loads    []burst
	requests map[string]int // number of the manager's requests, by kind of request
	rest     time.Duration  // time from the last creation until the status counts all Pods
	memory   float64        // peak of the manager's memory, in MiB
}

// measureSpread creates the same number of Pods twice, first in a namespace for which the webhook is not called.
func measureSpread(ctx context.Context, c *served.Cluster, o spreadOptions, log io.Writer) (m spreading, err error) {
	job, err := prepareSpread(ctx, c, o)
	if err != nil {
		return m, err
	}
	g, err := newGenerator(c, memberOf(job, o))
	if err != nil {
		return m, err
	}
	owners := g.pod.OwnerReferences
	var offset int64
	for _, namespace := range []string{spared, asked} {
		if g.pod.OwnerReferences = nil; namespace == asked {
			g.pod.OwnerReferences = owners
		}
		if offset, err = audit.End(c.Plane.AuditLog()); err != nil {
			return m, fmt.Errorf("reading the audit log: %w", err)
		}
		fmt.Fprintf(log, "== %d Pods, %d a second: namespace %s\n", o.pods, o.rate, namespace)
		load, err := g.measure(ctx, fmt.Sprintf("%d a second", o.rate), creationHook(), namespace, func(ctx context.Context, namespace string) ([]time.Duration, []error) {
			return g.atRate(ctx, namespace, o.rate, time.Duration(o.pods/o.rate)*time.Second)
		})
		if err != nil {
			return m, err
		}
		m.loads = append(m.loads, load)
	}
	created := o.pods - len(m.loads[1].failed)
	if m.rest, err = untilCounted(ctx, c, created); err != nil {
		err = errors.Join(err, checkSpread(ctx, c, o, created))
		return m, errors.Join(append(m.loads[1].failed[:min(1, len(m.loads[1].failed))], err)...)
	}
	if m.requests, err = requestsSince(c.Plane.AuditLog(), offset); err != nil {
		return m, err
	}
	if m.memory, err = c.Memory(); err != nil {
		return m, err
	}
	return m, checkSpread(ctx, c, o, created)
}

// prepareSpread creates a Job on which no controller acts, and a WorkloadSpread for the Job.
func prepareSpread(ctx context.Context, c *served.Cluster, o spreadOptions) (*batchv1.Job, error) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: asked, Name: "load"}, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(int32(o.pods)), ManagedBy: ptr.To("bench.workloadkit.io/load"),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "load"}}, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
		}},
	}}
	spread := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: asked, Name: "load"}, Spec: v1beta1.WorkloadSpreadSpec{
		TargetReference: v1beta1.WorkloadSpreadTarget{APIVersion: "batch/v1", Kind: "Job", Name: job.Name},
	}}
	for i := range o.subsets {
		name := "subset-" + strconv.Itoa(i)
		patch := `{"metadata":{"labels":{"` + subsetLabel + `":"` + name + `"}}}`
		spread.Spec.Subsets = append(spread.Spec.Subsets, v1beta1.WorkloadSpreadSubset{
			Name: name, MaxReplicas: ptr.To(intstr.FromInt32(int32(o.pods / o.subsets))), Patch: &runtime.RawExtension{Raw: []byte(patch)},
		})
	}
	for _, object := range append(loadNamespaces(), job, spread) {
		if err := c.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return job, nil
}

// memberOf returns a new Pod of the Job.
func memberOf(job *batchv1.Job, o spreadOptions) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "load-", Labels: job.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}, Spec: *job.Spec.Template.Spec.DeepCopy()}
	if o.nodes == 0 {
		pod.Spec.SchedulerName = "nobody"
	}
	return pod
}

// untilCounted waits until the status of the WorkloadSpread counts all created Pods, and returns how long this took.
func untilCounted(ctx context.Context, c *served.Cluster, created int) (time.Duration, error) {
	began, last := time.Now(), ""
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var spread v1beta1.WorkloadSpread
		if err := c.Get(ctx, client.ObjectKey{Namespace: asked, Name: "load"}, &spread); err != nil {
			return false, err
		}
		replicas, onTheWay := 0, 0
		for _, s := range spread.Status.SubsetStatuses {
			replicas += int(s.Replicas)
		}
		for _, list := range spread.Status.VersionedSubsetStatuses {
			for _, s := range list {
				onTheWay += len(s.CreatingPods) + len(s.DeletingPods)
			}
		}
		last = fmt.Sprintf("%d of %d Pods counted, %d on the way", replicas, created, onTheWay)
		return replicas == created && onTheWay == 0, nil
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for the WorkloadSpread's status (%s): %w", last, err)
	}
	return time.Since(began), nil
}

// checkSpread returns an error if a subset has more Pods than its maximum, or a Pod has no subset, because the
// measurement is then meaningless.
func checkSpread(ctx context.Context, c *served.Cluster, o spreadOptions, created int) error {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(asked)); err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	shares := map[string]int{}
	for i := range pods.Items {
		shares[pods.Items[i].Labels[subsetLabel]]++
	}
	sum := 0
	for i := range o.subsets {
		name := "subset-" + strconv.Itoa(i)
		if sum += shares[name]; shares[name] > o.pods/o.subsets {
			return fmt.Errorf("%s has %d Pods, want at most %d; all: %v", name, shares[name], o.pods/o.subsets, shares)
		}
	}
	if sum != created {
		return fmt.Errorf("%d of %d Pods are in a subset; all: %v", sum, created, shares)
	}
	return nil
}

// requestsSince counts the manager's requests in the audit log from an offset on, by kind of request. Watches and
// requests for Leases are left out, because their number does not grow with the number of Pods.
func requestsSince(log string, offset int64) (map[string]int, error) {
	requests, _, err := audit.Select(log, offset, func(r audit.Request) bool {
		return strings.HasPrefix(r.UserAgent, "kruise-manager") && r.Resource != "leases" && r.Verb != "watch"
	})
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	counts := map[string]int{}
	for _, r := range requests {
		counts[r.String()]++
	}
	return counts, nil
}

func (m *spreading) print(out io.Writer, o spreadOptions) {
	fmt.Fprintf(out, "%d Pods spread over %d subsets\n\n", o.pods, o.subsets)
	printLoads(out, m.loads)
	fmt.Fprintf(out, "\nThe status has all Pods %.1f s after the last creation. Peak of the manager's memory: %.0f MiB.\n\n", m.rest.Seconds(), m.memory)
	printRequests(out, m.requests, "request of the manager", "a Pod", o.pods)
}

// printRequests prints numbers of requests by kind, and their share.
func printRequests(out io.Writer, requests map[string]int, title, share string, among int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tnumber\t%s\n", title, share)
	for _, name := range slices.SortedFunc(maps.Keys(requests), func(a, b string) int { return cmp.Or(requests[b]-requests[a], cmp.Compare(a, b)) }) {
		fmt.Fprintf(w, "%s\t%d\t%.3f\n", name, requests[name], float64(requests[name])/float64(among))
	}
	_ = w.Flush()
}
