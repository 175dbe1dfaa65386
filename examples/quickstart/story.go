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
	// patience is how long a part may take on a slow machine.
	patience = 3 * time.Minute
)

// workload is a kind that the quickstart shows. Its story is in a file of its own.
type workload struct {
	name  string                   // as the flag has it
	gates map[apps.Gate]bool       // of the manager
	nodes int                      // of the cluster
	place func(*corev1.Pod) string // what a Pod that replaces another takes over from it; empty where all Pods are alike
	// places is what the summary calls them.
	places string
	tell   func(context.Context, *story) error
}

// workloads are all that can be shown, the default first.
func workloads() []workload { return []workload{cloneSet(), statefulSet(), daemonSet()} }

// story is what the quickstart tells, part by part.
type story struct {
	workload workload
	client   client.WithWatch
	world    *world
	screen   screen
	out      io.Writer // for the summary
	auditLog string
	read     int64 // how far the audit log was counted
	results  []result
}

// part is one change, of the workload or of what is around it, and what it leads to.
type part struct {
	title   string
	chapter chapter
	act     func(context.Context) error
	// settled reports whether the workload says that all is done.
	settled func(context.Context) (bool, error)
	// want is what must have happened in the end.
	want tally
	// maxUnavailable is how many Pods may be out of service at a time; 0 stands for any number.
	maxUnavailable int
	field          string // that no live Pod can take; empty when there is none
}

// result is one part's summary.
type result struct {
	part
	tally
	unavailable int
	writes      map[string]int
	took        time.Duration
}

// tell plays the story of the workload, and sums it up.
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

// play makes the change, follows the Pods until it is done, and checks what has become of them.
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

// list plays a part and keeps its result for the summary.
func (s *story) list(ctx context.Context, p part) error {
	r, err := s.play(ctx, p)
	s.results = append(s.results, r)
	return err
}

// until draws until the workload is settled and every Pod that the API server has is drawn as it is there.
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

// check compares what has happened with what was announced.
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

// podTemplate is what Pods are made from at first. Simulated containers start at once; these take as long as small real ones do, so that
// there is something to see.
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

// newImage changes an image, which live Pods can take.
func newImage(template *corev1.PodTemplateSpec) {
	template.Spec.Containers[0].Image = "example.test/app:v2"
}

// newVariable changes the environment, which no live Pod can take.
func newVariable(template *corev1.PodTemplateSpec) {
	app := &template.Spec.Containers[0]
	app.Env = append(app.Env, corev1.EnvVar{Name: "MODE", Value: "new"})
}
