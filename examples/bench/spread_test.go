package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSpread makes a small run. Each subset must have its share of the Pods, and the command must count the writes of
// the status.
func TestSpread(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	manager := build(t, t.TempDir(), "../cmd/kruise-manager")
	var out bytes.Buffer
	if err := command(ctx, []string{"spread", "--manager=" + manager, "--pods=40", "--subsets=4", "--rate=20"}, &out, os.Stderr); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"40 Pods spread over 4 subsets", "20 a second  asked    40    0 ", "patch workloadspreads/status"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestSpreadRefuses(t *testing.T) {
	for _, arg := range []string{"--pods=0", "--subsets=3", "--rate=300", "--nodes=-1", "--manager=" + filepath.Join(t.TempDir(), "none")} {
		if err := command(t.Context(), []string{"spread", arg}, &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), strings.SplitN(arg, "=", 2)[0]) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
