package runtimemeta_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
)

// BenchmarkNext is a call of Next for a Pod with 3 containers and nothing to do, the most frequent case.
func BenchmarkNext(b *testing.B) {
	n := newNode()
	b.ReportAllocs()
	for b.Loop() {
		if step := n.rules.Next(n.pod, n.instances, n.before); step.Changed || len(step.Report.Containers) != 3 {
			b.Fatal(step)
		}
	}
}

// BenchmarkDecode reads the report of a Pod with 3 containers.
func BenchmarkDecode(b *testing.B) {
	text := newNode().before.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if report, err := runtimemeta.Decode(text); err != nil || len(report.Containers) != 3 {
			b.Fatal(report, err)
		}
	}
}
