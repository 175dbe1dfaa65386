package chaos_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// usualSample is the number of mistakes to plant if MUTANTS is not set. Each mistake takes half a minute.
const usualSample = 5

// sampleSize returns the number of mistakes to plant. The text is the value of the environment variable MUTANTS: a
// number, "all", or empty for the usual number.
func sampleSize(text string, all int) (int, error) {
	switch text {
	case "":
		return min(usualSample, all), nil
	case "all":
		return all, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("MUTANTS=%q: want a number from 1 on, or all", text)
	}
	return min(n, all), nil
}

// sample selects n of the mistakes and keeps their order. The text draw determines the selection. CI uses the commit
// as the text, so that every mistake is selected at some commit.
func sample(all []mutant, n int, draw string) []mutant {
	type ticket struct {
		index int
		sum   [sha256.Size]byte
	}
	var tickets []ticket
	for i, m := range all {
		tickets = append(tickets, ticket{i, sha256.Sum256([]byte(draw + "\x00" + m.tests + "\x00" + m.name))})
	}
	slices.SortFunc(tickets, func(a, b ticket) int { return bytes.Compare(a.sum[:], b.sum[:]) })
	tickets = tickets[:n]
	slices.SortFunc(tickets, func(a, b ticket) int { return a.index - b.index })
	var out []mutant
	for _, t := range tickets {
		out = append(out, all[t.index])
	}
	return out
}

func TestSampleSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		all  int
		want int
	}{{"", 40, usualSample}, {"", 2, 2}, {"all", 40, 40}, {"7", 40, 7}, {"70", 40, 40}} {
		if got, err := sampleSize(tt.text, tt.all); err != nil || got != tt.want {
			t.Errorf("%q of %d: %d, want %d (error %v)", tt.text, tt.all, got, tt.want, err)
		}
	}
	for _, text := range []string{"0", "-1", "some"} {
		if got, err := sampleSize(text, 40); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %d, error %v; want an error that names it", text, got, err)
		}
	}
}

// TestSample: the same text selects the same mistakes, whatever the order of the list. Each mistake is selected by at
// least one of 1000 texts.
func TestSample(t *testing.T) {
	all := mutants()
	names := func(of []mutant) (out []string) {
		for _, m := range of {
			out = append(out, m.tests+" "+m.name)
		}
		return out
	}
	once := names(sample(all, 5, "commit"))
	if diff := cmp.Diff(once, names(sample(all, 5, "commit"))); diff != "" || len(once) != 5 {
		t.Errorf("drawn again (-first +second):\n%s", diff)
	}
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	if diff := cmp.Diff(slices.Sorted(slices.Values(once)), slices.Sorted(slices.Values(names(sample(reversed, 5, "commit"))))); diff != "" {
		t.Errorf("drawn from the list in another order (-want +got):\n%s", diff)
	}
	drawn := map[string]bool{}
	for i := range 1000 {
		for _, name := range names(sample(all, 5, strconv.Itoa(i))) {
			drawn[name] = true
		}
	}
	if len(drawn) != len(all) {
		t.Errorf("1000 commits draw %d of %d mistakes", len(drawn), len(all))
	}
	if diff := cmp.Diff(names(all), names(sample(all, len(all), ""))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
}
