package chaos_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/chaos"
)

func steps(numbers ...int) chaos.Script {
	var s chaos.Script
	for _, n := range numbers {
		s = append(s, chaos.Step{N: n})
	}
	return s
}

func TestScriptText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want chaos.Script
	}{
		{"", nil},
		{"7", steps(7)},
		{"1-3", steps(1, 2, 3)},
		{"1-2,5,9-10", steps(1, 2, 5, 9, 10)},
		{"1,2c", chaos.Script{{N: 1}, {N: 2, Calm: true}}},
		{"4-5c,6", chaos.Script{{N: 4, Calm: true}, {N: 5, Calm: true}, {N: 6}}},
	} {
		got, err := chaos.ParseScript(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
	for text, want := range map[string]string{"1,2,3": "1-3", "1-2,3c,4c,6": "1-2,3-4c,6"} {
		s, err := chaos.ParseScript(text)
		if err != nil || s.String() != want {
			t.Errorf("%q is written as %q, %v; want %q", text, s, err, want)
		}
	}
	for _, text := range []string{"0", "a", "3-1", "2,2", "3,1", "-4", "1-", "1,,2", "5x", "1-99999999999", "9999999"} {
		if s, err := chaos.ParseScript(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is read as %v, %v", text, s, err)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	for _, text := range []string{"", "1-12,15c,40", "1-1", "3-2", "c", "9c,10"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := chaos.ParseScript(text)
		if err != nil {
			return
		}
		again, err := chaos.ParseScript(s.String())
		if diff := cmp.Diff(s, again); diff != "" || err != nil {
			t.Errorf("%q becomes %q, %v:\n%s", text, s, err, diff)
		}
	})
}

// needs returns the argument fails for Shrink. The function returns true if all needed steps are played, and the
// steps in faulty are played with faults.
func needs(plays *int, faulty map[int]bool, needed ...int) func(chaos.Script) bool {
	return func(s chaos.Script) bool {
		*plays++
		have := map[int]chaos.Step{}
		for _, step := range s {
			have[step.N] = step
		}
		for _, n := range needed {
			if step, ok := have[n]; !ok || faulty[n] && step.Calm {
				return false
			}
		}
		return true
	}
}

func TestShrink(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		needed []int
		faulty map[int]bool
		want   string
	}{
		{name: "nothing is needed", want: ""},
		{name: "one step", needed: []int{77}, want: "77c"},
		{name: "the first and the last, with faults", needed: []int{1, 150}, faulty: map[int]bool{1: true, 150: true}, want: "1,150"},
		{name: "some of them with faults", needed: []int{3, 50, 51, 52, 120}, faulty: map[int]bool{51: true}, want: "3c,50c,51,52c,120c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plays := 0
			got := chaos.Shrink(chaos.Full(150), 600, needs(&plays, tt.faulty, tt.needed...))
			if got.String() != tt.want {
				t.Errorf("shrunk to %s, want %s", got, tt.want)
			}
			if plays > 600 {
				t.Errorf("%d plays", plays)
			}
		})
	}
	t.Run("few plays", func(t *testing.T) {
		t.Parallel()
		plays := 0
		fails := needs(&plays, nil, 10, 140)
		got := chaos.Shrink(chaos.Full(150), 5, fails)
		if again := 0; plays > 5 || !needs(&again, nil, 10, 140)(got) {
			t.Errorf("%d plays led to %s", plays, got)
		}
	})
}
