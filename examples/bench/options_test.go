package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// self returns a flag with the path of the test binary, which is a file that could be started as a manager.
func self() string { return "--manager=" + os.Args[0] }

func TestParseCompletes(t *testing.T) {
	type chosen struct {
		Workload, Change, MaxUnavailable string
		Objects, Pods, Nodes             int
		Phases, CRDs, Args               []string
		SlowStart                        time.Duration
	}
	tests := []struct {
		name string
		args []string
		want chosen
	}{
		{"defaults", nil, chosen{
			Workload: "cloneset", Change: "image", MaxUnavailable: "100%", Objects: 1, Pods: 500,
			Args: []string{"--metrics-addr=0", "--health-probe-addr=0", "--enable-pprof=false", "--nodeimage-creation-delay=0s"},
		}},
		{"many objects", []string{"--objects=1000", "--pods=10000", "--manager-args="}, chosen{
			Workload: "cloneset", Change: "image", MaxUnavailable: "100%", Objects: 1000, Pods: 10000, Args: []string{},
		}},
		{"everything chosen", []string{
			"--workload=embed", "--change=env", "--max-unavailable=3", "--phases=in-place,slow-start", "--slow-start=20s",
			"--crds=a,b", "--manager-args=-a  -b=c", "--nodes=7", "--pods=10", "--timeline=x.html",
		}, chosen{
			Workload: "embed", Change: "env", MaxUnavailable: "3", Objects: 1, Pods: 10, Nodes: 7, SlowStart: 20 * time.Second,
			Phases: []string{"in-place", "slow-start"}, CRDs: []string{"a", "b"}, Args: []string{"-a", "-b=c"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parse(append([]string{self()}, tt.args...), &bytes.Buffer{})
			if err != nil {
				t.Fatal(err)
			}
			got := chosen{
				o.Workload.Name, o.Change, o.MaxUnavailable.String(), o.Objects, o.Pods, o.Nodes, o.Phases, o.CRDs, o.ManagerArgs, o.SlowStart,
			}
			if len(got.Phases) == 0 {
				got.Phases = nil
			}
			if len(got.CRDs) == 0 {
				got.CRDs = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ arg, want string }{
		{"--change=colour", `Change "colour": want one of image, images, annotation, resources, env`},
		{"--workload=set", `--workload "set": want one of cloneset, statefulset, daemonset, sidecarset, embed`},
		{"--phases=scale-up,nap", `Phases "nap": want one of scale-up, in-place, recreate, slow-start, no-change, passes, scale-down`},
		{"--phases=slow-start", "want SlowStart too"},
		{"--pods=0", "Pods 0: want 1 at least"},
		{"--objects=501", "Objects 501: want 1 to 500, the number of Pods"},
		{"--passes=0", "Passes 0"},
		{"--no-change=-1s", "NoChange -1s"},
		{"--max-unavailable=many", "MaxUnavailable"},
		{"--timeline=picture.png", "--timeline picture.png: want a name that ends in .html or .svg"},
		{"more", `unexpected argument "more"`},
	}
	for _, tt := range tests {
		t.Run(tt.arg, func(t *testing.T) {
			_, err := parse([]string{self(), tt.arg}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestExperimentsAreValid(t *testing.T) {
	for _, e := range experiments() {
		if _, err := parse(append([]string{self()}, e.args...), &bytes.Buffer{}); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

func TestManagerIsLookedForBesideTheModule(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "examples"), 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(root, "manager")
	if err := os.WriteFile(binary, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "examples"))
	got, err := locate("manager")
	if err != nil {
		t.Fatal(err)
	}
	// The path of the temporary directory may contain a symbolic link.
	want, err := filepath.EvalSymlinks(binary)
	if resolved, resolveErr := filepath.EvalSymlinks(got); err != nil || resolveErr != nil || resolved != want {
		t.Errorf("found %s, want %s (errors %v, %v)", resolved, want, err, resolveErr)
	}
	for _, missing := range []string{"other", filepath.Join(root, "other"), "."} {
		if _, err := locate(missing); err == nil || !strings.Contains(err.Error(), "--manager "+missing) {
			t.Errorf("%s: error %v", missing, err)
		}
	}
}
