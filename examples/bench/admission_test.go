package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadHistogram(t *testing.T) {
	const metrics = `# HELP calls_seconds how long
calls_seconds_bucket{name="a",operation="CREATE",le="0.1"} 3
calls_seconds_bucket{name="a",operation="CREATE",le="+Inf"} 4
calls_seconds_bucket{name="a",operation="UPDATE",le="0.1"} 1
calls_seconds_bucket{name="a",operation="UPDATE",le="+Inf"} 1
calls_seconds_bucket{name="b",operation="CREATE",le="0.1"} 7
calls_seconds_sum{name="a",operation="CREATE"} 0.75
calls_seconds_sum{name="a",operation="UPDATE"} 0.05
calls_seconds_count{name="a",operation="CREATE"} 4
calls_seconds_count{name="a",operation="UPDATE"} 1
`
	got, err := readHistogram([]byte(metrics), "calls_seconds", `name="a"`)
	if err != nil {
		t.Fatal(err)
	}
	if text := got.String(); text != "160.0 (<= 100)" {
		t.Errorf("in all: %s", text)
	}
	before := histogram{count: 1, seconds: 0.1, buckets: []bucket{{bound: 0.1, count: 1}}}
	if text := got.since(before).String(); text != "175.0 (<= 100)" {
		t.Errorf("since: %s", text)
	}
	if text := got.since(got).String(); text != "-" {
		t.Errorf("no call: %s", text)
	}
	if _, err := readHistogram([]byte(`calls_seconds_sum{name="a"} x`), "calls_seconds"); err == nil || !strings.Contains(err.Error(), `} x"`) {
		t.Errorf("error %v, want the line", err)
	}
}

// TestAdmission makes a small run, and checks that all Pods get a sidecar.
func TestAdmission(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	manager := build(t, t.TempDir(), "../cmd/kruise-manager")
	var out bytes.Buffer
	args := []string{"admission", "--manager=" + manager, "--sets=5", "--matching=2", "--budgets=3", "--rate=10", "--for=1s", "--parallel=20"}
	if err := command(ctx, args, &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); len(fields) > 8 && fields[0] != "load" && fields[0] != "Pod" {
			i := len(fields) - 1
			for fields[i] != spared && fields[i] != asked {
				i--
			}
			rows = append(rows, fields[i:i+3])
		}
	}
	want := [][]string{{spared, "10", "0"}, {asked, "10", "0"}, {spared, "20", "0"}, {asked, "20", "0"}, {spared, "10", "0"}, {asked, "10", "0"}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("webhook, Pods and failures (-want +got):\n%s\n%s", diff, out.String())
	}
}

func TestAdmissionRefuses(t *testing.T) {
	for _, arg := range []string{"--sets=2", "--rate=0", "--parallel=0", "--for=1ms", "--matching=-1", "--budgets=-1", "--manager=" + filepath.Join(t.TempDir(), "none")} {
		if err := command(t.Context(), []string{"admission", arg}, &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), strings.SplitN(arg, "=", 2)[0]) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
