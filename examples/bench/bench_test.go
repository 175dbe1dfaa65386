package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/bench"
)

// build returns the path of a command of this module.
func build(t *testing.T, dir, command string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.Base(command))
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, command).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", command, err, text)
	}
	return path
}

// counts contains the figures of a phase that do not depend on the machine.
type counts struct {
	Writes, Reads             float64
	Kept, Created, Deleted    int
	WritesOfAnything, Touched int
}

// TestBench makes a small run of all phases, and a small run of a second kind, on separate control planes.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	const pods = 20
	tests := []struct {
		name, manager string
		args          []string
		want          map[string]counts
	}{
		{
			name: "cloneset", manager: "../cmd/kruise-manager",
			args: []string{"--slow-start=1s", "--passes=5", "--no-change=1s", "--max-unavailable=50%", "--objects=2"},
			want: map[string]counts{
				"scale-up":   {Writes: 2, Created: pods},
				"in-place":   {Writes: 3, Kept: pods},
				"recreate":   {Writes: 3, Created: pods, Deleted: pods},
				"slow-start": {Writes: 3, Kept: pods},
				"no-change":  {Kept: pods},
				"passes":     {Kept: pods},
				"scale-down": {Writes: 1, Deleted: pods},
			},
		},
		{
			name: "statefulset", manager: "../cmd/kruise-manager",
			args: []string{"--workload=statefulset", "--slow-start=1s", "--passes=5", "--no-change=1s", "--max-unavailable=50%", "--objects=2"},
			want: map[string]counts{
				"scale-up":   {Writes: 2, Created: pods},
				"in-place":   {Writes: 3, Kept: pods},
				"recreate":   {Writes: 3, Created: pods, Deleted: pods},
				"slow-start": {Writes: 3, Kept: pods},
				"no-change":  {Kept: pods},
				"passes":     {Kept: pods},
				"scale-down": {Writes: 1, Deleted: pods},
			},
		},
		{
			name: "daemonset", manager: "../cmd/kruise-manager",
			args: []string{"--workload=daemonset", "--nodes=0", "--slow-start=1s", "--passes=5", "--no-change=1s", "--max-unavailable=50%", "--objects=2"},
			want: map[string]counts{
				"scale-up":   {Writes: 2, Created: pods},
				"in-place":   {Writes: 3, Kept: pods},
				"recreate":   {Writes: 3, Created: pods, Deleted: pods},
				"slow-start": {Writes: 3, Kept: pods},
				"no-change":  {Kept: pods},
				"passes":     {Kept: pods},
				"scale-down": {Writes: 1, Deleted: pods},
			},
		},
		{
			name: "sidecarset", manager: "../cmd/kruise-manager",
			args: []string{"--workload=sidecarset", "--passes=5", "--no-change=1s", "--max-unavailable=50%", "--objects=2"},
			want: map[string]counts{
				"scale-up":   {Created: pods},
				"in-place":   {Writes: 2, Kept: pods}, // a patch, and the condition, written at the first upgrade of a Pod
				"no-change":  {Kept: pods},
				"passes":     {Kept: pods},
				"scale-down": {Deleted: pods},
			},
		},
		{
			name: "embed", manager: "../embed",
			args: []string{"--workload=embed", "--phases=in-place"},
			want: map[string]counts{"scale-up": {Writes: 2, Created: pods}, "in-place": {Writes: 3, Kept: pods}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			defer cancel()
			args := append([]string{
				"--manager=" + build(t, dir, tt.manager), "--pods=20", "--nodes=3",
				"--json=" + filepath.Join(dir, "figures.json"), "--timeline=" + filepath.Join(dir, "timeline.html"),
			}, tt.args...)
			var out bytes.Buffer
			if err := command(ctx, args, &out, os.Stderr); err != nil {
				t.Fatal(err)
			}
			checkRun(t, filepath.Join(dir, "figures.json"), tt.want)
			if !strings.Contains(out.String(), "patch pods") {
				t.Errorf("no requests are printed:\n%s", out.String())
			}
			page, err := os.ReadFile(filepath.Join(dir, "timeline.html"))
			if err != nil || !bytes.Contains(page, []byte("Change of image: ")) || !bytes.Contains(page, []byte("20 in place")) {
				t.Errorf("timeline: error %v\n%s", err, page)
			}
		})
	}
}

// checkRun compares the JSON output of a run with the wanted counts.
func checkRun(t *testing.T, file string, want map[string]counts) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	got := map[string]counts{}
	for _, f := range r.Phases {
		c := counts{Writes: f.Writes, Reads: f.Reads, Kept: f.Kept, Created: f.Created, Deleted: f.Deleted}
		if f.Phase == "no-change" || f.Phase == "passes" {
			c.WritesOfAnything, c.Touched = f.AllWrites(), f.Touched
		}
		got[f.Phase] = c
		if f.Seconds <= 0 || f.PeakMebibytes <= 0 || f.CPUSeconds < 0 {
			t.Errorf("%s: %g s, %g MiB, %g CPU s", f.Phase, f.Seconds, f.PeakMebibytes, f.CPUSeconds)
		}
		if f.Phase == "in-place" && (f.Unready == nil || f.Unready.Pods != f.Pods || f.AllReady < f.AllUpdated) {
			t.Errorf("in place: out of service %+v, all updated after %g s, all ready after %g s", f.Unready, f.AllUpdated, f.AllReady)
		}
		if f.Phase == "slow-start" && (f.Unready == nil || f.Unready.Median < 1) {
			t.Errorf("containers that take a second to start are out of service for %+v", f.Unready)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}
