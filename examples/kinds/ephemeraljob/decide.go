package ephemeraljob

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/podstate"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	Job      *v1alpha1.EphemeralJob
	Settings *settings
	// Pods are the Pods in the job's namespace, in any order.
	Pods []*corev1.Pod
	Now  time.Time
}

// decision says what a reconciliation must do.
type decision struct {
	// Step is the state of the job, and contains the number of Pods that may get containers.
	Step completion.Step
	// Open lists the wanted Pods without the containers, the oldest first. The first Step.Start of these
	// Pods get the containers now.
	Open []*corev1.Pod
	// Status is the status to write; containers that this reconciliation adds are not counted yet.
	Status v1alpha1.EphemeralJobStatus
}

// decide plans a whole reconciliation for a job with valid settings. The decision depends on o alone.
func decide(o *observation) *decision {
	s := survey(o)
	d := &decision{Step: completion.Next(o.Settings.rules, s.progress(&o.Job.Status), o.Now), Open: s.open}
	d.Status = s.status(o, d.Step)
	return d
}

// seen is the state of a job's Pods.
type seen struct {
	matches, wanted int
	// pods contains the Pods that have the containers, by the outcome of the containers. Pods beyond the wanted number
	// are not counted.
	pods map[podstate.Outcome][]string
	// busy is the number of Pods in which containers of the job have not ended, including Pods beyond the wanted
	// number.
	busy int
	// open lists the wanted Pods that do not have the containers yet, the oldest first.
	open []*corev1.Pod
	// taken lists the Pods to which another client has added a container with a name from the template. stuck contains
	// the reasons why containers cannot start.
	taken, stuck []string
}

// survey counts the Pods in a fixed order: first the Pods that have the containers, then all other Pods, the oldest
// first in each group. Because of this order, a Pod whose labels start to match later does not replace a Pod that has
// the containers.
func survey(o *observation) *seen {
	s, have := &seen{pods: map[podstate.Outcome][]string{}}, []*corev1.Pod{}
	for _, pod := range inOrder(o.Pods, o.Settings.selector) {
		switch own, foreign := o.Settings.containersIn(pod, o.Job.UID); {
		case own:
			have = append(have, pod)
		case foreign:
			s.taken = append(s.taken, pod.Name)
		default:
			s.open = append(s.open, pod)
		}
	}
	s.matches = len(have) + len(s.open)
	s.wanted = s.matches
	if o.Settings.replicas != nil {
		s.wanted = *o.Settings.replicas
	}
	for i, pod := range have {
		is, obstacle := podstate.Ephemeral(pod, func(c *corev1.EphemeralContainer) bool { return o.Settings.names(c.Name) && isOf(c, o.Job.UID) })
		if !is.HasEnded() {
			s.busy++
		}
		if i >= s.wanted {
			continue
		}
		s.pods[is] = append(s.pods[is], pod.Name)
		if obstacle != "" {
			s.stuck = append(s.stuck, pod.Name+": "+obstacle)
		}
	}
	s.open = s.open[:min(len(s.open), max(s.wanted-len(have), 0))]
	return s
}

// inOrder returns the active Pods that the selector matches, sorted by age, then by name.
func inOrder(pods []*corev1.Pod, selector labels.Selector) (out []*corev1.Pod) {
	for _, pod := range pods {
		if selector.Matches(labels.Set(pod.Labels)) && podstate.IsActive(pod) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// containersIn reports whether a Pod has a container of the job, and whether the Pod has a container of another
// client with a name from the template.
func (s *settings) containersIn(pod *corev1.Pod, job types.UID) (own, foreign bool) {
	for i := range pod.Spec.EphemeralContainers {
		switch c := &pod.Spec.EphemeralContainers[i]; {
		case !s.names(c.Name):
		case isOf(c, job):
			own = true
		default:
			foreign = true
		}
	}
	return own, foreign
}

func (s *settings) names(name string) bool {
	return slices.ContainsFunc(s.containers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// isOf reports whether the container was added by the job.
func isOf(c *corev1.EphemeralContainer, job types.UID) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == apps.EnvEphemeralJobID && e.Value == string(job) })
}

// goesOn returns the names of the Pods in which containers of a job have not ended, even if the template no longer
// contains these containers.
func goesOn(pods []*corev1.Pod, job types.UID) (names []string) {
	for _, pod := range pods {
		is, _ := podstate.Ephemeral(pod, func(c *corev1.EphemeralContainer) bool { return isOf(c, job) })
		if is != podstate.Absent && !is.HasEnded() && !podstate.HasEnded(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// progress returns the progress of the job in the form that package completion needs.
func (s *seen) progress(before *v1alpha1.EphemeralJobStatus) completion.Progress {
	ended := len(s.pods[podstate.Succeeded]) + len(s.pods[podstate.Failed])
	return completion.Progress{
		Started: before.Began(), Ended: before.Ended(), Wanted: s.wanted, Done: ended,
		Active: s.busy, Missing: len(s.open), Failed: len(s.pods[podstate.Failed]),
	}
}
