package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/partition"
)

// podsPerNode leaves half of a simulated Node for Pods that are created before others are gone.
const podsPerNode = 250

// options are the command line of a run.
type options struct {
	manager        string
	managerArgs    []string
	agent          string
	metrics        string
	crds           []string
	workload       workload
	change         change
	objects, pods  int
	nodes          int
	passes         int
	maxUnavailable intstr.IntOrString
	startDelay     time.Duration
	slowStart      time.Duration
	noChange       time.Duration
	phases         []string
	json, timeline string
}

// parse reads the command line of a run. Errors name the flag, the value and what is allowed.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.manager, "manager", "bin/kruise-manager", "manager to measure; it gets --kubeconfig and the environment variable KUBECONFIG")
	managerArgs := flags.String("manager-args", "--metrics-addr=0 --health-probe-addr=0 --enable-pprof=false", "further arguments of the manager, separated by spaces")
	flags.StringVar(&o.agent, "agent", "", "count only requests whose user agents begin so, instead of all of the manager's user")
	flags.StringVar(&o.metrics, "metrics", "", "URL of the manager's metrics, to tell the time of a reconcile from the rest of a pass")
	crds := flags.String("crds", "", "files and directories of CRDs, separated by commas, instead of those of this repository")
	kind := flags.String("workload", "cloneset", "kind of the workload: "+describe(workloads(), func(w workload) (string, string) { return w.name, w.about }))
	alteration := flags.String("change", "image", "what the in-place rollout changes: "+describe(changes(), func(c change) (string, string) { return c.name, c.about }))
	flags.IntVar(&o.objects, "objects", 1, "workload objects; Pods are spread evenly over them")
	flags.IntVar(&o.pods, "pods", 500, "Pods in all")
	flags.IntVar(&o.nodes, "nodes", 0, fmt.Sprintf("simulated Nodes; 0 means one for %d Pods, 20 at least", podsPerNode))
	maxUnavailable := flags.String("max-unavailable", "100%", "maxUnavailable of the rollouts")
	flags.DurationVar(&o.startDelay, "start-delay", 0, "how long simulated containers take to start")
	flags.DurationVar(&o.slowStart, "slow-start", 0, "how long they take in phase slow-start, whose maxUnavailable is 100%; 0 leaves it out")
	flags.DurationVar(&o.noChange, "no-change", 30*time.Second, "how long nothing is changed in phase no-change")
	flags.IntVar(&o.passes, "passes", 100, "how many passes phase passes forces")
	wanted := flags.String("phases", "", "phases to run after scale-up, separated by commas, instead of all: "+
		describe(phases(), func(p phase) (string, string) { return p.name, p.about }))
	flags.StringVar(&o.json, "json", "", "file that gets the figures as JSON")
	flags.StringVar(&o.timeline, "timeline", "", "file that gets a picture of the rollouts, a row a Pod: FILE.html or FILE.svg")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.managerArgs = strings.Fields(*managerArgs)
	o.crds = list(*crds)
	o.phases = list(*wanted)
	var kindErr, changeErr error
	o.workload, kindErr = pick("--workload", *kind, workloads(), func(w workload) string { return w.name })
	o.change, changeErr = pick("--change", *alteration, changes(), func(c change) string { return c.name })
	o.maxUnavailable = intstr.Parse(*maxUnavailable)
	return o, errors.Join(kindErr, changeErr, o.complete())
}

// complete checks numbers and names, and fills in what follows from others.
func (o *options) complete() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.pods < 1 {
		refuse("--pods %d: want 1 at least", o.pods)
	}
	if o.objects < 1 || o.objects > max(o.pods, 1) {
		refuse("--objects %d: want 1 to %d, the number of Pods", o.objects, o.pods)
	}
	if o.nodes < 0 || o.passes < 1 {
		refuse("--nodes %d, --passes %d: want 0 or more Nodes and 1 or more passes", o.nodes, o.passes)
	}
	if o.nodes == 0 {
		o.nodes = max(20, (o.pods+podsPerNode-1)/podsPerNode)
	}
	if o.startDelay < 0 || o.slowStart < 0 || o.noChange < 0 {
		refuse("--start-delay %s, --slow-start %s, --no-change %s: want no negative time", o.startDelay, o.slowStart, o.noChange)
	}
	if err := partition.Validate("--max-unavailable", &o.maxUnavailable, partition.Down); err != nil {
		errs = append(errs, err)
	}
	if extension := extensionOf(o.timeline); o.timeline != "" && extension != ".html" && extension != ".svg" {
		refuse("--timeline %s: want a name that ends in .html or .svg", o.timeline)
	}
	return errors.Join(append(errs, o.checkPhases())...)
}

// checkPhases wants names of phases, and what a named one needs.
func (o *options) checkPhases() error {
	var errs []error
	for _, name := range o.phases {
		_, err := pick("--phases", name, phases(), func(p phase) string { return p.name })
		errs = append(errs, err)
	}
	if slices.Contains(o.phases, "slow-start") && o.slowStart == 0 {
		errs = append(errs, errors.New("--phases slow-start: want --slow-start too, which says how long containers take"))
	}
	return errors.Join(errs...)
}

func extensionOf(file string) string { return file[max(0, strings.LastIndexByte(file, '.')):] }

// list splits at commas and drops what is empty.
func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

// pick finds an item by name; the error lists the names.
func pick[T any](flag, name string, items []T, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, item := range items {
		if nameOf(item) == name {
			return item, nil
		}
		names = append(names, nameOf(item))
	}
	return found, fmt.Errorf("%s %q: want one of %s", flag, name, strings.Join(names, ", "))
}

// describe lists items for the help of a flag.
func describe[T any](items []T, text func(T) (name, about string)) string {
	var out strings.Builder
	for _, item := range items {
		name, about := text(item)
		fmt.Fprintf(&out, "\n  %s: %s", name, about)
	}
	return out.String()
}
