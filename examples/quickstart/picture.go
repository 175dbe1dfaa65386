package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// size is the size of a terminal, in characters.
type size struct{ width, height int }

// orUsual returns the size, or 80 by 24 if the terminal does not report a size.
func (s size) orUsual() size {
	return size{cmp.Or(max(s.width, 0), 80), cmp.Or(max(s.height, 0), 24)}
}

// span is a text in a single colour; an empty colour means the terminal's own.
type span struct{ text, colour string }

const bold, dim, green, yellow, red, reset = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"

// picture returns the table line by line, cut to the size of a terminal. Lines must not wrap, and no line may scroll
// away, because lines that have scrolled away cannot be redrawn.
func picture(title string, rows []row, s size) []string {
	s = s.orUsual()
	room := max(s.height-1, 1) // the cursor takes the last line
	var live, gone []row
	for _, r := range rows {
		if r.gone {
			gone = append(gone, r)
		} else {
			live = append(live, r)
		}
	}
	names, column := len("POD"), "UID"
	for _, r := range live {
		if names = max(names, utf8.RuneCountInString(r.name)); r.at != "" {
			column = "NODE"
		}
	}
	out := []string{
		fit(s.width, span{title, bold}),
		fit(s.width, span{fmt.Sprintf("%-*s %-10s %-5s %-9s %-8s %-8s %s", names, "POD", "REVISION", "READY", "HOW", "RESTARTS", column, "WHY"), dim}),
	}
	left := room - len(out)
	if len(gone) > 0 {
		left--
	}
	shown, hidden := fitting(live, left)
	for _, r := range shown {
		text, colour := "no", yellow
		if r.ready {
			text, colour = "yes", green
		}
		out = append(out, fit(s.width,
			span{fmt.Sprintf("%-*s %-10s ", names, r.name, r.revision), ""}, span{fmt.Sprintf("%-5s", text), colour},
			span{fmt.Sprintf(" %-9s %-8d %-8.8s %s", r.how, r.restarts, cmp.Or(r.at, string(r.uid)), r.why), ""}))
	}
	if hidden > 0 {
		out = append(out, fit(s.width, span{fmt.Sprintf("... and %d more", hidden), dim}))
	}
	if len(gone) > 0 {
		out = append(out, fit(s.width, span{folded(gone, s.width), red}))
	}
	return out[:min(len(out), room)]
}

// fitting chooses the rows to draw if only room lines are free: first the Pods that are not available, then the Pods
// with an event. If not all rows fit, one line stays free for the number of hidden rows. The chosen rows keep their
// order in the table.
func fitting(rows []row, room int) (shown []row, hidden int) {
	if len(rows) <= room {
		return rows, 0
	}
	rank := func(r row) int {
		switch {
		case !r.ready:
			return 0
		case r.how != "":
			return 1
		default:
			return 2
		}
	}
	chosen := make([]int, len(rows))
	for i := range chosen {
		chosen[i] = i
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(rank(rows[a]), rank(rows[b])) })
	chosen = chosen[:max(room-1, 0)]
	for _, i := range slices.Sorted(slices.Values(chosen)) {
		shown = append(shown, rows[i])
	}
	return shown, len(rows) - len(shown)
}

// folded returns a single line that names the deleted Pods, and the reasons for the deletions. If the line would be
// too long, folded shortens the list of names.
func folded(gone []row, width int) string {
	var reasons []string
	names := map[string][]string{}
	for _, r := range gone {
		if names[r.why] == nil {
			reasons = append(reasons, r.why)
		}
		names[r.why] = append(names[r.why], r.name)
	}
	text := fmt.Sprintf("%d Pods gone: ", len(gone))
	if len(gone) == 1 {
		text = "1 Pod gone: "
	}
	room := (width - len(text)) / len(reasons)
	groups := make([]string, len(reasons))
	for i, why := range reasons {
		groups[i] = strings.Join(names[why], ", ")
		if why != "" {
			why = " (" + why + ")"
			groups[i] = cut(groups[i], max(room-utf8.RuneCountInString(why), len(names[reasons[i]][0])+len(", ..."))) + why
		}
	}
	return text + strings.Join(groups, "; ")
}

// fit joins spans, and cuts the text off at the width. Colour codes do not count as width.
func fit(width int, spans ...span) string {
	var whole, b strings.Builder
	for _, s := range spans {
		whole.WriteString(s.text)
	}
	left := []rune(cut(whole.String(), width))
	for _, s := range spans {
		n := min(utf8.RuneCountInString(s.text), len(left))
		text := string(left[:n])
		left = left[n:]
		if s.colour != "" && text != "" {
			text = s.colour + text + reset
		}
		b.WriteString(text)
	}
	return b.String()
}

// cut shortens a text that is longer than the width. The shortened text ends with a mark if the width has space for
// the mark.
func cut(text string, width int) string {
	const mark = "..."
	runes := []rune(text)
	switch {
	case len(runes) <= width:
		return text
	case width <= len(mark):
		return string(runes[:max(width, 0)])
	default:
		return string(runes[:width-len(mark)]) + mark
	}
}
