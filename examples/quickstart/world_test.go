package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// seen returns a Pod as in an event of the watch.
func seen(name, uid, version, revision string, ready bool) *corev1.Pod {
	pod := named(name)
	pod.UID, pod.ResourceVersion, pod.Labels[apps.LabelRevision] = types.UID(uid+"-0000-0000"), version, "web-"+revision
	if ready {
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func TestTally(t *testing.T) {
	type event struct {
		kind watch.EventType
		pod  *corev1.Pod
	}
	for _, tc := range []struct {
		name        string
		place       func(*corev1.Pod) string
		events      []event
		want        tally
		unavailable int
	}{
		{"nothing", ordinalOf, nil, tally{before: "2,10", after: "2,10", kept: 2}, 0},
		{"in place, both at a time", ordinalOf, []event{
			{watch.Modified, seen("web-2", "a", "3", "new", false)},
			{watch.Modified, seen("web-10", "b", "4", "new", false)},
			{watch.Modified, seen("web-2", "a", "5", "new", true)},
			{watch.Modified, seen("web-10", "b", "6", "new", true)},
		}, tally{before: "2,10", after: "2,10", kept: 2, updated: 2}, 2},
		{"in place, one at a time", ordinalOf, []event{
			{watch.Modified, seen("web-2", "a", "3", "new", false)},
			{watch.Modified, seen("web-2", "a", "4", "new", true)},
			{watch.Modified, seen("web-10", "b", "5", "new", false)},
			{watch.Modified, seen("web-10", "b", "6", "new", true)},
		}, tally{before: "2,10", after: "2,10", kept: 2, updated: 2}, 1},
		{"recreated under its name", ordinalOf, []event{
			{watch.Deleted, seen("web-2", "a", "3", "old", true)},
			{watch.Added, seen("web-2", "c", "4", "new", false)},
			{watch.Modified, seen("web-2", "c", "5", "new", true)},
		}, tally{before: "2,10", after: "2,10", kept: 1, recreated: 1}, 1},
		{"another ordinal", ordinalOf, []event{
			{watch.Added, seen("web-3", "c", "3", "old", true)},
			{watch.Deleted, seen("web-2", "a", "4", "old", true)},
		}, tally{before: "2,10", after: "3,10", kept: 1, created: 1, deleted: 1}, 0},
		{"Pods that are all alike", func(*corev1.Pod) string { return "" }, []event{
			{watch.Deleted, seen("web-2", "a", "3", "old", true)},
			{watch.Added, seen("web-x", "c", "4", "new", true)},
			{watch.Added, seen("web-y", "d", "5", "new", true)},
		}, tally{kept: 1, recreated: 1, created: 1}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(tc.place)
			w.observe(watch.Added, seen("web-2", "a", "1", "old", true))
			w.observe(watch.Added, seen("web-10", "b", "2", "old", true))
			w.begin(chapter{})
			for _, e := range tc.events {
				w.observe(e.kind, e.pod)
			}
			got, unavailable := w.tally()
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(tally{})); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
			if unavailable != tc.unavailable {
				t.Errorf("%d out of service at a time, want %d", unavailable, tc.unavailable)
			}
		})
	}
}

// TestShows: world.shows returns true only after the world has seen every event of the API server's Pods.
func TestShows(t *testing.T) {
	w := newWorld(ordinalOf)
	w.observe(watch.Added, seen("web-0", "a", "1", "old", true))
	w.observe(watch.Added, seen("web-1", "b", "2", "old", true))
	pods := func(list ...*corev1.Pod) (out []corev1.Pod) {
		for _, pod := range list {
			out = append(out, *pod)
		}
		return out
	}
	for _, tc := range []struct {
		name string
		pods []corev1.Pod
		want bool
	}{
		{"the same", pods(seen("web-0", "a", "1", "old", true), seen("web-1", "b", "2", "old", true)), true},
		{"a newer one", pods(seen("web-0", "a", "3", "old", true), seen("web-1", "b", "2", "old", true)), false},
		{"one less", pods(seen("web-0", "a", "1", "old", true)), false},
		{"one more", pods(seen("web-0", "a", "1", "old", true), seen("web-1", "b", "2", "old", true), seen("web-2", "c", "3", "old", true)), false},
		{"another of the name", pods(seen("web-0", "a", "1", "old", true), seen("web-1", "c", "2", "old", true)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := w.shows(tc.pods); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
	w.observe(watch.Modified, seen("web-1", "b", "3", "old", false))
	if w.shows(pods(seen("web-0", "a", "1", "old", true), seen("web-1", "b", "3", "old", false))) {
		t.Error("a Pod that is not ready is taken for one whose part is over")
	}
	w.observe(watch.Deleted, seen("web-1", "b", "4", "old", true))
	if !w.shows(pods(seen("web-0", "a", "1", "old", true))) {
		t.Error("a Pod that is gone counts")
	}
	if w.shows(pods(seen("web-0", "a", "1", "old", true), seen("web-1", "b", "4", "old", true))) {
		t.Error("a Pod that is on its way out is taken for one that is there")
	}
	if w.shows(pods(seen("web-1", "b", "4", "old", true))) {
		t.Error("a Pod that is on its way out makes up for one that is gone")
	}
}
