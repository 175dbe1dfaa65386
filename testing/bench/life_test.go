package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/bench/picture"
)

const ms = time.Millisecond

// livesOfARollout returns the lives of a Pod updated in place, a Pod recreated under another name, an untouched Pod,
// and a Pod still out of service.
func livesOfARollout() []life {
	return []life{
		{pod: "stays", object: "a", existed: true, touched: true, moments: []moment{
			{0, false, true, false},
			{100 * ms, false, false, true},
			{200 * ms, true, false, true},
			{400 * ms, true, false, false},
			{500 * ms, true, true, false},
		}},
		{pod: "goes", object: "a", existed: true, gone: 300 * ms, touched: true, moments: []moment{{0, false, true, false}, {200 * ms, false, false, false}}},
		{pod: "untouched", object: "a", existed: true, moments: []moment{{0, false, true, false}}},
		{pod: "broken", object: "b", existed: true, touched: true, moments: []moment{{0, false, true, false}, {400 * ms, true, false, false}}},
		{pod: "comes", object: "a", touched: true, moments: []moment{{350 * ms, true, false, false}, {600 * ms, true, true, false}}},
	}
}

func TestLivesAreCounted(t *testing.T) {
	var f Figure
	f.setLives(livesOfARollout())
	want := Figure{
		Kept: 3, Created: 1, Deleted: 1, Touched: 4,
		GateClosed: &Durations{Pods: 1, Median: 0.3, P95: 0.3, Max: 0.3},
		Unready:    &Durations{Pods: 1, Median: 0.4, P95: 0.4, Max: 0.4},
		Starting:   &Durations{Pods: 1, Median: 0.25, P95: 0.25, Max: 0.25},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("figure (-want +got):\n%s", diff)
	}
	updated, ready := lastUpdate(livesOfARollout())
	if updated != 400*ms || ready != 600*ms {
		t.Errorf("last update after %s, last ready after %s; want 400ms and 600ms", updated, ready)
	}
}

func TestPercentilesAreOfNearestRank(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var out []time.Duration
		for i := range n {
			out = append(out, time.Duration(n-i)*time.Second)
		}
		return out
	}
	tests := []struct {
		durations []time.Duration
		want      *Durations
	}{
		{nil, nil},
		{upTo(1), &Durations{Pods: 1, Median: 1, P95: 1, Max: 1}},
		{upTo(2), &Durations{Pods: 2, Median: 1, P95: 2, Max: 2}},
		{upTo(20), &Durations{Pods: 20, Median: 10, P95: 19, Max: 20}},
		{upTo(500), &Durations{Pods: 500, Median: 250, P95: 475, Max: 500}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, summarise(tt.durations)); diff != "" {
			t.Errorf("%d durations (-want +got):\n%s", len(tt.durations), diff)
		}
	}
}

func TestRowsOfTheTimeline(t *testing.T) {
	want := []picture.Row{
		{Name: "stays", Way: picture.InPlace, Spans: []picture.Span{
			{From: 0, To: 0.1, State: picture.Old}, {From: 0.1, To: 0.5, State: picture.NotReady}, {From: 0.5, To: 1, State: picture.New},
		}},
		{Name: "goes, then comes", Way: picture.Recreated, Born: 0.35, Spans: []picture.Span{
			{From: 0, To: 0.2, State: picture.Old},
			{From: 0.2, To: 0.3, State: picture.NotReady},
			{From: 0.35, To: 0.6, State: picture.NotReady},
			{From: 0.6, To: 1, State: picture.New},
		}},
		{Name: "broken", Way: picture.InPlace, Spans: []picture.Span{{From: 0, To: 0.4, State: picture.Old}, {From: 0.4, To: 1, State: picture.NotReady}}},
		{Name: "untouched", Spans: []picture.Span{{From: 0, To: 1, State: picture.Old}}},
	}
	if diff := cmp.Diff(want, rows(livesOfARollout(), 1)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestHeirs(t *testing.T) {
	came := func(pod, object string, at time.Duration) life {
		return life{pod: pod, object: object, moments: []moment{{at: at}}}
	}
	went := func(pod, object string) life { return life{pod: pod, object: object, existed: true, gone: ms} }
	tests := []struct {
		name string
		went []life
		want []string
	}{
		{"the same name first", []life{went("x", "a"), went("p2", "a")}, []string{"p1", "p2"}},
		{"of the same object only", []life{went("x", "b"), went("y", "b")}, []string{"q", ""}},
		{"a Pod that stays has none", []life{{pod: "z", object: "a", existed: true}}, []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHeirs([]life{came("p1", "a", 0), came("p2", "a", ms), came("q", "b", ms)})
			var got []string
			for _, l := range tt.went {
				heir, _ := h.of(l)
				got = append(got, heir.pod)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("heirs (-want +got):\n%s", diff)
			}
		})
	}
}
