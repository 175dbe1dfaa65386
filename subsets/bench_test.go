package subsets_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/subsets"
)

// BenchmarkDivide divides 10,000 Pods over 1,000 subsets, some of them closed.
func BenchmarkDivide(b *testing.B) {
	for _, config := range []subsets.Config{inOrder, byWeight, fixed, staying, reserve} {
		b.Run(fmt.Sprintf("%s stay=%v reserve=%v", config.Fill, config.Stay, config.Reserve), func(b *testing.B) {
			many, states := make(list, 1000), make([]subsets.State, 1000)
			for i := range many {
				many[i].Name = fmt.Sprint("s", i)
				states[i] = state(10, 8, []subsets.Standing{subsets.Open, subsets.Closed}[i%50/49])
				if config.Fill == subsets.ByWeight {
					many[i].Weight = int32(1 + i%7) //nolint:gosec // small
				}
				if config.Fill != subsets.Fixed {
					many[i].Min, many[i].Max = value("0.01%"), value("20")
				}
			}
			rules, err := subsets.New(config, many)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if d, err := rules.Divide(10000, states); err != nil || len(d.Replicas) != 1000 {
					b.Fatal(err)
				}
			}
		})
	}
}

// world10000 returns 10,000 Pods in 5 subsets.
func world10000() (at places, pods []*corev1.Pod, members []subsets.Member) {
	for i := range 5 {
		at = append(at, limited(fmt.Sprint("s", i), 1900))
		pods = append(pods, podsIn(at[i].Name, 2000)...)
	}
	for _, pod := range pods {
		members = append(members, subsets.Member{Name: pod.Name, Subset: subsetLabel(pod)})
	}
	return at, pods, members
}

func BenchmarkTake(b *testing.B) {
	at, _, _ := world10000()
	book := subsets.Book{{Name: "s0", Replicas: 1900, Creating: times{}}}
	for i := range 200 {
		book[0].Creating[fmt.Sprint("pod-", i)] = ago(0)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, c := (subsets.Policy{}).Take(book, at, "p", start); c.Subset != "s1" {
			b.Fatal(c)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	at, _, members := world10000()
	book := subsets.Book{{Name: "s0", Creating: times{"s0-7": ago(0)}, Deleting: times{"s0-9": ago(0)}}}
	b.ReportAllocs()
	for b.Loop() {
		if t := (subsets.Policy{}).Count(book, at, members, start); t.Book[4].Replicas != 2000 {
			b.Fatal(t)
		}
	}
}

func BenchmarkRank(b *testing.B) {
	at, pods, _ := world10000()
	b.ReportAllocs()
	for b.Loop() {
		if r := subsets.Rank(at, pods, subsetLabel, subsets.LastFirst); r[0].Cost != -500 {
			b.Fatal(r[0])
		}
	}
}

// BenchmarkMatcher finds the subset of a Pod that names the last of 1,000 subsets.
func BenchmarkMatcher(b *testing.B) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("s", i))
	}
	matcher, err := subsets.NewMatcher(names, subsetLabel, nil)
	if err != nil {
		b.Fatal(err)
	}
	pod := labelled("s999")
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := matcher.Of(pod); got != "s999" {
			b.Fatal(got)
		}
	}
}
