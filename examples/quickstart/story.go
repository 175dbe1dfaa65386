package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

const (
	namespace = "default"
	// frame is the time between two pictures.
	frame = 100 * time.Millisecond
	// patience is the longest time that a part of the show may take; slow machines need minutes.
	patience = 3 * time.Minute
)

// workload is a kind of workload that quickstart can show. Each kind has a file of its own with its parts of the show.
type workload struct {
	name  string                   // the value of the flag --workload
	gates map[apps.Gate]bool       // the manager's feature gates
	nodes int                      // number of Nodes in the cluster
	place func(*corev1.Pod) string // the identity that a new Pod takes over, such as the Node; or empty
	// places is the word for the results of place in the summary, for example Nodes.
	places string
	tell   func(context.Context, *story) error
}

// workloads returns all kinds of workloads that quickstart can show, the default first.
func workloads() []workload { return []workload{cloneSet(), statefulSet(), daemonSet()} }

// story is the demonstration of a workload, part by part.
type story struct {
	workload workload
	client   client.WithWatch
	world    *world
	screen   screen
	out      io.Writer // receives the summary
	auditLog string
	read     int64 // how many bytes of the audit log have been counted
	results  []result
}

// part is a part of the show: a change of the workload or of the cluster, with the expected outcome.
type part struct {
	title   string
	chapter chapter
	act     func(context.Context) error
	// settled reports whether the workload's status shows that the change is complete.
	settled func(context.Context) (bool, error)
	// want contains the expected numbers of events.
	want tally
	// maxUnavailable is how many Pods may be unavailable at the same time; 0 means any number.
	maxUnavailable int
	field          string // the field whose change cannot be made in live Pods, or empty
}

// result is the outcome of a part, for the summary.
type result struct {
	part
	tally
	unavailable int
	writes      map[string]int
	took        time.Duration
}

// tell runs all parts for the workload, and prints the summary.
func (s *story) tell(ctx context.Context) error {
	s.world.happens = s.screen.happens
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if err := watchPods(watching, s.client, s.world, namespace, func() {}); err != nil {
		return err
	}
	if err := s.workload.tell(ctx, s); err != nil {
		return err
	}
	s.summary()
	return nil
}

// play makes the change, follows the Pods until the change is complete, and checks the outcome.
func (s *story) play(ctx context.Context, p part) (result, error) {
	began := time.Now()
	s.world.begin(p.chapter)
	s.screen.title(p.title)
	err := p.act(ctx)
	if err == nil {
		err = s.until(ctx, p.settled)
	}
	s.screen.done()
	r := result{part: p, took: time.Since(began)}
	if err == nil {
		r.tally, r.unavailable = s.world.tally()
		err = r.check()
	}
	if err == nil {
		r.writes, s.read, err = writes(s.auditLog, s.read)
	}
	if err != nil {
		return r, fmt.Errorf("%q: %w", p.title, err)
	}
	return r, nil
}

// list runs a part, and adds the part's result to the summary.
func (s *story) list(ctx context.Context, p part) error {
	r, err := s.play(ctx, p)
	s.results = append(s.results, r)
	return err
}

// until draws pictures until the workload has settled, and the picture shows all Pods as the API server does.
func (s *story) until(ctx context.Context, settled func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, frame, patience, true, func(ctx context.Context) (bool, error) {
		s.screen.draw()
		if done, err := settled(ctx); err != nil || !done {
			return false, err
		}
		var pods corev1.PodList
		if err := s.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return false, fmt.Errorf("listing Pods: %w", err)
		}
		return s.world.shows(pods.Items), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		now, _ := s.world.tally()
		return fmt.Errorf("not done after %s, with %s: %w", patience, now, err)
	}
	return err
}

// check compares the outcome with the expected outcome.
func (r *result) check() error {
	if r.tally != r.want {
		return fmt.Errorf("expected %s; got %s", r.want, r.tally)
	}
	if r.maxUnavailable > 0 && r.unavailable > r.maxUnavailable {
		return fmt.Errorf("%d Pods were out of service at a time, expected %d at most", r.unavailable, r.maxUnavailable)
	}
	return nil
}

func (s *story) summary() {
	fmt.Fprintln(s.out, "\nSummary")
	line := func(what, format string, args ...any) {
		fmt.Fprintf(s.out, "    %-15s %s\n", what+":", fmt.Sprintf(format, args...))
	}
	for i := range s.results {
		r := &s.results[i]
		fmt.Fprintf(s.out, "\n  %s\n", r.title)
		if r.before+r.after != "" {
			line(s.workload.places, "%s", r.change())
		}
		line("Pods kept", "%d (%d of them updated in place; same UID, node and IP)", r.kept, r.updated)
		recreated := fmt.Sprint(r.recreated)
		if r.field != "" {
			recreated += " for " + r.field
		}
		line("Pods recreated", "%s", recreated)
		if r.created+r.deleted > 0 {
			line("Pods created", "%d, and %d deleted for good", r.created, r.deleted)
		}
		if r.maxUnavailable > 0 {
			line("out of service", "%d at a time", r.unavailable)
		}
		total := 0
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(r.writes)) {
			total += r.writes[kind]
			kinds = append(kinds, fmt.Sprintf("%d %s", r.writes[kind], kind))
		}
		line("writes per Pod", "%.1f for each of %d (%s)", float64(total)/float64(max(r.touched(), 1)), r.touched(), strings.Join(kinds, ", "))
		line("seconds", "%.1f", r.took.Seconds())
	}
}

// podTemplate returns the template of the Pods at the beginning. Simulated containers without a delay would start at
// once. The containers of this template take as long to start as small real containers, so that the user can watch the
// start.
func podTemplate(start time.Duration) (selector *metav1.LabelSelector, template corev1.PodTemplateSpec) {
	labels := map[string]string{"app": "web"}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{controlplane.StartDelay: start.String()}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{
				{Name: "app", Image: "example.test/app:v1"}, {Name: "log", Image: "example.test/log:v1"},
			},
		},
	}
}

// newImage changes the image of a template. The change can be made in live Pods.
func newImage(template *corev1.PodTemplateSpec) {
	template.Spec.Containers[0].Image = "example.test/app:v2"
}

// newVariable changes an environment variable of a template. The change cannot be made in live Pods.
func newVariable(template *corev1.PodTemplateSpec) {
	app := &template.Spec.Containers[0]
	app.Env = append(app.Env, corev1.EnvVar{Name: "MODE", Value: "new"})
}
