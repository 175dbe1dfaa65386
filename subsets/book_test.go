package subsets_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// ago returns an API time, the given duration before start.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(start.Add(-d)) }

type times = map[string]metav1.Time

func limited(name string, n int) subsets.Place { return subsets.Place{Name: name, Max: n} }

func unlimited(name string) subsets.Place {
	return subsets.Place{Name: name, Max: subsets.Unlimited}
}

func shut(p subsets.Place) subsets.Place { p.Closed = true; return p }

type places []subsets.Place

// ExamplePolicy_Take: webhooks take places for new Pods, and the controller counts the Pods later.
func ExamplePolicy_Take() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	places := []subsets.Place{{Name: "zone-a", Max: 1}, {Name: "zone-b", Max: subsets.Unlimited}}
	var policy subsets.Policy
	var book subsets.Book // from the status
	for _, pod := range []string{"web-1", "web-1", "web-2"} {
		after, choice := policy.Take(book, places, pod, now)
		fmt.Println(pod, "goes to", choice.Subset, "- store the book:", choice.Changed)
		book = after
	}
	counted := policy.Count(book, places, []subsets.Member{{Name: "web-2", Subset: "zone-b"}}, now.Add(10*time.Second))
	for i, place := range places {
		fmt.Println(place.Name, "lacks", counted.Book[i].Missing(place))
	}
	fmt.Println("count again after", counted.RequeueAfter)
	// Output:
	// web-1 goes to zone-a - store the book: true
	// web-1 goes to zone-a - store the book: false
	// web-2 goes to zone-b - store the book: false
	// zone-a lacks 0
	// zone-b lacks -1
	// count again after 20s
}

// TestTake takes places one after the other, for Pods named pod-0, pod-1 and so on.
func TestTake(t *testing.T) {
	for _, tc := range []struct {
		name   string
		places places
		pods   int
		want   []string
	}{
		{"WS-17 a of 2, then b", places{limited("a", 2), unlimited("b")}, 4, []string{"a", "a", "b", "b"}},
		{
			"WS-17 pod 6 finds no subset",
			places{limited("a", 2), limited("b", 3)},
			6,
			[]string{"a", "a", "b", "b", "b", ""},
		},
		{
			"WS-17 an unschedulable subset is skipped",
			places{shut(limited("a", 2)), limited("b", 1), unlimited("c")},
			2,
			[]string{"b", "c"},
		},
		{"WS-17 nor is an unlimited one taken", places{shut(unlimited("a")), limited("b", 1)}, 2, []string{"b", ""}},
		{"no place at all", nil, 1, []string{""}},
		{"a place of nobody", places{{}}, 1, []string{""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			var book subsets.Book
			for i := range tc.pods {
				after, choice := subsets.Policy{}.Take(book, tc.places, fmt.Sprint("pod-", i), start)
				got, book = append(got, choice.Subset), after
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func has(entries times, key string) bool {
	_, ok := entries[key]
	return ok
}

func TestTakeChangesTheBook(t *testing.T) {
	now := ago(0)
	for _, tc := range []struct {
		name   string
		book   subsets.Book
		places places
		key    string
		want   subsets.Book
		choice subsets.Choice
	}{
		{
			"WS-15 a single unlimited subset needs no book", nil,
			places{unlimited("a")},
			"", nil,
			subsets.Choice{Subset: "a"},
		},
		{
			"WS-16 no list yet", nil,
			places{limited("a", 2), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Creating: times{"p": now}}, {Name: "b"}},
			subsets.Choice{Subset: "a", Changed: true},
		},
		{
			"WS-18 the place is taken before the Pod is admitted",
			subsets.Book{{Name: "a", Replicas: 1}},
			places{limited("a", 2)},
			"p",
			subsets.Book{{Name: "a", Replicas: 1, Creating: times{"p": now}}},
			subsets.Choice{Subset: "a", Changed: true},
		},
		{
			"WS-18 nothing is written for an unlimited subset",
			subsets.Book{{Name: "a", Replicas: 7}},
			places{unlimited("a")},
			"p",
			subsets.Book{{Name: "a", Replicas: 7}},
			subsets.Choice{Subset: "a"},
		},
		{
			"WS-19 asked again, no second place",
			subsets.Book{{Name: "a", Creating: times{"p": ago(time.Second)}}},
			places{limited("a", 1), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Creating: times{"p": ago(time.Second)}}},
			subsets.Choice{Subset: "a"},
		},
		{
			"WS-19 asked again for an unnamed Pod, by its key",
			subsets.Book{{Name: "a", Creating: times{"3f0c": ago(time.Second)}}},
			places{limited("a", 2)},
			"3f0c",
			subsets.Book{{Name: "a", Creating: times{"3f0c": ago(time.Second)}}},
			subsets.Choice{Subset: "a"},
		},
		{
			"WS-19 the answer stands though the subset is closed now",
			subsets.Book{{Name: "a", Creating: times{"p": ago(time.Second)}}},
			places{shut(limited("a", 1)), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Creating: times{"p": ago(time.Second)}}},
			subsets.Choice{Subset: "a"},
		},
		{
			"WS-19 asked again after a while, the place stays for longer",
			subsets.Book{{Name: "a", Creating: times{"p": ago(2 * time.Second)}}},
			places{limited("a", 1)},
			"p",
			subsets.Book{{Name: "a", Creating: times{"p": now}}},
			subsets.Choice{Subset: "a", Changed: true},
		},
		{
			"WS-19 the name of a Pod let go gets the subset again, and takes its place",
			subsets.Book{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 2, Deleting: times{"p": now}}},
			places{limited("a", 2), limited("b", 2)},
			"p",
			subsets.Book{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 2, Creating: times{"p": now}}},
			subsets.Choice{Subset: "b", Changed: true},
		},
		{
			"WS-19 but not if somebody has taken the place",
			subsets.Book{{Name: "a", Replicas: 1, Creating: times{"q": now}, Deleting: times{"p": now}}, {Name: "b"}},
			places{limited("a", 1), limited("b", 1)},
			"p",
			subsets.Book{{Name: "a", Replicas: 1, Creating: times{"q": now}}, {Name: "b", Creating: times{"p": now}}},
			subsets.Choice{Subset: "b", Changed: true, Why: kept("a", "1", 0, 1)},
		},
		{
			"WS-45 nor in a closed subset",
			subsets.Book{{Name: "a", Replicas: 1, Deleting: times{"p": now}}, {Name: "b"}},
			places{shut(limited("a", 1)), limited("b", 1)},
			"p",
			subsets.Book{{Name: "a", Replicas: 1}, {Name: "b", Creating: times{"p": now}}},
			subsets.Choice{Subset: "b", Changed: true, Why: closed("a")},
		},
		{
			"WS-18 no place without a key", nil,
			places{limited("a", 2)},
			"", nil,
			subsets.Choice{Why: list1(subsets.NoKey, "a", "", "the place needs a name", "give the Pod a name or a key")},
		},
		{
			"places kept for requests under way are no Pods",
			subsets.Book{{Name: "a", Replicas: 2, Creating: times{"r": ago(time.Second), "s": now}, Deleting: times{"q": now}}},
			places{limited("a", 3), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Replicas: 2, Creating: times{"r": ago(time.Second), "s": now}, Deleting: times{"q": now}}},
			subsets.Choice{Subset: "b", Why: kept("a", "3", 1, 2)},
		},
		{
			"a subset full of Pods is full, whatever is under way",
			subsets.Book{{Name: "a", Replicas: 3, Creating: times{"r": now}}},
			places{limited("a", 3), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Replicas: 3, Creating: times{"r": now}}},
			subsets.Choice{Subset: "b", Why: full("a", "3")},
		},
		{
			"a place given back for a deletion is free",
			subsets.Book{{Name: "a", Replicas: 2, Deleting: times{"q": now}}},
			places{limited("a", 2)},
			"p",
			subsets.Book{{Name: "a", Replicas: 2, Creating: times{"p": now}, Deleting: times{"q": now}}},
			subsets.Choice{Subset: "a", Changed: true},
		},
		{
			"a deletion in an overfull subset makes no room",
			subsets.Book{{Name: "a", Replicas: 5, Deleting: times{"q": now}}},
			places{limited("a", 4), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Replicas: 5, Deleting: times{"q": now}}},
			subsets.Choice{Subset: "b", Why: full("a", "4")},
		},
		{
			"a lowered maximum counts at once",
			subsets.Book{{Name: "a", Replicas: 2}},
			places{limited("a", 2), unlimited("b")},
			"p",
			subsets.Book{{Name: "a", Replicas: 2}},
			subsets.Choice{Subset: "b", Why: full("a", "2")},
		},
		{
			"subsets that are gone have no line, new ones get a line",
			subsets.Book{{Name: "old", Replicas: 2}, {Name: "b", Replicas: 1}},
			places{limited("a", 1), limited("b", 2)},
			"p",
			subsets.Book{{Name: "a", Creating: times{"p": now}}, {Name: "b", Replicas: 1}},
			subsets.Choice{Subset: "a", Changed: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.book.DeepCopy()
			got, choice := subsets.Policy{}.Take(tc.book, tc.places, tc.key, start)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("book (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.choice, choice); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
			had := func(line subsets.Line) bool { return has(line.Creating, tc.key) || has(line.Deleting, tc.key) }
			if choice.Changed = false; tc.key != "" && !slices.ContainsFunc(tc.book, had) {
				if diff := cmp.Diff(choice, subsets.Policy{}.Pick(tc.book, tc.places)); diff != "" {
					t.Errorf("Pick, which takes no place (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(before, tc.book); diff != "" {
				t.Errorf("the given book has changed:\n%s", diff)
			}
		})
	}
}

// TestTakeAgainAfterConflict: two webhooks take places in the same version of the book. The second write gets a
// conflict, so the second webhook reads the book again, and takes another place.
func TestTakeAgainAfterConflict(t *testing.T) {
	t.Run("WS-20", func(t *testing.T) {
		at := places{limited("a", 1), limited("b", 1)}
		var stored subsets.Book
		first, one := subsets.Policy{}.Take(stored, at, "p", start)
		_, two := subsets.Policy{}.Take(stored, at, "q", start)
		if one.Subset != "a" || two.Subset != "a" {
			t.Fatalf("with the same book %q and %q", one.Subset, two.Subset)
		}
		if _, again := (subsets.Policy{}).Take(first, at, "q", start); again.Subset != "b" {
			t.Errorf("after the conflict %q, want b", again.Subset)
		}
	})
}

// TestBooksOfRevisions: if each revision has its own book, each revision can use all places.
func TestBooksOfRevisions(t *testing.T) {
	t.Run("WS-22", func(t *testing.T) {
		rules, err := subsets.New(subsets.Config{Fill: subsets.InOrder, Rounding: partition.Up}, list{bounded("a", "", "3"), bounded("b", "", "")})
		if err != nil {
			t.Fatal(err)
		}
		at, err := rules.Places(5, nil)
		if err != nil {
			t.Fatal(err)
		}
		books := map[string]subsets.Book{"v1": {{Name: "a", Replicas: 3}, {Name: "b", Replicas: 2}}}
		var got []string
		for i := range 5 {
			after, choice := subsets.Policy{}.Take(books["v2"], at, fmt.Sprint("new-", i), start)
			books["v2"], got = after, append(got, choice.Subset)
		}
		if diff := cmp.Diff([]string{"a", "a", "a", "b", "b"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFollows(t *testing.T) {
	now := ago(0)
	earlier := subsets.Book{{Name: "a", Replicas: 3, Creating: times{"p": now}, Deleting: times{"q": now}}, {Name: "b", Replicas: 1}}
	for _, tc := range []struct {
		name string
		book subsets.Book
		want bool
	}{
		{"the same book", earlier.DeepCopy(), true},
		{
			"a place was taken, and another was given back",
			subsets.Book{{Name: "a", Replicas: 3, Creating: times{"p": now, "r": now}, Deleting: times{"q": now, "s": now}}, {Name: "b", Replicas: 1}},
			true,
		},
		{"another subset", append(earlier.DeepCopy(), subsets.Line{Name: "c", Replicas: 9}), true},
		{"a Pod less", subsets.Book{{Name: "a", Replicas: 2, Creating: times{"p": now}, Deleting: times{"q": now}}, {Name: "b", Replicas: 1}}, false},
		{"a Pod less, and a new Pod", subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"q": now}}, {Name: "b", Replicas: 1}}, false},
		{"a deleted Pod is gone", subsets.Book{{Name: "a", Replicas: 3, Creating: times{"p": now}}, {Name: "b", Replicas: 1}}, false},
		{"a subset is gone", subsets.Book{{Name: "a", Replicas: 3, Creating: times{"p": now}, Deleting: times{"q": now}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.book.Follows(earlier); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	now := ago(0)
	at := places{limited("a", 3), unlimited("b")}
	for _, tc := range []struct {
		name    string
		book    subsets.Book
		member  subsets.Member
		want    subsets.Book
		changed bool
	}{
		{
			"WS-27 the place is free again",
			subsets.Book{{Name: "a", Replicas: 3}, {Name: "b"}},
			subsets.Member{Name: "p", Subset: "a"},
			subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": now}}, {Name: "b"}},
			true,
		},
		{
			"WS-27 recorded already",
			subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": ago(9)}}},
			subsets.Member{Name: "p", Subset: "a"},
			subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": ago(9)}}},
			false,
		},
		{
			"WS-27 unlimited",
			subsets.Book{{Name: "b", Replicas: 3}},
			subsets.Member{Name: "p", Subset: "b"},
			subsets.Book{{Name: "b", Replicas: 3}},
			false,
		},
		{"WS-27 unknown", nil, subsets.Member{Name: "p", Subset: "c"}, nil, false},
		{"no name", nil, subsets.Member{Key: "3f0c", Subset: "a"}, nil, false},
		{
			"not counted yet",
			subsets.Book{{Name: "a", Creating: times{"p": now, "q": now}}, {Name: "b"}},
			subsets.Member{Name: "p", Subset: "a"},
			subsets.Book{{Name: "a", Creating: times{"q": now}}, {Name: "b"}},
			true,
		},
		{
			"not counted yet, by its key",
			subsets.Book{{Name: "a", Creating: times{"3f0c": now}}, {Name: "b"}},
			subsets.Member{Name: "p", Key: "3f0c", Subset: "a"},
			subsets.Book{{Name: "a"}, {Name: "b"}},
			true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.book.DeepCopy()
			got, changed := subsets.Policy{}.Release(tc.book, at, tc.member, start)
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.changed {
				t.Errorf("changed %v, want %v; (-want +got):\n%s", changed, tc.changed, diff)
			}
			if diff := cmp.Diff(before, tc.book); diff != "" {
				t.Errorf("the given book has changed:\n%s", diff)
			}
		})
	}
}

func TestCount(t *testing.T) {
	at := places{limited("a", 3), unlimited("b")}
	in := func(subset string, names ...string) (out []subsets.Member) {
		for _, name := range names {
			out = append(out, subsets.Member{Name: name, Subset: subset})
		}
		return out
	}
	const quota = "see the events of the Pod's owner: a quota or another webhook may refuse the Pod"
	for _, tc := range []struct {
		name    string
		book    subsets.Book
		members []subsets.Member
		want    subsets.Tally
		missing int
	}{
		{"WS-33 nothing there", nil, nil, subsets.Tally{Book: subsets.Book{{Name: "a"}, {Name: "b"}}}, 3},
		{
			"WS-33 counted",
			subsets.Book{{Name: "a", Replicas: 9}},
			in("a", "p", "q"),
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 2}, {Name: "b"}}},
			1,
		},
		{
			"WS-33 too many", nil, in("a", "p", "q", "r", "s"),
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 4}, {Name: "b"}}},
			0,
		},
		{
			"WS-33 arrived, by name",
			subsets.Book{{Name: "a", Creating: times{"p": ago(5 * time.Second)}}},
			in("a", "p"),
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 1}, {Name: "b"}}},
			2,
		},
		{
			"WS-33 arrived, by key",
			subsets.Book{{Name: "a", Creating: times{"3f0c": ago(5 * time.Second)}}},
			[]subsets.Member{{Name: "p", Key: "3f0c", Subset: "a"}},
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 1}, {Name: "b"}}},
			2,
		},
		{
			"a former Pod of the name has not arrived",
			subsets.Book{{Name: "a", Creating: times{"p": ago(5 * time.Second)}}},
			[]subsets.Member{{Name: "p", Subset: "a", Created: start.Add(-time.Minute)}},
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 1, Creating: times{"p": ago(5 * time.Second)}}, {Name: "b"}}, RequeueAfter: 25 * time.Second},
			1,
		},
		{
			"a Pod may be created a little before its admission",
			subsets.Book{{Name: "a", Creating: times{"p": ago(5 * time.Second)}}},
			[]subsets.Member{{Name: "p", Subset: "a", Created: start.Add(-10 * time.Second)}},
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 1}, {Name: "b"}}},
			2,
		},
		{
			"WS-30 Pods of no subset count nowhere", nil, in("", "p"),
			subsets.Tally{Book: subsets.Book{{Name: "a"}, {Name: "b"}}},
			3,
		},
		{
			"WS-34 younger than 15 s and still there",
			subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": ago(14 * time.Second)}}},
			in("a", "p", "q", "r"),
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": ago(14 * time.Second)}}, {Name: "b"}}, RequeueAfter: time.Second},
			1,
		},
		{
			"WS-34 gone",
			subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": ago(time.Second)}}},
			in("a", "q", "r"),
			subsets.Tally{Book: subsets.Book{{Name: "a", Replicas: 2}, {Name: "b"}}},
			1,
		},
		{
			"WS-34 older",
			subsets.Book{{Name: "a", Replicas: 3, Deleting: times{"p": ago(15 * time.Second)}}},
			in("a", "p", "q", "r"),
			subsets.Tally{
				Book: subsets.Book{{Name: "a", Replicas: 3}, {Name: "b"}},
				Lost: lost(subsets.NotDeleted, "p", "to be deleted, and still there after 15s", "see who refuses the deletion"),
			},
			0,
		},
		{
			"WS-35 younger than 30 s and not there",
			subsets.Book{{Name: "a", Creating: times{"p": ago(25 * time.Second), "q": ago(time.Second)}}},
			nil,
			subsets.Tally{Book: subsets.Book{{Name: "a", Creating: times{"p": ago(25 * time.Second), "q": ago(time.Second)}}, {Name: "b"}}, RequeueAfter: 5 * time.Second},
			1,
		},
		{
			"WS-35 older",
			subsets.Book{{Name: "a", Creating: times{"p": ago(30 * time.Second)}}},
			nil,
			subsets.Tally{
				Book: subsets.Book{{Name: "a"}, {Name: "b"}},
				Lost: lost(subsets.NotCreated, "p", "admitted, and not there after 30s", quota),
			},
			3,
		},
		{
			"a time from far in the future is old",
			subsets.Book{{Name: "a", Creating: times{"p": ago(-time.Hour)}}},
			nil,
			subsets.Tally{
				Book: subsets.Book{{Name: "a"}, {Name: "b"}},
				Lost: lost(subsets.NotCreated, "p", "the entry has a time in the future, and no longer counts", "see whose clock is wrong, or who else has written the entry"),
			},
			3,
		},
		{
			"nothing is awaited without a bound",
			subsets.Book{{Name: "b", Creating: times{"p": ago(time.Hour)}, Deleting: times{"q": ago(time.Second)}}},
			in("b", "q"),
			subsets.Tally{Book: subsets.Book{{Name: "a"}, {Name: "b", Replicas: 1}}},
			3,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.book.DeepCopy()
			got := subsets.Policy{}.Count(tc.book, at, tc.members, start)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if missing := got.Book[0].Missing(at[0]); missing != tc.missing {
				t.Errorf("%d missing, want %d", missing, tc.missing)
			}
			if missing := got.Book[1].Missing(at[1]); missing != subsets.Unlimited {
				t.Errorf("%d missing without a bound", missing)
			}
			if diff := cmp.Diff(before, tc.book); diff != "" {
				t.Errorf("the given book has changed:\n%s", diff)
			}
		})
	}
}

func TestIsIdle(t *testing.T) {
	for _, tc := range []struct {
		name string
		book subsets.Book
		want bool
	}{
		{"WS-36 empty", nil, true},
		{"WS-36 without Pods", subsets.Book{{Name: "a"}, {Name: "b"}}, true},
		{"WS-36 a Pod", subsets.Book{{Name: "a"}, {Name: "b", Replicas: 1}}, false},
		{"WS-36 a Pod on its way", subsets.Book{{Name: "a", Creating: times{"p": ago(0)}}}, false},
		{"WS-36 a Pod let go", subsets.Book{{Name: "a", Deleting: times{"p": ago(0)}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.book.IsIdle(); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// TestBookInStatus: a book is unchanged after encoding and decoding, except that times have whole seconds.
func TestBookInStatus(t *testing.T) {
	book, _ := subsets.Policy{}.Take(nil, places{limited("a", 2)}, "p", start.Add(time.Millisecond))
	raw, err := json.Marshal(book)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`[{"name":"a","replicas":0,"creating":{"p":"2026-07-01T12:00:00Z"}}]`, string(raw)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back subsets.Book
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(book, back); diff != "" {
		t.Errorf("(-stored +read):\n%s", diff)
	}
}

// TestDrop: Drop frees the places of Pods that will not be created, and does not modify the given book.
func TestDrop(t *testing.T) {
	now := ago(0)
	book := subsets.Book{{Name: "a", Replicas: 1, Creating: times{"p": now, "q": ago(time.Second)}}, {Name: "gone", Creating: times{"r": now}}}
	before := book.DeepCopy()
	after, lost := book.Drop(places{limited("a", 2)}, func(key string, since time.Time) bool { return key != "p" || since.Before(now.Time) })
	want := subsets.Book{{Name: "a", Replicas: 1, Creating: times{"p": now}}, {Name: "gone"}}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, book); diff != "" {
		t.Errorf("the argument has changed (-before +after):\n%s", diff)
	}
	var got []string
	for _, why := range lost {
		got = append(got, string(why.Code)+" "+why.Object.Name+" "+why.Path)
	}
	if diff := cmp.Diff([]string{"NotCreated q subsets[a]", "NotCreated r "}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if same, lost := book.Drop(nil, func(string, time.Time) bool { return false }); len(lost) > 0 || &same[0] != &book[0] {
		t.Error("nobody is absent, and the book is copied")
	}
}
