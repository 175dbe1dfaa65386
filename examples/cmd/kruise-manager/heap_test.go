package main

import "testing"

func TestGCPercent(t *testing.T) {
	for _, tc := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing was collected yet", 0, 800},
		{"a few hundred Pods", 16 << 20, 200},
		{"as much garbage as objects", 32 << 20, 100},
		{"both rules say the same", 80 << 20, 40},
		{"tens of thousands of Pods", 1 << 30, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := gcPercent(tc.live); got != tc.want {
				t.Errorf("gcPercent(%d) = %d, want %d", tc.live, got, tc.want)
			}
		})
	}
}
