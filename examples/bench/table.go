package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// cells of the summary, a row a phase; the report uses them too.
func summaryHeader() []string {
	return []string{
		"phase", "seconds", "writes/Pod", "conflicts/Pod", "reads/Pod", "CPU s", "peak MiB", "gate closed s: median", "p95", "unready s: median", "p95", "max",
		"kept", "created", "deleted",
	}
}

func summaryRow(f figure) []string {
	row := []string{
		f.Phase, fmt.Sprintf("%.1f", f.Seconds), perPod(f.Writes), perPod(f.Conflicts), perPod(f.Reads),
		fmt.Sprintf("%.1f", f.CPUSeconds), fmt.Sprintf("%.0f", f.PeakMebibytes),
	}
	if f.GateClosed == nil {
		row = append(row, "-", "-")
	} else {
		row = append(row, seconds(f.GateClosed.Median), seconds(f.GateClosed.P95))
	}
	if f.Unready == nil {
		row = append(row, "-", "-", "-")
	} else {
		row = append(row, seconds(f.Unready.Median), seconds(f.Unready.P95), seconds(f.Unready.Max))
	}
	return append(row, strconv.Itoa(f.Kept), strconv.Itoa(f.Created), strconv.Itoa(f.Deleted))
}

func perPod(v float64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", v)
}

func seconds(v float64) string { return fmt.Sprintf("%.3f", v) }

// requestTable has a row for each kind of request and a column for each phase.
func requestTable(phases []figure) (header []string, rows [][]string) {
	header = []string{"requests per Pod"}
	var kinds []tallied
	for _, f := range phases {
		header = append(header, f.Phase)
		for _, t := range f.Requests {
			if !slices.Contains(kinds, t.kind()) {
				kinds = append(kinds, t.kind())
			}
		}
	}
	slices.SortStableFunc(kinds, compareKinds)
	for _, kind := range kinds {
		row := []string{kind.String()}
		for _, f := range phases {
			cell := "-"
			for _, t := range f.Requests {
				if t.kind() == kind {
					cell = fmt.Sprintf("%.3g", t.PerPod)
				}
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return header, rows
}

// remarks are the figures that one phase alone has.
func remarks(phases []figure) []string {
	var out []string
	for _, f := range phases {
		switch f.Phase {
		case "no-change":
			out = append(out, fmt.Sprintf("no-change: %d Pods touched and %d writes of the manager in %.0f s", f.Touched, f.writesInAll(), f.Seconds))
		case "passes":
			remark := fmt.Sprintf("passes: %.2f ms of CPU for a pass that finds nothing to do, %d Pods touched", f.PassMilliseconds, f.Touched)
			if f.ReconcileMilliseconds > 0 {
				remark += fmt.Sprintf("; the reconcile took %.2f ms by the clock", f.ReconcileMilliseconds)
			}
			out = append(out, remark)
		case "slow-start":
			out = append(out, fmt.Sprintf("slow-start: all containers began to restart within %.1f s, all Pods were ready after %.1f s", f.AllUpdated, f.AllReady))
		}
	}
	return out
}

func (s setup) String() string {
	text := fmt.Sprintf("%d Pods of %d %s, %d Nodes, change %s, maxUnavailable %s, manager %s",
		s.Pods, s.Objects, plural(s.Objects, s.Workload), s.Nodes, s.Change, s.MaxUnavailable, s.Manager)
	if s.StartDelay != "" {
		text += ", containers start in " + s.StartDelay
	}
	if s.SlowStart != "" {
		text += ", slow ones in " + s.SlowStart
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// print writes the figures for a terminal.
func (r result) print(out io.Writer) {
	fmt.Fprintf(out, "%s\non %s\nwhich sorted %s numbers on each core within %.2f s before and %.2f s after\n\n",
		r.Setup, r.Machine, thousands(sorted), r.Pace.Before, r.Pace.After)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	writeRow(w, summaryHeader())
	for _, f := range r.Phases {
		writeRow(w, summaryRow(f))
	}
	_ = w.Flush()
	fmt.Fprintln(out, "\nPods and their subresources alone. All requests of the manager but watches and leases:")
	fmt.Fprintln(out)
	header, rows := requestTable(r.Phases)
	for _, row := range append([][]string{header}, rows...) {
		writeRow(w, row)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
	for _, remark := range remarks(r.Phases) {
		fmt.Fprintln(out, remark)
	}
}

// writeRow ends every cell, the last one too, or it would not be aligned.
func writeRow(w io.Writer, cells []string) {
	for _, cell := range cells {
		fmt.Fprint(w, cell, "\t")
	}
	fmt.Fprintln(w)
}
