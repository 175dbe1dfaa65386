package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// terminal is a terminal emulator for tests: it interprets the output of the table.
type terminal struct {
	size
	scrolled []string // lines that have scrolled off the top
	screen   []string // lines from the top of the screen to the lowest written line
	row, col int
	wraps    int // the number of wrapped lines
}

// Write interprets only the escape sequences that the table uses.
func (t *terminal) Write(p []byte) (int, error) {
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			t.newline()
		case '\x1b':
			end := i + 2
			for !strings.ContainsRune("AHJKm", text[end]) {
				end++
			}
			t.escape(string(text[i+2:end]), text[end])
			i = end
		default:
			t.put(text[i])
		}
	}
	return len(p), nil
}

func (t *terminal) escape(param string, command rune) {
	t.reach()
	switch {
	case command == 'A':
		var n int
		if _, err := fmt.Sscan(param, &n); err != nil {
			panic(err)
		}
		t.row, t.col = max(t.row-n, 0), min(t.col, t.width-1)
	case command == 'H' && param == "":
		t.row, t.col = 0, 0
	case command == 'J' && param == "":
		t.screen = t.screen[:t.row+1]
		t.screen[t.row] = firstRunes(t.screen[t.row], t.col)
	case command == 'K' && param == "2":
		t.screen[t.row] = ""
	case command == 'm':
	default:
		panic(fmt.Sprintf("unknown sequence %q %q", param, command))
	}
}

func firstRunes(s string, n int) string { return string([]rune(s)[:min(n, len([]rune(s)))]) }

// reach adds empty lines down to the line of the cursor.
func (t *terminal) reach() {
	for len(t.screen) <= t.row {
		t.screen = append(t.screen, "")
	}
}

func (t *terminal) put(r rune) {
	if t.col == t.width {
		t.wraps++
		t.newline()
	}
	t.reach()
	line := []rune(t.screen[t.row])
	for len(line) <= t.col {
		line = append(line, ' ')
	}
	line[t.col] = r
	t.screen[t.row] = string(line)
	t.col++
}

func (t *terminal) newline() {
	t.reach()
	t.row, t.col = t.row+1, 0
	t.reach()
	t.scroll()
}

// scroll moves lines off the top until the cursor is on the screen.
func (t *terminal) scroll() {
	for t.row >= t.height {
		t.scrolled, t.screen = append(t.scrolled, t.screen[0]), t.screen[1:]
		t.row--
	}
}

// resize wraps lines that are too long for the new width. If the screen has grown, resize brings lines back that have
// scrolled off the top, as usual terminals do.
func (t *terminal) resize(s size) {
	t.reach()
	cursor, before := t.screen[t.row:], t.screen[:t.row]
	var wrapped []string
	for _, line := range before {
		for len([]rune(line)) > s.width {
			wrapped = append(wrapped, firstRunes(line, s.width))
			line = string([]rune(line)[s.width:])
		}
		wrapped = append(wrapped, line)
	}
	t.size, t.row, t.screen = s, len(wrapped), slices.Concat(wrapped, cursor[:1])
	for t.row < t.height-1 && len(t.scrolled) > 0 {
		last := len(t.scrolled) - 1
		t.screen, t.scrolled, t.row = slices.Insert(t.screen, 0, t.scrolled[last]), t.scrolled[:last], t.row+1
	}
	t.scroll()
}

// plain returns a line without colours.
func plain(line string) string {
	return regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(line, "")
}
