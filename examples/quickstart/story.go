package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

const (
	replicas  = 20
	namespace = "default"
	// frame is the time between two pictures.
	frame = 100 * time.Millisecond
)

// story is what the quickstart tells, part by part.
type story struct {
	client   client.WithWatch
	world    *world
	screen   screen
	auditLog string
	read     int64 // how far the audit log was counted
	results  []result
}

// result is one part's summary.
type result struct {
	title                    string
	kept, recreated, updated int
	field                    string
	writes                   map[string]int
	took                     time.Duration
}

func (s *story) tell(ctx context.Context) error {
	s.world.happens = s.screen.happens
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if err := watchPods(watching, s.client, s.world, namespace, func() {}); err != nil {
		return err
	}
	if err := s.create(ctx); err != nil {
		return err
	}
	parts := []struct {
		title  string
		change func(*v1beta1.CloneSet)
	}{
		{"Image app:v1 -> app:v2 in place, partition 50 %: half of the Pods stay", func(cs *v1beta1.CloneSet) {
			cs.Spec.Template.Spec.Containers[0].Image = "example.test/app:v2"
			cs.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromString("50%"))
		}},
		{"Partition 0: the rest follows", func(cs *v1beta1.CloneSet) {
			cs.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(0))
		}},
		{"A new environment variable: no live Pod can take that", func(cs *v1beta1.CloneSet) {
			c := &cs.Spec.Template.Spec.Containers[0]
			c.Env = append(c.Env, corev1.EnvVar{Name: "MODE", Value: "new"})
		}},
	}
	for _, part := range parts {
		if err := s.part(ctx, part.title, part.change); err != nil {
			return err
		}
	}
	s.summary()
	return nil
}

func (s *story) create(ctx context.Context) error {
	s.screen.title(fmt.Sprintf("Creating a CloneSet of %d Pods", replicas))
	labels := map[string]string{"app": "web"}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To[int32](replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				// Simulated containers start at once; these take as long as small real ones, so that there is something to see.
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{controlplane.StartDelay: "700ms"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers: []corev1.Container{
						{Name: "app", Image: "example.test/app:v1"}, {Name: "log", Image: "example.test/log:v1"},
					},
				},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromString("20%")),
				},
			},
		},
	}
	if err := s.client.Create(ctx, cs); err != nil {
		return fmt.Errorf("creating the CloneSet: %w", err)
	}
	if err := s.until(ctx, func(cs *v1beta1.CloneSet) bool { return cs.Status.AvailableReplicas == replicas }); err != nil {
		return err
	}
	s.screen.done()
	var err error
	_, s.read, err = writes(s.auditLog, 0)
	return err
}

// part changes the CloneSet and follows the Pods until the rollout has come as far as it should.
func (s *story) part(ctx context.Context, title string, change func(*v1beta1.CloneSet)) error {
	began := time.Now()
	var cs v1beta1.CloneSet
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, &cs); err != nil {
		return fmt.Errorf("reading the CloneSet: %w", err)
	}
	before := cs.DeepCopy()
	change(&cs)
	// The kit's planner tells before anything is written what is going to happen to Pods and why.
	updater, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedPodLabels())
	if err != nil {
		return err
	}
	plan := updater.Plan(&before.Spec.Template, &cs.Spec.Template)
	field, why := "", ""
	if !plan.Possible() {
		field = plan.Blocking[0].Path
		why = fmt.Sprintf("%s (%s)", field, plan.Blocking[0].Code)
	}
	s.world.begin(chapter{why: why})
	s.screen.title(title)
	if err := s.client.Patch(ctx, &cs, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the CloneSet: %w", err)
	}
	err = s.until(ctx, func(now *v1beta1.CloneSet) bool {
		return now.Status.ObservedGeneration >= cs.Generation && now.Status.AvailableReplicas == replicas &&
			now.Status.Replicas == replicas && now.Status.UpdatedAvailableReplicas >= now.Status.ExpectedUpdatedReplicas
	})
	if err != nil {
		return err
	}
	s.screen.done()
	r := result{title: title, field: field, took: time.Since(began)}
	r.kept, r.recreated, r.updated = s.world.tally()
	r.writes, s.read, err = writes(s.auditLog, s.read)
	s.results = append(s.results, r)
	return err
}

// until draws until the CloneSet is as wanted.
func (s *story) until(ctx context.Context, done func(*v1beta1.CloneSet) bool) error {
	return wait.PollUntilContextTimeout(ctx, frame, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		s.screen.draw()
		var cs v1beta1.CloneSet
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, &cs); err != nil {
			return false, err
		}
		return done(&cs), nil
	})
}

func (s *story) summary() {
	fmt.Println("\nSummary")
	for _, r := range s.results {
		total := 0
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(r.writes)) {
			total += r.writes[kind]
			kinds = append(kinds, fmt.Sprintf("%d %s", r.writes[kind], kind))
		}
		fmt.Printf("\n  %s\n", r.title)
		fmt.Printf("    Pods kept:      %d (%d of them updated in place; same UID, node and IP)\n", r.kept, r.updated)
		recreated := fmt.Sprint(r.recreated)
		if r.field != "" {
			recreated += " for " + r.field
		}
		fmt.Printf("    Pods recreated: %s\n", recreated)
		fmt.Printf("    writes per Pod: %.1f (%s)\n", float64(total)/float64(max(r.updated+r.recreated, 1)), strings.Join(kinds, ", "))
		fmt.Printf("    seconds:        %.1f\n", r.took.Seconds())
	}
}
