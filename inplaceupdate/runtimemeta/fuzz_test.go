package runtimemeta_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
)

// FuzzNext: for any report, any state of the container runtime and any Pod, nothing panics, the written report is
// decoded to an equal report, and a repeated step with this report changes nothing.
func FuzzNext(f *testing.F) {
	f.Add(openKruise, "12", "ZONE=a", uint64(1))
	f.Fuzz(func(t *testing.T, annotation, plain, env string, seed uint64) {
		before, err := runtimemeta.Decode(annotation)
		if err != nil && len(before.Containers) > 0 {
			t.Fatalf("%v beside %+v", err, before)
		}
		n := randomNode(seed, plain, env)
		n.before = before
		step := n.next(t)
		checkStep(t, n, step)
		if len(step.Report.Encode()) > 64<<10 {
			return
		}
		read, err := runtimemeta.Decode(step.Report.Encode())
		if err != nil || n.pod.DeletionTimestamp == nil && n.pod.Status.Phase == corev1.PodRunning && !strings.ContainsRune(annotation, '\ufffd') && !read.Equal(step.Report) {
			t.Errorf("%v: written as %s, read as %+v", err, step.Report.Encode(), read)
		}
	})
}

// randomNode makes random containers and instances, and a Pod whose status shows some of the instances.
func randomNode(seed uint64, plain, env string) *node {
	r := rand.New(rand.NewPCG(seed, 5))
	n := newNode()
	n.instances = nil
	for range r.IntN(6) {
		name := []string{"setup", "mesh", "app", "log", "other", ""}[r.IntN(6)]
		i := runtimemeta.Instance{ID: fmt.Sprintf("c://%s-%d", name, r.IntN(3)), Name: name, Attempt: int32(r.IntN(3)), Running: r.IntN(4) > 0, Hash: plain}
		if r.IntN(2) == 0 {
			i.Env = runtimemeta.EnvironmentOf(strings.Split(env, "\n"))
		}
		n.instances = append(n.instances, i)
		if r.IntN(2) == 0 {
			n.report()
		}
	}
	n.pod.Labels["zone"] = fmt.Sprint(r.IntN(2))
	n.pod.Spec.RestartPolicy = []corev1.RestartPolicy{"", corev1.RestartPolicyNever, corev1.RestartPolicyAlways}[r.IntN(3)]
	if r.IntN(8) == 0 {
		n.pod.Status.Phase = corev1.PodFailed
	}
	if r.IntN(3) == 0 {
		n.pod.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	return n
}

// checkStep checks a step against the rules for reports and stops.
func checkStep(t *testing.T, n *node, step runtimemeta.Step) {
	if n.pod.Status.Phase != corev1.PodRunning {
		if step.Changed || len(step.Read)+len(step.Stop) > 0 {
			t.Errorf("an ended Pod, and %+v", step)
		}
		return
	}
	seen := map[string]bool{}
	for _, c := range step.Report.Containers {
		if seen[c.Name] || c.Name != "mesh" && c.Name != "app" && c.Name != "log" {
			t.Errorf("container %q is reported: %+v", c.Name, step.Report)
		}
		seen[c.Name] = true
	}
	running := func(id string) bool {
		for _, i := range n.instances {
			if i.ID == id && i.Running {
				return true
			}
		}
		return false
	}
	for _, id := range step.Read {
		if !running(id) {
			t.Errorf("read %s, which does not run", id)
		}
	}
	for _, s := range step.Stop {
		entry := step.Report.Instance(s.Name, s.ID)
		if n.pod.Status.Conditions[0].Status != corev1.ConditionFalse || !running(s.ID) || entry == nil || entry.Hashes.ExtractedEnvFromMetadataHash == 0 || s.Name == "log" {
			t.Errorf("stopped %s: %+v", s.ID, step)
		}
		if s.Name == "app" && n.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			t.Errorf("stopped %s for good", s.ID)
		}
	}
}

// TestRandomNodes runs a fixed number of the fuzz target's cases with every test run, each with several calls of
// Next, and always with the previous report.
func TestRandomNodes(t *testing.T) {
	stops, reads := 0, 0
	for seed := range uint64(500) {
		var before runtimemeta.Report
		for pass := range uint64(4) {
			n := randomNode(seed*4+pass, "1f", "ZONE=1\nCFG=three")
			n.before = before
			step := n.next(t)
			checkStep(t, n, step)
			before = step.Report
			stops, reads = stops+len(step.Stop), reads+len(step.Read)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if diff := cmp.Diff([]bool{true, true}, []bool{stops > 10, reads > 100}); diff != "" {
		t.Errorf("%d stops, %d reads: the draws are too tame", stops, reads)
	}
}
