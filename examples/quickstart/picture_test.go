package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

const longTitle = "Größe 4 → 5: a title that is longer than the narrowest of the terminals, but not longer than the widest of them"

// crowd returns rows for live and deleted Pods. The last three live Pods are out of service.
func crowd(live, gone int) []row {
	var rows []row
	for i := range live + gone {
		r := row{
			name: fmt.Sprintf("web-%d", i), revision: "54ddbf8bbd", uid: types.UID(fmt.Sprintf("%08d-0000", i)), restarts: 1, ready: i < live-3,
			how: "in place", why: "only images differ: every other field stays",
		}
		if i >= live {
			r.gone, r.ready, r.why = true, false, fmt.Sprintf("ordinal %d is reserved", i)
		}
		rows = append(rows, r)
	}
	return rows
}

func TestPictureFits(t *testing.T) {
	for _, s := range []size{{80, 24}, {60, 10}, {200, 50}, {0, 0}, {80, 5}, {30, 4}, {7, 3}, {80, 2}, {1, 1}} {
		for _, pods := range []struct{ live, gone int }{{0, 0}, {4, 0}, {4, 1}, {20, 3}, {20, 20}, {200, 150}, {0, 5}} {
			t.Run(fmt.Sprintf("%dx%d %d live %d gone", s.width, s.height, pods.live, pods.gone), func(t *testing.T) {
				lines := picture(longTitle, crowd(pods.live, pods.gone), s)
				width, height := s.width, s.height
				if s == (size{}) {
					width, height = 80, 24
				}
				// The cursor needs a line of its own.
				if len(lines) > max(height-1, 1) {
					t.Errorf("%d lines in a terminal of %d", len(lines), height)
				}
				shown, folded, hidden := 0, 0, 0
				for i, line := range lines {
					line = plain(line)
					if n := utf8.RuneCountInString(line); n > width {
						t.Errorf("line %q is %d wide, the terminal %d", line, n, width)
					}
					switch {
					case i == 0:
						if title := strings.TrimSuffix(line, "..."); title == "" || !strings.HasPrefix(longTitle, title) {
							t.Errorf("title %q", line)
						}
					case i == 1:
						if width >= 7 && !strings.HasPrefix(line, "POD ") {
							t.Errorf("header %q", line)
						}
					case strings.HasPrefix(line, "... and "):
						_, _ = fmt.Sscanf(line, "... and %d more", &hidden)
					case strings.HasPrefix(line, fmt.Sprintf("%d Pod", pods.gone)):
						folded++
					default:
						shown++
					}
				}
				if height < 10 {
					return // the terminal is too small to count the Pods
				}
				if shown+hidden != pods.live || (hidden > 0) != (shown < pods.live) {
					t.Errorf("%d rows and %d more, want %d in all:\n%s", shown, hidden, pods.live, strings.Join(lines, "\n"))
				}
				if want := min(pods.gone, 1); folded != want {
					t.Errorf("%d lines of Pods that are gone, want %d:\n%s", folded, want, strings.Join(lines, "\n"))
				}
				if hidden > 0 && len(lines) != height-1 {
					t.Errorf("%d Pods are hidden, but only %d lines of %d used", hidden, len(lines), height)
				}
			})
		}
	}
}

func TestPicture(t *testing.T) {
	rows := crowd(6, 2)
	rows[0].how, rows[0].why = "", ""
	for _, tc := range []struct {
		name string
		size size
		want string
	}{
		{"room for all", size{80, 24}, `
A title
POD   REVISION   READY HOW       RESTARTS UID      WHY
web-0 54ddbf8bbd yes             1        00000000 
web-1 54ddbf8bbd yes   in place  1        00000001 only images differ: every ...
web-2 54ddbf8bbd yes   in place  1        00000002 only images differ: every ...
web-3 54ddbf8bbd no    in place  1        00000003 only images differ: every ...
web-4 54ddbf8bbd no    in place  1        00000004 only images differ: every ...
web-5 54ddbf8bbd no    in place  1        00000005 only images differ: every ...
2 Pods gone: web-6 (ordinal 6 is reserved); web-7 (ordinal 7 is reserved)`},
		{"what changes now first", size{60, 8}, `
A title
POD   REVISION   READY HOW       RESTARTS UID      WHY
web-3 54ddbf8bbd no    in place  1        00000003 only i...
web-4 54ddbf8bbd no    in place  1        00000004 only i...
web-5 54ddbf8bbd no    in place  1        00000005 only i...
... and 3 more
2 Pods gone: web-6 (ordinal 6 is reserved); web-7 (ordina...`},
		{"then what has changed", size{60, 9}, `
A title
POD   REVISION   READY HOW       RESTARTS UID      WHY
web-1 54ddbf8bbd yes   in place  1        00000001 only i...
web-3 54ddbf8bbd no    in place  1        00000003 only i...
web-4 54ddbf8bbd no    in place  1        00000004 only i...
web-5 54ddbf8bbd no    in place  1        00000005 only i...
... and 2 more
2 Pods gone: web-6 (ordinal 6 is reserved); web-7 (ordina...`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := plain("\n" + strings.Join(picture("A title", rows, tc.size), "\n"))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("picture (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPictureOfNodes: for Pods with a Node in the row, the table shows the Nodes in place of the Pods' names.
func TestPictureOfNodes(t *testing.T) {
	rows := crowd(2, 0)
	for i := range rows {
		rows[i].at, rows[i].ready = fmt.Sprintf("sim-%02d", i), true
	}
	want := `
A title
POD   REVISION   READY HOW       RESTARTS NODE     WHY
web-0 54ddbf8bbd yes   in place  1        sim-00   only images differ: every ...
web-1 54ddbf8bbd yes   in place  1        sim-01   only images differ: every ...`
	if diff := cmp.Diff(want, plain("\n"+strings.Join(picture("A title", rows, size{80, 24}), "\n"))); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
}

func TestColoursOfACutLine(t *testing.T) {
	spans := []span{{"plain ", ""}, {"bold", bold}, {" end", ""}}
	for width, want := range map[int]string{
		14: "plain " + bold + "bold" + reset + " end",
		11: "plain " + bold + "bo.." + reset + ".",
		7:  "plai.." + bold + "." + reset,
		2:  "pl",
	} {
		if diff := cmp.Diff(want, fit(width, spans...)); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

func TestFolded(t *testing.T) {
	gone := func(why string, names ...string) (rows []row) {
		for _, name := range names {
			rows = append(rows, row{name: name, why: why, gone: true})
		}
		return rows
	}
	for _, tc := range []struct {
		name string
		rows []row
		want string
	}{
		{"one", gone("ordinal 3 is reserved", "web-3"), "1 Pod gone: web-3 (ordinal 3 is reserved)"},
		{"no reason", gone("", "web-1", "web-2"), "2 Pods gone: web-1, web-2"},
		{"one reason", gone("start", "web-0", "web-2"), "2 Pods gone: web-0, web-2 (start)"},
		{"two reasons", append(gone("a", "web-0"), gone("b", "web-1")...), "2 Pods gone: web-0 (a); web-1 (b)"},
		{
			"many names leave room for the reason", gone("spec.x (ImmutableField)", "web-0", "web-1", "web-2", "web-3", "web-4", "web-5"),
			"6 Pods gone: web-0, web-1,... (spec.x (ImmutableField))",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, folded(tc.rows, 55)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTable draws on a terminal. Before a resize, the terminal shows the previous text and the last picture of each
// part. After a resize, the terminal shows the newly drawn picture, and nothing of a picture for another size.
func TestTable(t *testing.T) {
	for _, first := range []size{{80, 24}, {60, 10}, {200, 50}} {
		t.Run(fmt.Sprintf("%dx%d", first.width, first.height), func(t *testing.T) {
			screen := &terminal{size: first}
			w := newWorld(nil)
			table := &table{out: screen, world: w, size: func() size { return screen.size }}
			fmt.Fprintln(screen, "what was there before")
			stand := []string{"what was there before"}
			resized := false
			draws := func(after string, live, gone int, how func()) {
				t.Helper()
				w.rows = map[types.UID]*row{}
				for _, r := range crowd(live, gone) {
					w.rows[r.uid] = &r
				}
				how()
				now := strings.Split(plain(strings.Join(picture(table.head, crowd(live, gone), screen.size), "\n")), "\n")
				want, got := slices.Concat(stand, now), slices.Concat(screen.scrolled, screen.screen)
				if resized {
					want, got = now, screen.screen
				}
				if table.last == nil { // the part is over, so an empty line is below the picture
					want = append(want, "")
					stand = slices.Clone(want)
				}
				if diff := cmp.Diff(append(want, ""), got); diff != "" { // the cursor stands in the last line
					t.Errorf("%s (-want +got):\n%s", after, diff)
				}
				if screen.wraps > 0 {
					t.Errorf("%s: %d lines were wrapped", after, screen.wraps)
				}
			}
			table.title("The first part")
			draws("nothing", 0, 0, table.draw)
			draws("creation", 4, 0, table.draw)
			draws("a Pod less", 3, 1, table.draw)
			draws("the end of the part", 3, 2, table.done)
			table.title("The second part")
			draws("a part below another", 5, 0, table.draw)
			draws("the end of a part that was drawn", 5, 0, table.done)
			table.title("The third part")
			draws("more than there is room for", 100, 30, table.draw)
			draws("fewer", 4, 30, table.draw)
			resized = true
			for _, s := range []size{{40, 24}, {40, 8}, {120, 40}, {120, 12}, {50, 12}, {80, 24}} {
				screen.resize(s)
				draws(fmt.Sprintf("a resize to %dx%d", s.width, s.height), 20, 5, table.draw)
				draws(fmt.Sprintf("a change after the resize to %dx%d", s.width, s.height), 3, 6, table.draw)
				screen.resize(size{30, 5}) // no picture is drawn for this size
				screen.resize(size{s.width + 1, s.height + 1})
				draws("a resize by way of another", 3, 6, table.draw)
			}
			screen.resize(size{100, 30})
			screen.resize(size{20, 30})
			screen.resize(size{110, 30})
			draws("room for the whole picture before and after", 3, 0, table.draw)
			screen.resize(size{20, 30})
			screen.resize(size{120, 30})
			draws("the same picture for another size", 3, 0, table.draw)
		})
	}
}

func TestCut(t *testing.T) {
	for width, want := range map[int]string{9: "Größe → 5", 8: "Größe...", 7: "Größ...", 4: "G...", 3: "Grö", 1: "G", 0: "", -1: ""} {
		if got := cut("Größe → 5", width); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
}

func TestTableWritesNothingWhereNothingHasChanged(t *testing.T) {
	var out bytes.Buffer
	table := &table{out: &out, world: newWorld(nil), size: func() size { return size{80, 24} }}
	table.title("A part")
	table.draw()
	if out.Len() == 0 {
		t.Fatal("nothing was drawn")
	}
	out.Reset()
	if table.draw(); out.Len() > 0 {
		t.Errorf("the same picture was drawn again: %q", out.String())
	}
}
