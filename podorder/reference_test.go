package podorder_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podorder"
)

// The tests in this file compare the orders with slow, simple implementations of their documentation.

// before reports whether a comes before b: for updates, or for deletions if availability, costs and ranks are given.
func before(a, b *corev1.Pod, available func(*corev1.Pod) bool, costs bool, rank map[string]float64) bool {
	phases := map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}
	ready := func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.Conditions[0].Status == corev1.ConditionTrue
	}
	if x, y := a.Spec.NodeName != "", b.Spec.NodeName != ""; x != y {
		return !x
	}
	if x, y := phases[a.Status.Phase], phases[b.Status.Phase]; x != y {
		return x < y
	}
	if x, y := available(a), available(b); x != y {
		return !x
	}
	if x, y := ready(a), ready(b); x != y {
		return !x
	}
	if x, y := literalCost(a), literalCost(b); costs && x != y {
		return x < y
	}
	if x, y := rank[a.Name], rank[b.Name]; x != y {
		return x > y
	}
	if x, y := a.Status.Conditions[0].LastTransitionTime, b.Status.Conditions[0].LastTransitionTime; ready(a) && !x.Equal(&y) {
		return x.IsZero() || (!y.IsZero() && x.After(y.Time))
	}
	if x, y := a.Status.ContainerStatuses[0].RestartCount, b.Status.ContainerStatuses[0].RestartCount; x != y {
		return x > y
	}
	return a.CreationTimestamp.After(b.CreationTimestamp.Time)
}

func literalCost(p *corev1.Pod) int {
	cost, _ := strconv.Atoi(p.Annotations[corev1.PodDeletionCost])
	return cost
}

// stack groups the sorted Pods, and returns each Pod's position counted from the end of its group. The last Pod has
// position 1.
func stack(pods []*corev1.Pod, group func(*corev1.Pod) string) (positions map[string]int, groups int) {
	byGroup := map[string][]*corev1.Pod{}
	for _, p := range pods {
		if g := group(p); g != "" {
			byGroup[g] = append(byGroup[g], p)
		}
	}
	positions = map[string]int{}
	for _, members := range byGroup {
		for i, p := range members {
			positions[p.Name] = len(members) - i
		}
	}
	return positions, len(byGroup)
}

// literalDeletion sorts for deletion, step by step as documented.
func literalDeletion(pods []*corev1.Pod, available func(*corev1.Pod) bool, keys []string) {
	sortBy := func(list []*corev1.Pod, rank map[string]float64) {
		sort.SliceStable(list, func(i, j int) bool { return before(list[i], list[j], available, true, rank) })
	}
	plain := slices.Clone(pods)
	sortBy(plain, nil)
	byNode := map[string]float64{}
	positions, _ := stack(plain, func(p *corev1.Pod) string { return p.Spec.NodeName })
	for name, position := range positions {
		byNode[name] = float64(position - 1)
	}
	if len(keys) == 0 {
		sortBy(pods, byNode)
		return
	}
	ranked := slices.Clone(pods)
	sortBy(ranked, byNode)
	spread := map[string]float64{}
	for _, key := range keys {
		list := ranked
		if key == corev1.LabelHostname {
			list = plain
		}
		positions, domains := stack(list, func(p *corev1.Pod) string { return nodeLabels(p.Spec.NodeName)[key] })
		for name, position := range positions {
			spread[name] += float64(position) * math.Log(float64(domains)+2)
		}
	}
	sortBy(pods, spread)
}

// nodeLabels puts node n<i> into zone z<i/2>; the labels of n0 are unknown.
func nodeLabels(name string) map[string]string {
	if len(name) < 2 || name == "n0" {
		return nil
	}
	return map[string]string{corev1.LabelHostname: name, "zone": fmt.Sprintf("z%d", (name[1]-'0')/2)}
}

// podsFrom decodes a Pod from every three bytes.
func podsFrom(raw []byte) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := 0; i+2 < len(raw); i += 3 {
		a, b, c := raw[i], raw[i+1], raw[i+2]
		pod := newPod(fmt.Sprintf("p%d", i/3), restarts(int32(c>>6&1)), readyAfter(time.Duration(b&3)*time.Hour),
			createdAfter(time.Duration(b>>2&3)*time.Hour), node(fmt.Sprintf("n%d", a&7)))
		switch a >> 3 & 7 {
		case 0:
			pod.Spec.NodeName = ""
			pod.Status.Phase = corev1.PodPending
		case 1:
			pod.Status.Phase = corev1.PodPending
		case 2:
			pod.Status.Phase = corev1.PodUnknown
		case 3:
			unready()(pod)
		}
		if b&3 == 3 {
			readyAtNoTime()(pod)
		}
		if cost := int(c & 7); cost > 3 {
			annotate(corev1.PodDeletionCost, strconv.Itoa(cost-5))(pod)
		}
		if c>>3&3 == 0 {
			label("unavailable", "yes")(pod)
		}
		pods = append(pods, pod)
	}
	return pods
}

// FuzzOrders compares both orders with the simple implementations.
func FuzzOrders(f *testing.F) {
	f.Add([]byte("some Pods, made of these bytes, three for each of them"))
	f.Add([]byte{255, 1, 64, 255, 1, 0, 254, 2, 0, 253, 3, 0, 40, 0, 9, 41, 0, 9, 42, 0, 9, 43, 0, 9, 8, 0, 0, 0, 0, 0})
	f.Add([]byte{32, 0, 31, 33, 0, 31, 32, 1, 31, 33, 1, 31, 34, 0, 31, 35, 0, 31, 36, 2, 31})
	f.Fuzz(func(t *testing.T, raw []byte) {
		always := func(*corev1.Pod) bool { return true }
		available := func(p *corev1.Pod) bool { return p.Labels["unavailable"] == "" }
		want, got := podsFrom(raw), podsFrom(raw)
		sort.SliceStable(want, func(i, j int) bool { return before(want[i], want[j], always, false, nil) })
		byDefault(got)
		if diff := cmp.Diff(names(want), names(got)); diff != "" {
			t.Fatalf("C-42 (-literal +got):\n%s", diff)
		}
		for _, keys := range [][]string{nil, {"zone"}, {corev1.LabelHostname}, {"zone", corev1.LabelHostname, "missing"}} {
			d := podorder.Deletion{
				Available:  available,
				NodeLabels: func(name string) (map[string]string, bool) { l := nodeLabels(name); return l, l != nil },
			}
			for _, key := range keys {
				d.Constraints = append(d.Constraints, corev1.TopologySpreadConstraint{TopologyKey: key})
			}
			want, got := podsFrom(raw), podsFrom(raw)
			literalDeletion(want, available, keys)
			d.Sort(got)
			if diff := cmp.Diff(names(want), names(got)); diff != "" {
				t.Fatalf("C-23 with keys %v (-literal +got):\n%s", keys, diff)
			}
		}
	})
}

// literalScatter scatters step by step, with floating-point numbers for fractions.
func literalScatter(waiting, all []*corev1.Pod) []*corev1.Pod {
	is := func(p *corev1.Pod) bool { return p.Labels["x"] == "m" }
	var matched, others []*corev1.Pod
	for _, p := range waiting {
		if is(p) {
			matched = append(matched, p)
		} else {
			others = append(others, p)
		}
	}
	if len(matched) <= 1 || len(others) <= 1 { // step 1
		return waiting
	}
	last := matched[len(matched)-1] // step 2
	matched = matched[:len(matched)-1]
	m, n := float64(len(matched)), float64(len(others))
	tm, tn := -1.0, 0.0
	for _, p := range all {
		if is(p) {
			tm++
		} else {
			tn++
		}
	}
	group := func(a, b float64) (float64, float64, float64) { // step 3
		count := math.Min(a, b)
		return count, math.Round(a / count), math.Round(b / count)
	}
	count, sizeM, sizeN := group(m, n) // step 4
	var out []*corev1.Pod
	take := func(from *[]*corev1.Pod, k int) {
		for ; k > 0 && len(*from) > 0; k-- {
			out, *from = append(out, (*from)[0]), (*from)[1:]
		}
	}
	if tn/tm < n/m {
		_, sizeM, sizeN = group(tm, tn)
		count = math.Min(math.Floor(m/sizeM), math.Floor(n/sizeN))
		take(&others, int(n-count*sizeN))
	}
	for range int(count) { // step 5
		take(&matched, int(sizeM))
		take(&others, int(sizeN))
	}
	take(&matched, len(matched))
	take(&others, len(others))
	return append(out, last)
}

// FuzzScatterLiterally compares Scatter with literalScatter, for a single term.
func FuzzScatterLiterally(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0, 0, 0}, []byte{})
	f.Add([]byte{1, 1, 0, 0, 0, 0}, []byte{1, 0})
	f.Add([]byte{1, 0, 1, 0, 1}, []byte{1, 1, 1, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}, []byte{1, 1, 1, 0, 1})
	f.Fuzz(func(t *testing.T, waitingKinds, restKinds []byte) {
		pods := func(prefix string, kinds []byte) []*corev1.Pod {
			var list []*corev1.Pod
			for i, kind := range kinds {
				list = append(list, newPod(fmt.Sprintf("%s%d", prefix, i), label("x", []string{"u", "m"}[kind&1])))
			}
			return list
		}
		waiting := pods("w", waitingKinds)
		all := append(pods("r", restKinds), waiting...)
		want := names(literalScatter(slices.Clone(waiting), all))
		scatter, err := podorder.CompileScatter("s", []podorder.ScatterTerm{{Key: "x", Value: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		podorder.Update{AsGiven: true, Scatter: scatter}.Sort(waiting, all)
		if diff := cmp.Diff(want, names(waiting)); diff != "" {
			t.Fatalf("O-4 (-literal +got):\n%s", diff)
		}
	})
}
