package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/testing/bench"
)

// options are the command-line options of a run.
type options struct {
	bench.Options

	json, timeline string
}

// defaultManagerArgs contains the arguments of the reference manager. The flags make the manager create NodeImages at
// once, because with the default delay of half a minute, a later phase would count the creation of NodeImages.
const defaultManagerArgs = "--metrics-addr=0 --health-probe-addr=0 --enable-pprof=false --nodeimage-creation-delay=0s"

// parse parses the command line of a run. Errors name the flag, the value and the allowed values.
func parse(args []string, log io.Writer) (options, error) {
	o := options{Options: bench.NewOptions("bin/kruise-manager", bench.Workload{})}
	o.Progress = log
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.Manager, "manager", o.Manager, "manager to measure; it gets --kubeconfig and the environment variable KUBECONFIG")
	managerArgs := flags.String("manager-args", defaultManagerArgs, "further arguments of the manager, separated by spaces")
	flags.StringVar(&o.Agent, "agent", "", "count only requests whose user agents begin so, instead of all of the manager's user")
	flags.StringVar(&o.Metrics, "metrics", "", "URL of the manager's metrics, to tell the time of a reconcile from the rest of a pass")
	crds := flags.String("crds", "", "files and directories of CRDs, separated by commas, instead of those of this repository")
	kind := flags.String("workload", "cloneset", "kind of the workload: "+describe(kindChoices()))
	flags.StringVar(&o.Change, "change", o.Change, "what the in-place rollout changes: "+describe(bench.Changes()))
	flags.IntVar(&o.Objects, "objects", o.Objects, "workload objects; Pods are spread evenly over them")
	flags.IntVar(&o.Pods, "pods", o.Pods, "Pods in all")
	flags.IntVar(&o.Nodes, "nodes", 0, "simulated Nodes; 0 means one for 250 Pods, 20 at least")
	maxUnavailable := flags.String("max-unavailable", o.MaxUnavailable.String(), "maxUnavailable of the rollouts")
	flags.DurationVar(&o.StartDelay, "start-delay", 0, "how long simulated containers take to start")
	flags.DurationVar(&o.SlowStart, "slow-start", 0, "how long they take in phase slow-start, whose maxUnavailable is 100%; 0 leaves it out")
	flags.DurationVar(&o.NoChange, "no-change", o.NoChange, "how long nothing is changed in phase no-change")
	flags.IntVar(&o.Passes, "passes", o.Passes, "how many passes phase passes forces")
	wanted := flags.String("phases", "", "phases to run after scale-up, separated by commas, instead of all: "+describe(bench.Phases()))
	flags.StringVar(&o.json, "json", "", "file that gets the figures as JSON")
	flags.StringVar(&o.timeline, "timeline", "", "file that gets a picture of the rollouts, a row a Pod: FILE.html or FILE.svg")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.ManagerArgs = strings.Fields(*managerArgs)
	o.CRDs = list(*crds)
	o.Phases = list(*wanted)
	o.MaxUnavailable = intstr.Parse(*maxUnavailable)
	if extension := filepath.Ext(o.timeline); o.timeline != "" && extension != ".html" && extension != ".svg" {
		return o, fmt.Errorf("--timeline %s: want a name that ends in .html or .svg", o.timeline)
	}
	var err error
	if o.Workload, err = workload(*kind); err != nil {
		return o, err
	}
	if o.Manager, err = locate(o.Manager); err != nil {
		return o, err
	}
	return o, o.Validate()
}

// locate returns the path of the manager's binary. A relative path is also tried in the parent directory, because "make
// build" puts binaries there.
func locate(path string) (string, error) {
	for _, candidate := range []string{path, filepath.Join("..", path)} {
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(candidate)
		}
		if filepath.IsAbs(path) {
			break
		}
	}
	return "", fmt.Errorf("--manager %s: no such file; \"make build\" makes bin/kruise-manager", path)
}

// list splits a text at commas, and leaves out empty parts.
func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

// describe returns choices as a text, for the help of a flag.
func describe(choices []bench.Choice) string {
	var out strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&out, "\n  %s: %s", c.Name, c.About)
	}
	return out.String()
}
