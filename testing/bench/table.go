package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table shows the measurements of a run. All columns contain numbers, except the first column and the column of the
// phase.
type Table struct {
	Header []string
	Rows   [][]string
}

// WriteMarkdown writes the table as Markdown.
func (t Table) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "| %s |\n|", strings.Join(t.Header, " | "))
	for i, title := range t.Header {
		if i == 0 || title == "phase" {
			fmt.Fprint(w, "---|")
		} else {
			fmt.Fprint(w, "---:|")
		}
	}
	fmt.Fprintln(w)
	for _, row := range t.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// print aligns the columns with spaces, for a terminal.
func (t Table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		// Every cell ends with a tab, also the last, because tabwriter would otherwise not align the cell.
		fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	_ = w.Flush()
}

// Summary returns a table with a row for each phase.
func (r *Result) Summary() Table {
	t := Table{Header: []string{
		"phase", "seconds", "writes/Pod", "conflicts/Pod", "reads/Pod", "CPU s", "peak MiB", "gate closed s: median", "p95", "unready s: median", "p95", "max",
		"kept", "created", "deleted",
	}}
	for _, f := range r.Phases {
		t.Rows = append(t.Rows, summaryRow(f))
	}
	return t
}

func summaryRow(f Figure) []string {
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

// Requests returns a table with a row for each kind of request and a column for each phase. Watches and lease
// requests are left out, because their number does not grow with the number of Pods.
func (r *Result) Requests() Table {
	table := Table{Header: []string{"requests per Pod"}}
	var kinds []RequestCount
	for _, f := range r.Phases {
		table.Header = append(table.Header, f.Phase)
		for _, t := range f.Requests {
			if !slices.Contains(kinds, t.kind()) {
				kinds = append(kinds, t.kind())
			}
		}
	}
	slices.SortStableFunc(kinds, compareKinds)
	for _, kind := range kinds {
		row := []string{kind.String()}
		for _, f := range r.Phases {
			cell := "-"
			for _, t := range f.Requests {
				if t.kind() == kind {
					cell = fmt.Sprintf("%.3g", t.PerPod)
				}
			}
			row = append(row, cell)
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// Remarks returns a sentence with the main figures of each of the phases no-change, passes and slow-start. If phases
// is not empty, Remarks returns only the sentences for these phases.
func (r *Result) Remarks(phases ...string) []string {
	var out []string
	for _, f := range r.Phases {
		if len(phases) > 0 && !slices.Contains(phases, f.Phase) {
			continue
		}
		switch f.Phase {
		case "no-change":
			out = append(out, fmt.Sprintf("no-change: %d Pods touched and %d writes of the manager in %.0f s", f.Touched, f.AllWrites(), f.Seconds))
		case "passes":
			remark := fmt.Sprintf("passes: %.2f ms of CPU for a pass that finds nothing to do, %d Pods touched", f.PassMilliseconds, f.Touched)
			if f.ReconcileMilliseconds > 0 {
				remark += fmt.Sprintf("; the reconcile took %.2f ms by the clock", f.ReconcileMilliseconds)
			}
			out = append(out, remark)
		case slowStart:
			out = append(out, fmt.Sprintf("slow-start: all containers began to restart within %.1f s, all Pods were ready after %.1f s", f.AllUpdated, f.AllReady))
		}
	}
	return out
}

func (s Setup) String() string {
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

// Print writes the figures for a terminal.
func (r *Result) Print(out io.Writer) {
	fmt.Fprintf(out, "%s\non %s\nwhich took %.2f s before and %.2f s after to %s\n\n", r.Setup, r.Machine, r.Pace.Before, r.Pace.After, Yardstick)
	r.Summary().print(out)
	fmt.Fprintln(out, "\nPods and their subresources alone. All requests of the manager but watches and leases:")
	fmt.Fprintln(out)
	r.Requests().print(out)
	fmt.Fprintln(out)
	for _, remark := range r.Remarks() {
		fmt.Fprintln(out, remark)
	}
}
