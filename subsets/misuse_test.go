package subsets_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// TestStandingIsAsked: if Config.Reserve is set, Divide returns an error for a subset without a Standing.
func TestStandingIsAsked(t *testing.T) {
	rules, err := subsets.New(subsets.Config{Fill: subsets.InOrder, Reserve: true}, list{bounded("new", "", "4"), bounded("a", "", "4"), bounded("b", "", "")})
	if err != nil {
		t.Fatal(err)
	}
	states := []subsets.State{{}, state(4, 4, subsets.Open), state(4, 4, subsets.Open)}
	d, err := rules.Divide(8, states)
	if why := reason.From(err); len(why) != 1 || why[0].Code != subsets.InvalidState {
		t.Errorf("without a standing: %v, %v", d.Replicas, err)
	}
	states[0].Standing = subsets.OnTrial
	d, err = rules.Divide(8, states)
	if diff := cmp.Diff([]int{4, 4, 4}, d.Replicas); err != nil || diff != "" {
		t.Errorf("the settled Pods stay until the new have settled: %v (-want +got):\n%s", err, diff)
	}
}

// TestPlacesOfOtherFills: Places returns an error unless the Fill is InOrder, because otherwise the first subset with
// a free place is not the right subset.
func TestPlacesOfOtherFills(t *testing.T) {
	for _, tc := range []struct {
		fill    subsets.Fill
		subsets list
		refused bool
	}{
		{subsets.InOrder, list{bounded("a", "", "3"), bounded("b", "", "")}, false},
		{subsets.ByWeight, list{weighted("a", 3, "", ""), weighted("b", 1, "", "")}, true},
		{subsets.Fixed, list{{Name: "a"}, {Name: "b"}}, true},
	} {
		rules, err := subsets.New(subsets.Config{Fill: tc.fill}, tc.subsets)
		if err != nil {
			t.Fatal(err)
		}
		if places, err := rules.Places(8, nil); (err != nil) != tc.refused {
			t.Errorf("%s: %v, %v", tc.fill, places, err)
		}
	}
}

// TestClosedPlaces: a closed subset takes a new Pod only for its minimum.
func TestClosedPlaces(t *testing.T) {
	for _, tc := range []struct {
		name  string
		least string
		want  string
	}{
		{"a Pod was let go", "", "b"},
		{"the minimum is not met", "5", "a"},
	} {
		rules, err := subsets.New(subsets.Config{Fill: subsets.InOrder}, list{bounded("a", tc.least, ""), bounded("b", "", "")})
		if err != nil {
			t.Fatal(err)
		}
		d, err := rules.Divide(8, []subsets.State{state(4, 4, subsets.Closed), state(4, 4, "")})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]int{"a": 3, "b": 2}
		if got := subsets.Pick(d.Places(), func(name string) int { return have[name] }); got.Subset != tc.want {
			t.Errorf("%s: %q, want %q; %v", tc.name, got.Subset, tc.want, d.Places())
		}
	}
}

// TestWrongPlaces: places without a name, and further places of the same name, take no Pods. If there are no places,
// the reason says so.
func TestWrongPlaces(t *testing.T) {
	var policy subsets.Policy
	twice := []subsets.Place{{Name: "a", Max: 1}, {Name: "", Max: 9}, {Name: "a", Max: 2}}
	var book subsets.Book
	into := map[string]int{}
	for n := range 4 {
		var choice subsets.Choice
		book, choice = policy.Take(book, twice, fmt.Sprint("web-", n), noon)
		into[choice.Subset]++
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "": 3}, into); diff != "" {
		t.Errorf("Pods by subset (-want +got):\n%s", diff)
	}
	tally := policy.Count(book, twice, []subsets.Member{{Name: "web-0", Subset: "a", Created: noon}}, noon)
	if diff := cmp.Diff(subsets.Book{{Name: "a", Replicas: 1}}, tally.Book); diff != "" {
		t.Errorf("book (-want +got):\n%s", diff)
	}
	none := func(string) int { return 0 }
	if got := subsets.Pick([]subsets.Place{{Name: "a", Max: -2}}, none); got.Subset != "" {
		t.Error("a maximum below Unlimited takes a Pod")
	}
	_, taken := policy.Take(nil, nil, "web-0", noon)
	for who, got := range map[string]subsets.Choice{"Pick": subsets.Pick(nil, none), "PickNumbered": subsets.PickNumbered(nil, 0), "Take": taken} {
		if got.Subset != "" || len(got.Why) != 1 {
			t.Errorf("%s without places: %+v", who, got)
		}
	}
}

// TestCountKnowsPods: no Pod that exists is reported as not created, and no Pod has two places.
func TestCountKnowsPods(t *testing.T) {
	var policy subsets.Policy
	places := []subsets.Place{{Name: "spot", Max: 1}, {Name: "demand", Max: 5}}
	book, _ := policy.Take(nil, places, "web-0", noon)
	elsewhere := []subsets.Member{{Name: "web-0", Subset: "demand", Created: noon.Add(time.Second)}}
	tally := policy.Count(book, places, elsewhere, noon.Add(5*time.Second))
	if diff := cmp.Diff(subsets.Book{{Name: "spot"}, {Name: "demand", Replicas: 1}}, tally.Book); diff != "" {
		t.Errorf("a Pod in another subset than admitted (-want +got):\n%s", diff)
	}

	there := []subsets.Member{{Name: "web-0", Subset: "spot", Created: noon.Add(-time.Hour)}}
	book = policy.Count(nil, places, there, noon).Book
	book, again := policy.Take(book, places, "web-0", noon) // a second request; the API server refuses a second Pod of the same name
	if again.Subset != "demand" {
		t.Fatalf("the second request: %+v", again)
	}
	tally = policy.Count(book, places, there, noon.Add(time.Minute))
	if diff := cmp.Diff(subsets.Tally{Book: subsets.Book{{Name: "spot", Replicas: 1}, {Name: "demand"}}}, tally); diff != "" {
		t.Errorf("a Pod that was there before (-want +got):\n%s", diff)
	}
}

// TestMarks: an invalid Mark closes a subset for ClosedFor, and never opens a subset.
func TestMarks(t *testing.T) {
	policy := subsets.Policy{PendingFor: time.Minute, ClosedFor: time.Hour}
	for _, tc := range []struct {
		was, want subsets.Mark
	}{
		{subsets.Mark{}, subsets.Mark{Standing: subsets.Open}},
		{subsets.Mark{Standing: "closed", Since: noon}, subsets.Mark{Standing: subsets.Closed, Since: noon.Add(time.Minute)}},
		{subsets.Mark{Standing: subsets.Closed}, subsets.Mark{Standing: subsets.Closed, Since: noon.Add(time.Minute)}},
		{subsets.Mark{Standing: subsets.Closed, Since: noon}, subsets.Mark{Standing: subsets.Closed, Since: noon}},
	} {
		got, _ := policy.Next(tc.was, 0, noon.Add(time.Minute))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("after %+v (-want +got):\n%s", tc.was, diff)
		}
	}
	text, err := json.Marshal([]subsets.Mark{{}, {Standing: subsets.Closed, Since: noon}})
	if want := `[{},{"standing":"Closed","since":"2026-07-01T12:00:00Z"}]`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
