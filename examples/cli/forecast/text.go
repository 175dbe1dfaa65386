package forecast

import (
	"fmt"
	"strings"
	"time"
)

// columns is the width of the text, for a terminal of 80 columns.
const columns = 79

// most is the largest number of Pods of a batch, or of claims, that Text names without the option wide.
const most = 8

// Text renders a report. Without wide, long lists of names are cut.
func Text(r *Report, wide bool) string {
	var b strings.Builder
	if r.Refused != "" {
		b.WriteString(wrap("", r.Object+" would be refused: "+r.Refused))
	} else {
		b.WriteString(wrap("", r.Object+": "+summary(r)))
	}
	for _, warning := range r.Warnings {
		b.WriteString(wrap("Warning: ", warning))
	}
	if r.Refused != "" {
		return b.String()
	}
	writeReasons(&b, r)
	for i := range r.Batches {
		writeBatch(&b, r, i, wide)
	}
	writeClaims(&b, r.Claims, wide)
	for _, budget := range r.Budgets {
		b.WriteString(wrap("budget: ", fmt.Sprintf("PodUnavailableBudget %s lets %d Pods go now; %d of %d must be in service", budget.Name, budget.Allowed, budget.Desired, budget.Available)))
	}
	if len(r.Budgets) > 0 {
		b.WriteString(wrap("budget: ", "of Pods asked for side by side, a budget may let others go first"))
	}
	writeStops(&b, r, wide)
	if len(r.Batches) > 0 {
		b.WriteString(wrap("takes: ", duration(r)))
	}
	for _, unread := range r.Unread {
		b.WriteString(wrap("not read: ", unread))
	}
	return b.String()
}

// summary returns a line with the number of Pods for each Action.
func summary(r *Report) string {
	var parts []string
	for _, of := range []struct {
		action Action
		text   string
	}{
		{InPlace, "updated in place"}, {Recreate, "recreated"}, {Delete, "deleted"}, {Create, "created"}, {Keep, "kept as they are"},
	} {
		if n := r.Count(of.action); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, of.text))
		}
	}
	if len(parts) == 0 {
		return "no Pods"
	}
	return fmt.Sprintf("%d Pods: %s", len(r.Pods), strings.Join(parts, ", "))
}

// writeReasons writes each reason of a recreation once.
func writeReasons(b *strings.Builder, r *Report) {
	seen := map[Reason]bool{}
	for i := range r.Pods {
		for _, why := range r.Pods[i].Reasons {
			if seen[why] {
				continue
			}
			seen[why] = true
			text := why.Code
			if why.Path != "" {
				text += " " + why.Path
			}
			if why.Old != "" || why.New != "" {
				text += fmt.Sprintf(": %s -> %s", or(why.Old), or(why.New))
			}
			if why.Detail != "" {
				text += ": " + why.Detail
			}
			b.WriteString(wrap("recreated for: ", text))
		}
	}
}

func or(value string) string {
	if value == "" {
		return "(none)"
	}
	return value
}

// writeBatch writes the Pods of a batch, grouped by Action. Without wide, only the first and the last batches of a
// long list are written.
func writeBatch(b *strings.Builder, r *Report, i int, wide bool) {
	if n := len(r.Batches); !wide && n > 2*most && i >= most && i < n-2 {
		if i == most {
			fmt.Fprintf(b, "   ... %d more batches ...\n", n-2-most)
		}
		return
	}
	batch := &r.Batches[i]
	fmt.Fprintf(b, "%d. after %s\n", i+1, batch.After.Round(time.Second))
	for _, action := range []Action{InPlace, Recreate, Delete, Create} {
		var names []string
		what := string(action)
		for j := range r.Pods {
			if p := &r.Pods[j]; p.Batch == i+1 && p.Action == action {
				names = append(names, p.Name)
				if action == InPlace && len(names) == 1 {
					what = inPlace(p)
				}
			}
		}
		if len(names) > 0 {
			b.WriteString(wrap("   "+what+": ", list(names, wide)))
		}
	}
}

// inPlace describes the effect of an in-place update on the containers.
func inPlace(p *Pod) string {
	switch {
	case len(p.Restarts) > 0:
		return "in place, restarts " + strings.Join(p.Restarts, " ")
	case len(p.Resizes) > 0:
		return "in place, resizes " + strings.Join(p.Resizes, " ")
	}
	return "in place, no restart"
}

func list(names []string, wide bool) string {
	if n := len(names); !wide && n > most {
		return fmt.Sprintf("%s ... (%d Pods)", strings.Join(names[:most], " "), n)
	}
	return strings.Join(names, " ")
}

func writeClaims(b *strings.Builder, claims []Claim, wide bool) {
	for i, claim := range claims {
		if !wide && i == most {
			fmt.Fprintf(b, "claims: %d more\n", len(claims)-most)
			return
		}
		b.WriteString(wrap("claim: ", strings.TrimSpace(claim.Action+" "+claim.Name+" "+claim.Detail)))
	}
}

func writeStops(b *strings.Builder, r *Report, wide bool) {
	b.WriteString(wrap("ends: ", r.Outcome))
	for _, s := range r.Stops {
		head := s.Code
		if s.Object != "" {
			head += ", " + s.Object
		}
		if len(s.Pods) > 1 {
			head += fmt.Sprintf(" and %d more", len(s.Pods)-1)
		}
		b.WriteString(wrap("stops for: ", head))
		if s.Detail != "" {
			b.WriteString(wrap("   ", s.Detail))
		}
		if s.Ends != "" {
			b.WriteString(wrap("   ends with: ", s.Ends))
		}
		if wide && len(s.Pods) > 1 {
			b.WriteString(wrap("   pods: ", strings.Join(s.Pods, " ")))
		}
	}
}

// duration describes how long the change takes, and the measured times behind the number.
func duration(r *Report) string {
	out := r.Takes
	if out == "" {
		out = "unknown"
	}
	var by []string
	if r.Measured.Restart != "" {
		by = append(by, "a restart took "+r.Measured.Restart)
	}
	if r.Measured.Create != "" {
		by = append(by, "a new Pod took "+r.Measured.Create)
	}
	if len(by) == 0 {
		return out + " (no Pod of the workload tells how long a start takes)"
	}
	return out + " (" + strings.Join(by, ", ") + ")"
}

// wrap breaks a text into lines of at most columns characters. Further lines are indented. Words longer than a line
// are cut into pieces.
func wrap(head, text string) string {
	var b strings.Builder
	line, fresh := head, true
	for word := range strings.FieldsSeq(text) {
		for {
			space := 1
			if fresh {
				space = 0
			}
			room := columns - len(line) - space
			if len(word) <= room {
				line += " "[:space] + word
				fresh = false
				break
			}
			if !fresh || room <= 0 {
				b.WriteString(line + "\n")
				line, fresh = "      ", true
				continue
			}
			b.WriteString(line + word[:room] + "\n")
			line, word = "      ", word[room:]
		}
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}
