package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/testing/bench"
	"github.com/workloadkit/workloadkit/testing/bench/picture"
)

// writeReport writes the report, and a picture of how figures grow with the number of Pods, from the existing runs.
func writeReport(p place) error {
	runs, err := load(p)
	if err != nil {
		return err
	}
	admitted, err := os.ReadFile(p.figures(admissionRun))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("figures of run %s: %w", admissionRun, err)
	}
	var svg bytes.Buffer
	growing := growingRuns(runs)
	if len(growing) > 0 {
		err := picture.WriteGrowth(&svg, "One CloneSet from "+thousands(growing[0].Setup.Pods)+" to "+thousands(growing[len(growing)-1].Setup.Pods)+" Pods",
			"kruise-manager on "+growing[0].Machine.String(), growthCharts(growing))
		if err != nil {
			return fmt.Errorf("drawing the growth: %w", err)
		}
		if err := os.WriteFile(p.picture("scaling.svg"), svg.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the picture of growth: %w", err)
		}
	}
	if err := os.WriteFile(p.out, []byte(report(runs, string(admitted))), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// report returns the report as Markdown. Sections about runs that do not exist are left out.
func report(runs map[string]*bench.Result, admitted string) string {
	p := &page{}
	p.writef("# Whole rollouts, measured\n\nWritten by `make bench-rollouts`. A real etcd, kube-apiserver, scheduler and controller-manager, Nodes and kubelets " +
		"simulated by kwok, the manager as a process of its own: all on one machine, so that the API server's work is part of every second.\n")
	for _, machine := range machines(runs) {
		p.writef("\nMachine: %s.\n", machine)
	}
	p.writef("\nWrites, conflicts (409, not among the writes) and reads are the manager's requests for Pods and their subresources, for each Pod, " +
		"from the audit log. Gate closed is how long the manager kept the readiness gate of a Pod that stayed closed, unready how long such a Pod was out of service: until its kubelet, here kwok, has given Ready back. CPU and memory are the manager's, the peak within the phase. " +
		"maxUnavailable is 100%% where nothing else is said.\n")
	reportSizes(p, runs)
	if r, ok := runs[sizeRun(500)]; ok {
		p.writef("\n## A whole batch starts at once\n\n500 Pods whose containers take 20 s to start:\n\n")
		p.remarks(r, "slow-start")
	}
	if r, ok := runs[wavesRun]; ok {
		p.writef("\n## In waves: maxUnavailable 20%%\n\n")
		p.table(r.Summary())
		p.writef("\n![Two rollouts of 500 Pods, a row a Pod](timeline.svg)\n")
	}
	for _, section := range []struct{ title, run string }{
		{"10,000 Pods in one CloneSet", sizeRun(10000)},
		{"1,000 CloneSets of 10 Pods", objectsRun},
		{"100 Pods of one StatefulSet", numberedSmallRun},
		{"500 Pods of one StatefulSet", numberedRun},
		{"One DaemonSet on 1,000 Nodes, whose leases are renewed on the same cores", nodesRun},
		{"The sidecars of 500 Pods, by one SidecarSet", sidecarsRun},
		{"The sidecars of 500 Pods in waves: maxUnavailable 20%", sidecarWavesRun},
		{"The operator of examples/embed, one Pod at a time, 100 Pods", embedRun},
	} {
		if r, ok := runs[section.run]; ok {
			p.writef("\n## %s\n\n", section.title)
			p.table(r.Summary())
			p.writef("\n")
			p.remarks(r)
		}
	}
	if admitted != "" {
		p.writef("\n## Pod admission\n\nPods are created, with one container each and for no Node, in a namespace that the webhook is asked about and in one that is spared. The "+
			"latencies are the client's. What the webhook takes is the mean, and in brackets the bound of the histogram below which half of the calls stayed: for the API server, "+
			"which needs the same cores meanwhile, and for the manager.\n\n```\n%s```\n", admitted)
	}
	reportGrowth(p, growingRuns(runs))
	reportRepeats(p, runs)
	reportPace(p, runs)
	return p.String()
}

// page is a report to which the functions below add sections.
type page struct{ strings.Builder }

func (p *page) writef(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *page) table(t bench.Table) { t.WriteMarkdown(p) }

// remarks writes the remarks about the given phases of a run. Without phases, remarks writes the remarks about all
// phases.
func (p *page) remarks(r *bench.Result, phases ...string) {
	for _, remark := range r.Remarks(phases...) {
		p.writef("- %s\n", remark)
	}
}

// reportSizes writes the figures of the runs with up to 1,000 Pods, and the requests of the largest of these runs.
func reportSizes(p *page, runs map[string]*bench.Result) {
	var rows [][]string
	var largest *bench.Result
	for _, pods := range sizes() {
		r, ok := runs[sizeRun(pods)]
		if !ok || pods > 1000 {
			continue
		}
		for _, row := range r.Summary().Rows {
			rows = append(rows, append([]string{thousands(pods)}, row...))
		}
		largest = r
	}
	if len(rows) == 0 {
		return
	}
	p.writef("\n## 100, 500 and 1,000 Pods in one CloneSet\n\n")
	p.table(bench.Table{Header: append([]string{"Pods"}, largest.Summary().Header...), Rows: rows})
	p.writef("\n")
	for _, pods := range sizes() {
		if r, ok := runs[sizeRun(pods)]; ok && pods <= 1000 {
			p.writef("%s Pods:\n\n", thousands(pods))
			p.remarks(r, "no-change", "passes")
			p.writef("\n")
		}
	}
	p.writef("All requests of the manager but watches and leases, %s Pods:\n\n", thousands(largest.Setup.Pods))
	p.table(largest.Requests())
}

// growingRuns returns the runs that show how the figures depend on the number of Pods, ordered by this number.
func growingRuns(runs map[string]*bench.Result) []*bench.Result {
	var out []*bench.Result
	for _, pods := range sizes() {
		if r, ok := runs[sizeRun(pods)]; ok && pods >= 1000 {
			out = append(out, r)
		}
	}
	return out
}

func growthCharts(growing []*bench.Result) []picture.Chart {
	charts := []picture.Chart{
		{Title: "A reconcile that finds nothing to do", Unit: "milliseconds by the clock"},
		{Title: "All that such a pass costs", Unit: "milliseconds of the manager's CPU"},
		{Title: "The manager's memory", Unit: "MiB resident, peak of the in-place rollout"},
		{Title: "In-place rollout", Unit: "seconds, maxUnavailable 100%"},
	}
	for _, r := range growing {
		pods, inPlace := float64(r.Setup.Pods), r.Phase("in-place")
		for i, value := range []float64{r.Phase("passes").ReconcileMilliseconds, r.Phase("passes").PassMilliseconds, inPlace.PeakMebibytes, inPlace.Seconds} {
			charts[i].Points = append(charts[i].Points, picture.Point{Pods: pods, Value: value})
		}
	}
	return charts
}

func reportGrowth(p *page, growing []*bench.Result) {
	if len(growing) == 0 {
		return
	}
	p.writef("\n## Growth\n\nA pass is forced by an annotation on the CloneSet; its reconcile is timed by the manager's own metrics. What a pass costs is " +
		"the manager's CPU time divided by the passes: receiving the event, answering the API server's conversion webhook and collecting garbage are in it.\n\n![Time of a reconcile, memory and time of a rollout over the number of Pods](scaling.svg)\n\n")
	var rows [][]string
	for _, r := range growing {
		inPlace, reconcile, pass := r.Phase("in-place"), r.Phase("passes").ReconcileMilliseconds, r.Phase("passes").PassMilliseconds
		k := float64(r.Setup.Pods) / 1000
		rows = append(rows, []string{
			thousands(r.Setup.Pods), fmt.Sprintf("%.2f", reconcile), fmt.Sprintf("%.2f", reconcile/k), fmt.Sprintf("%.2f", pass),
			fmt.Sprintf("%.0f", inPlace.PeakMebibytes), fmt.Sprintf("%.0f", peak(r)), fmt.Sprintf("%.1f", inPlace.Seconds), fmt.Sprintf("%.1f", inPlace.Seconds/k),
			fmt.Sprintf("%.1f", inPlace.CPUSeconds), fmt.Sprintf("%.1f", inPlace.CPUSeconds/k),
		})
	}
	p.table(bench.Table{Header: []string{
		"Pods", "reconcile ms", "for 1,000 Pods", "pass, CPU ms", "MiB in place", "MiB at most", "in place s", "for 1,000 Pods", "CPU s", "for 1,000 Pods",
	}, Rows: rows})
}

// reportRepeats writes how much the figures of repeated runs differ.
func reportRepeats(p *page, runs map[string]*bench.Result) {
	names := []string{sizeRun(1000)}
	for i := range repeats {
		names = append(names, repeatRun(i))
	}
	var rows [][]string
	var used, had float64
	for _, name := range names {
		run, ok := runs[name]
		if !ok {
			continue
		}
		f := run.Phase("in-place")
		if f.GateClosed == nil {
			continue
		}
		used, had = used+f.CPUSeconds, had+f.Seconds*float64(run.Machine.Cores)
		rows = append(rows, []string{
			name, fmt.Sprintf("%.1f", f.Seconds), fmt.Sprintf("%.1f", f.CPUSeconds), fmt.Sprintf("%.0f", f.PeakMebibytes),
			fmt.Sprintf("%.3f", f.GateClosed.Median), fmt.Sprintf("%.3f", f.GateClosed.P95),
		})
	}
	if len(rows) < 2 {
		return
	}
	p.writef("\n## The same again: 1,000 Pods in place\n\n")
	p.table(bench.Table{Header: []string{"run", "seconds", "CPU s", "peak MiB", "gate closed s: median", "p95"}, Rows: rows})
	p.writef("\nThe manager used %.0f%% of the CPU time that the machine had meanwhile. The API server, etcd, the simulated kubelets and the measuring have the "+
		"rest: a rollout takes as long as they take for the manager's three writes a Pod and what follows from them.\n", 100*used/had)
}

// reportPace writes the speed of the machine during each run, so that readers can distinguish a slow machine from a
// slow manager.
func reportPace(p *page, runs map[string]*bench.Result) {
	p.writef("\n## The machine's pace\n\nA shared machine is not equally fast all the time: seconds and CPU seconds of two runs compare as far as these do. "+
		"They are what it took to %s, with nothing else to do.\n\n", bench.Yardstick)
	var rows [][]string
	for _, e := range experiments() {
		if r, ok := runs[e.name]; ok {
			rows = append(rows, []string{e.name, fmt.Sprintf("%.2f", r.Pace.Before), fmt.Sprintf("%.2f", r.Pace.After)})
		}
	}
	p.table(bench.Table{Header: []string{"run", "s before it", "s after it"}, Rows: rows})
}

// peak returns the largest memory of the manager in all phases.
func peak(r *bench.Result) (mebibytes float64) {
	for _, f := range r.Phases {
		mebibytes = max(mebibytes, f.PeakMebibytes)
	}
	return mebibytes
}

// machines lists the machines on which the runs were made, without duplicates.
func machines(runs map[string]*bench.Result) []string {
	var out []string
	for _, r := range runs {
		if text := r.Machine.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// thousands returns a number with commas: 10,000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
