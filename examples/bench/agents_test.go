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

// TestAgents makes a small run with agents as processes, and a small run with all agents in one process. The agents
// must write nothing as long as there are no ContainerRecreateRequests, and write three times for each request. Each
// agent must have a connection to its runtime.
func TestAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	manager, agent := build(t, dir, "../cmd/kruise-manager"), build(t, dir, "../cmd/kruise-daemon")
	for name, args := range map[string][]string{"together": nil, "processes": {"--agent=" + agent}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var out bytes.Buffer
			args := append([]string{"agents", "--manager=" + manager, "--nodes=3", "--pods=6", "--at-once=4", "--idle=1s"}, args...)
			if err := command(ctx, args, &out, os.Stderr); err != nil {
				t.Fatal(err)
			}
			rows := map[string][]string{}
			for line := range strings.Lines(out.String()) {
				if name, rest, found := strings.Cut(line, "  "); found {
					rows[name] = strings.Fields(rest)
				}
			}
			for _, quiet := range []string{"no agents", "agents idle", "a change of each Pod", "agents idle again"} {
				if row := rows[quiet]; len(row) != 13 || row[1] != "0" {
					t.Errorf("%s: %v, want no writes", quiet, row)
				}
			}
			if row := rows["agents idle again"]; len(row) != 13 || row[2] == "" || row[5] != "3" {
				t.Errorf("row %v, want 3 connections", row)
			}
			if row := rows["create events"]; len(row) != 2 || row[0] != "6" || row[1] != "2.000" {
				t.Errorf("events: %v, want one for each of 6 Pods\n%s", row, out.String())
			}
		})
	}
}

func TestAgentsRefuse(t *testing.T) {
	for _, arg := range []string{"--nodes=0", "--pods=3", "--at-once=0", "--idle=1ms", "--manager=" + filepath.Join(t.TempDir(), "none")} {
		if err := command(t.Context(), []string{"agents", arg}, &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), strings.SplitN(arg, "=", 2)[0]) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestSumOf(t *testing.T) {
	const metrics = "# HELP a b\na{x=\"1\"} 2\na{x=\"2\"} 3.5\na_more 7\nb 4e3\n"
	for name, want := range map[string]float64{"a": 5.5, "b": 4000, "c": 0} {
		if got, err := sumOf([]byte(metrics), name); err != nil || got != want {
			t.Errorf("%s: %g, %v, want %g", name, got, err, want)
		}
	}
	if _, err := sumOf([]byte("a x\n"), "a"); err == nil {
		t.Error("a value that is no number")
	}
}
