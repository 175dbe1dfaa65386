package onnode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// breaksf records a broken rule. The next check of the fault schedule then fails the test.
func (w *story) breaksf(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, rule+" "+fmt.Sprintf(format, args...))
}

func (w *story) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) > 0 {
		rule, message, _ := strings.Cut(w.broken[0], " ")
		w.Failf(rule, "%s", message)
	}
}

// states returns the reported states, by Pod and probe.
func states(status *v1alpha1.NodePodProbeStatus) map[string]v1alpha1.ContainerProbeState {
	out := map[string]v1alpha1.ContainerProbeState{}
	for _, p := range status.PodProbeStatuses {
		for _, s := range p.ProbeStates {
			out[p.UID+" "+s.Name] = s
		}
	}
	return out
}

// asked returns the probes of a spec, by Pod and probe.
func asked(spec *v1alpha1.NodePodProbeSpec) map[string]v1alpha1.ContainerProbe {
	out := map[string]v1alpha1.ContainerProbe{}
	for _, p := range spec.PodProbes {
		for _, probe := range p.Probes {
			out[p.UID+" "+probe.Name] = probe
		}
	}
	return out
}

// judgeStatus checks a status before the agent sends it: the status contains only probes of the NodePodProbe that the
// agent has read, differs from the previous status, and follows the previous status after at least a second.
func (l *lists) judgeStatus(status *v1alpha1.NodePodProbeStatus) {
	l.mu.Lock()
	known, last := l.last, l.at
	l.at = time.Now()
	l.mu.Unlock()
	if !last.IsZero() && time.Since(last) < time.Second {
		l.breaksf("often", "a status after %v", time.Since(last))
	}
	wanted, before, after := asked(&known.Spec), states(&known.Status), states(status)
	news := len(before) != len(after)
	for key, s := range after {
		if _, isAsked := wanted[key]; !isAsked {
			l.breaksf("PP-62", "a state of %s, which is not in the list", key)
		}
		was, known := before[key]
		if !known || was.State != s.State || was.Message != s.Message {
			news = true
			if s.State != v1alpha1.ProbeUnknown && !l.wasSeen(key, wanted[key].Probe, &s) {
				l.breaksf("invented", "%s is %s: %q", key, s.State, s.Message)
			}
		} else if !was.LastTransitionTime.Equal(&s.LastTransitionTime) {
			l.breaksf("ND-35", "the state of %s has not changed, and its time has", key)
		}
	}
	if !news {
		l.breaksf("ND-35", "a status without news: %v", after)
	}
}

// judge checks that a write changes only the status, because the manager writes the spec.
func (w *story) judge(write *chaos.Write) {
	before, ok := write.Before.(*list)
	after, also := write.After.(*list)
	if !ok || !also || write.Call.Subresource != "status" || !cmp.Equal(before.Spec, after.Spec) {
		w.Failf("stranger", "%s", write.Call)
	}
}

// wasSeen reports whether a state is justified: a container instance has ended, or the probe's command has had the
// same result as many times in a row as the threshold says. A result that the agent has not received does not count.
func (w *story) wasSeen(slot string, probe v1alpha1.ContainerProbeSpec, s *v1alpha1.ContainerProbeState) bool {
	uid, _, _ := strings.Cut(slot, " ")
	failed, threshold := s.State == v1alpha1.ProbeFailed, max(probe.SuccessThreshold, 1)
	if strings.HasSuffix(s.Message, "is Non-running") {
		return failed
	}
	if failed {
		threshold = max(probe.FailureThreshold, 1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, answers := range w.answers {
		if !strings.HasPrefix(key, uid+"/") || !strings.HasSuffix(key, " "+probe.Exec.Command[0]) {
			continue
		}
		row := int32(0)
		for _, a := range answers {
			if row++; !a.lost && a.failed != failed {
				row = 0
			} else if a.lost {
				row--
			}
			if row >= threshold && a.message == s.Message {
				return true
			}
		}
	}
	return false
}

// converged checks the final state: the status has exactly the probes of the spec, with their true states.
func (w *story) converged() {
	final := w.list()
	wanted, reported := asked(&final.Spec), states(&final.Status)
	for key := range reported {
		if _, isAsked := wanted[key]; !isAsked {
			w.Failf("PP-7", "a state of %s, which is not in the list", key)
		}
	}
	for key, probe := range wanted {
		uid, _, _ := strings.Cut(key, " ")
		i := slices.IndexFunc(w.Nodes.Instances(), func(i faultapi.Instance) bool { return string(i.Pod.UID) == uid && i.Name == probe.ContainerName })
		if i < 0 {
			continue // the Pod was deleted, and the spec still contains the Pod
		}
		ended, want := w.Nodes.Instances()[i].Exit != nil, v1alpha1.ProbeSucceeded
		if ended || w.fails[uid+probe.Probe.Exec.Command[0]] {
			want = v1alpha1.ProbeFailed
		}
		if s := reported[key]; s.State != want {
			w.Failf("ND-30", "probe %s is %s: %q, want %s", key, s.State, s.Message, want)
		}
	}
}
