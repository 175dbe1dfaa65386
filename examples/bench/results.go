package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/testing/bench"
	"github.com/workloadkit/workloadkit/testing/child"
)

// experiment is a run whose figures RESULTS.md shows.
type experiment struct {
	name string
	args []string
	// embed is true if the run measures the example operator of examples/embed.
	embed bool
}

const (
	wavesRun                      = "cloneset-500-waves"
	objectsRun                    = "cloneset-1000x10"
	embedRun                      = "embed-100"
	numberedRun, numberedSmallRun = "statefulset-500", "statefulset-100"
	nodesRun                      = "daemonset-1000"
	sidecarsRun, sidecarWavesRun  = "sidecarset-500", "sidecarset-500-waves"
	admissionRun                  = "admission"
)

// growthPhases selects the phases whose figures the report shows for a growing number of Pods.
const growthPhases = "--phases=in-place,no-change,passes"

// sizes returns the numbers of Pods of the runs with a CloneSet.
func sizes() []int { return []int{100, 500, 1000, 2000, 5000, 10000} }

func sizeRun(pods int) string { return fmt.Sprintf("cloneset-%d", pods) }

// repeats is how often the rollout of 1,000 Pods is run.
const repeats = 4

func repeatRun(i int) string { return fmt.Sprintf("%s-again-%d", sizeRun(1000), i+1) }

// experiments returns all runs. The longest run is last. Repetitions of a run are distributed over the list, because
// the speed of the machine changes within minutes.
func experiments() []experiment {
	out := []experiment{
		{name: wavesRun, args: []string{"--pods=500", "--max-unavailable=20%", "--phases=in-place,recreate"}},
		{name: numberedSmallRun, args: []string{"--workload=statefulset", "--pods=100", "--phases=in-place,recreate"}},
		{name: numberedRun, args: []string{"--workload=statefulset", "--pods=500", "--phases=in-place,recreate,no-change"}},
		{name: nodesRun, args: []string{"--workload=daemonset", "--pods=1000", "--phases=in-place,recreate,no-change,passes"}},
		{name: sidecarsRun, args: []string{"--workload=sidecarset", "--pods=500", "--phases=in-place,no-change,passes"}},
		{name: sidecarWavesRun, args: []string{"--workload=sidecarset", "--pods=500", "--max-unavailable=20%", "--phases=in-place"}},
		{name: admissionRun},
		{name: embedRun, args: []string{"--pods=100", "--workload=embed"}, embed: true},
	}
	for _, pods := range sizes() {
		e := experiment{name: sizeRun(pods), args: []string{fmt.Sprintf("--pods=%d", pods)}}
		switch {
		case pods == 500:
			e.args = append(e.args, "--slow-start=20s")
		case pods > 1000:
			e.args = append(e.args, growthPhases)
		}
		out = append(out, e)
	}
	out = append(out, experiment{name: objectsRun, args: []string{"--pods=10000", "--objects=1000", growthPhases}})
	for i := range repeats {
		again := experiment{name: repeatRun(repeats - 1 - i), args: []string{"--pods=1000", "--phases=in-place"}}
		out = slices.Insert(out, len(out)-2*i, again)
	}
	return out
}

func experimentChoices() (out []bench.Choice) {
	for _, e := range experiments() {
		out = append(out, bench.Choice{Name: e.name, About: strings.Join(e.args, " ")})
	}
	return out
}

// place contains the paths of the results: the directory of the runs, and the file of the report.
type place struct{ runs, out string }

func (p place) json(name string) string { return filepath.Join(p.runs, name+".json") }

// figures returns the path of the file with a run's measurements.
func (p place) figures(name string) string {
	if name == admissionRun {
		return filepath.Join(p.runs, name+".txt")
	}
	return p.json(name)
}

// results makes the runs that do not exist yet, and writes the report from all runs.
func results(ctx context.Context, args []string, log *os.File) error {
	var p place
	flags := flag.NewFlagSet("bench results", flag.ContinueOnError)
	flags.SetOutput(log)
	manager := flags.String("manager", "bin/kruise-manager", "manager to measure")
	embed := flags.String("embed", "bin/embed", "built operator of examples/embed")
	only := flags.String("only", "", "runs to make, separated by commas, instead of all: "+
		describe(experimentChoices()))
	again := flags.Bool("again", false, "make runs again whose figures are there already")
	flags.StringVar(&p.runs, "runs", "bin/bench-runs", "directory of the runs' figures")
	flags.StringVar(&p.out, "out", "examples/bench/RESULTS.md", "report; its pictures lie beside it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted := list(*only)
	for _, name := range wanted {
		if !slices.ContainsFunc(experiments(), func(e experiment) bool { return e.name == name }) {
			return fmt.Errorf("--only %q: no such run", name)
		}
	}
	if err := os.MkdirAll(p.runs, 0o755); err != nil {
		return fmt.Errorf("directory of the runs: %w", err)
	}
	for _, e := range experiments() {
		_, err := os.Stat(p.figures(e.name))
		if !*again && err == nil || len(wanted) > 0 && !slices.Contains(wanted, e.name) {
			continue
		}
		binary := *manager
		if e.embed {
			binary = *embed
		}
		if err := e.run(ctx, p, binary, log); err != nil {
			return fmt.Errorf("run %s: %w", e.name, err)
		}
	}
	return writeReport(p)
}

// run makes a run, and stores its measurements.
func (e experiment) run(ctx context.Context, p place, manager string, log *os.File) error {
	if e.name == admissionRun {
		var out bytes.Buffer
		if err := admissionCommand(ctx, []string{"--manager=" + manager}, &out, log); err != nil {
			return err
		}
		return os.WriteFile(p.figures(e.name), out.Bytes(), 0o644)
	}
	args := append([]string{"--manager=" + manager, "--json=" + p.json(e.name)}, e.args...)
	if e.name == wavesRun {
		args = append(args, "--timeline="+p.picture("timeline.svg"))
	}
	if !e.embed {
		port, err := child.FreePort(ctx, "localhost")
		if err != nil {
			return err
		}
		args = append(args, fmt.Sprintf("--metrics=http://127.0.0.1:%d/metrics", port),
			fmt.Sprintf("--manager-args=--metrics-addr=127.0.0.1:%d --health-probe-addr=0 --enable-pprof=false --nodeimage-creation-delay=0s", port))
	}
	fmt.Fprintf(log, "== %s: %s\n", e.name, strings.Join(e.args, " "))
	return runOnce(ctx, args, log, log)
}

func (p place) picture(name string) string { return filepath.Join(filepath.Dir(p.out), name) }

// load reads the stored runs.
func load(p place) (map[string]*bench.Result, error) {
	runs := map[string]*bench.Result{}
	for _, e := range experiments() {
		if e.name == admissionRun {
			continue // the admission run is stored as text
		}
		raw, err := os.ReadFile(p.json(e.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("figures of run %s: %w", e.name, err)
		}
		r := &bench.Result{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, fmt.Errorf("figures of run %s: %w", e.name, err)
		}
		runs[e.name] = r
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no figures in %s", p.runs)
	}
	return runs, nil
}
