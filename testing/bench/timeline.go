package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/testing/bench/picture"
)

// WriteSVG draws the rollouts of the run, with a row for each Pod. A Result decoded from JSON contains no rollouts.
func (r *Result) WriteSVG(w io.Writer) error {
	var panels []picture.Panel
	for _, d := range r.rollouts {
		// The time axis ends with the last event of a Pod, because the status is updated later.
		panels = append(panels, picture.Panel{Title: d.title(r.Setup.Change), Seconds: max(d.figure.Seconds, d.figure.AllReady), Rows: rows(d.lives, d.figure.Seconds)})
	}
	if len(panels) == 0 {
		return errors.New("drawing the timeline: no rollout was seen")
	}
	if err := picture.WriteTimeline(w, r.title(), r.Setup.String(), panels); err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	return nil
}

// WriteHTML writes a page with the picture of [Result.WriteSVG].
func (r *Result) WriteHTML(w io.Writer) error {
	if err := picture.Page(w, r.title(), r.WriteSVG); err != nil {
		return fmt.Errorf("drawing a page: %w", err)
	}
	return nil
}

func (r *Result) title() string { return fmt.Sprintf("Rollouts of %d Pods", r.Setup.Pods) }

func (d drawn) title(change string) string {
	title := d.phase.picture
	if title == pictureOfChange {
		title += change
	}
	return fmt.Sprintf("%s: %.1f s, %.2f writes per Pod", title, d.figure.Seconds, d.figure.Writes)
}

// rows returns a row for each Pod, in the order in which the rollout reached the Pods. A deleted Pod and its
// replacement have a common row. The replacement is the new Pod with the same name. If there is none, the replacement
// is the next new Pod of the same object.
func rows(lives []life, end float64) []picture.Row {
	var old, born []life
	for _, l := range lives {
		if l.existed {
			old = append(old, l)
		} else {
			born = append(born, l)
		}
	}
	slices.SortStableFunc(old, func(a, b life) int {
		return cmp.Or(cmp.Compare(reached(a), reached(b)), cmp.Compare(a.pod, b.pod))
	})
	slices.SortStableFunc(born, func(a, b life) int {
		return cmp.Or(cmp.Compare(a.moments[0].at, b.moments[0].at), cmp.Compare(a.pod, b.pod))
	})
	heirs := newHeirs(born)
	var out []picture.Row
	for _, l := range old {
		row := picture.Row{Name: l.pod, Spans: spans(l, end)}
		if heir, found := heirs.of(l); found {
			row.Way, row.Name = picture.Recreated, l.pod+", then "+heir.pod
			row.Born = heir.moments[0].at.Seconds()
			row.Spans = append(row.Spans, spans(heir, end)...)
		} else if slices.ContainsFunc(l.moments[1:], func(m moment) bool { return m.updated }) {
			row.Way = picture.InPlace
		}
		out = append(out, row)
	}
	for _, l := range heirs.left() { // new Pods of a scale-up or a surge
		out = append(out, picture.Row{Name: l.pod, Spans: spans(l, end), Way: picture.Recreated, Born: l.moments[0].at.Seconds()})
	}
	return out
}

// reached returns the time of the first change that the rollout made to the Pod.
func reached(l life) time.Duration {
	if len(l.moments) > 1 {
		return l.moments[1].at
	}
	if l.gone > 0 {
		return l.gone
	}
	return time.Duration(1<<63 - 1)
}

// spans converts the moments of a Pod to spans.
func spans(l life, end float64) []picture.Span {
	if l.gone > 0 {
		end = l.gone.Seconds()
	}
	var out []picture.Span
	for i, m := range l.moments {
		until := end
		if i+1 < len(l.moments) {
			until = l.moments[i+1].at.Seconds()
		}
		state := picture.NotReady
		switch {
		case m.ready && m.updated:
			state = picture.New
		case m.ready:
			state = picture.Old
		}
		from := m.at.Seconds()
		if last := len(out) - 1; last >= 0 && out[last].State == state {
			out[last].To = max(until, from)
			continue
		}
		out = append(out, picture.Span{From: from, To: max(until, from), State: state})
	}
	return out
}

// heirs contains the new Pods in order, and assigns them to deleted Pods as replacements.
type heirs struct {
	born     []life
	taken    []bool
	byName   map[string]int
	byObject map[string][]int
}

func newHeirs(born []life) *heirs {
	h := &heirs{born: born, taken: make([]bool, len(born)), byName: map[string]int{}, byObject: map[string][]int{}}
	for i, l := range born {
		h.byName[l.pod] = i
		h.byObject[l.object] = append(h.byObject[l.object], i)
	}
	return h
}

func (h *heirs) of(l life) (heir life, found bool) {
	if l.gone == 0 {
		return life{}, false
	}
	if i, same := h.byName[l.pod]; same && !h.taken[i] {
		h.taken[i] = true
		return h.born[i], true
	}
	queue := h.byObject[l.object]
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if !h.taken[i] {
			h.taken[i] = true
			h.byObject[l.object] = queue
			return h.born[i], true
		}
	}
	h.byObject[l.object] = queue
	return life{}, false
}

func (h *heirs) left() (out []life) {
	for i, l := range h.born {
		if !h.taken[i] {
			out = append(out, l)
		}
	}
	return out
}
