package cloneset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// TestOddValues: the controller interprets values that OpenKruise does not validate as OpenKruise does, with a
// warning that names the path and the value.
func TestOddValues(t *testing.T) {
	type numbers struct {
		ScaleLimit *int
		History    int
		MinReady   time.Duration
		Grace      time.Duration
		Warnings   []string // paths
	}
	usual := numbers{History: 10}
	scale := func(limit intstr.IntOrString) func(*v1beta1.CloneSet) {
		return func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.MaxUnavailable = &limit }
	}
	with := func(change func(*numbers)) numbers { n := usual; change(&n); return n }
	const limit = "spec.scaleStrategy.maxUnavailable"
	for _, tc := range []struct {
		name string
		odd  func(*v1beta1.CloneSet)
		want numbers
	}{
		{"nothing odd", func(*v1beta1.CloneSet) {}, usual},
		{"P-1 a percentage", scale(intstr.FromString("5%")), with(func(n *numbers) { n.ScaleLimit = new(2) })},
		{"P-1 a number in quotes is a percentage", scale(intstr.FromString("5")), with(func(n *numbers) { n.ScaleLimit, n.Warnings = new(2), []string{limit} })},
		{"P-1 a negative number", scale(intstr.FromInt32(-3)), with(func(n *numbers) { n.ScaleLimit, n.Warnings = new(0), []string{limit} })},
		{"P-1 a negative percentage", scale(intstr.FromString("-3%")), with(func(n *numbers) { n.ScaleLimit, n.Warnings = new(0), []string{limit} })},
		{"negative minReadySeconds", func(cs *v1beta1.CloneSet) { cs.Spec.MinReadySeconds = -1 }, with(func(n *numbers) {
			n.Warnings = []string{"spec.minReadySeconds"}
		})},
		{"negative revisionHistoryLimit", func(cs *v1beta1.CloneSet) { cs.Spec.RevisionHistoryLimit = ptr.To(int32(-2)) }, with(func(n *numbers) {
			n.History, n.Warnings = 0, []string{"spec.revisionHistoryLimit"}
		})},
		{"negative progressDeadlineSeconds", func(cs *v1beta1.CloneSet) { cs.Spec.ProgressDeadlineSeconds = ptr.To(int32(-2)) }, with(func(n *numbers) {
			n.Warnings = []string{"spec.progressDeadlineSeconds"}
		})},
		{"negative gracePeriodSeconds", func(cs *v1beta1.CloneSet) {
			cs.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: -1}}
		}, with(func(n *numbers) {
			n.Warnings = []string{"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.gracePeriodSeconds"}
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cs := &v1beta1.CloneSet{}
			cs.Spec.Replicas = ptr.To(int32(40))
			cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			cs.Spec.Template.Labels = cs.Spec.Selector.MatchLabels
			tc.odd(cs)
			s, problems, _ := resolve(cs, Options{Options: kruise.Options{}.Complete()})
			if problems != nil {
				t.Fatal(problems.Reasons())
			}
			got := numbers{ScaleLimit: s.rollout.ScaleMaxUnavailable, History: s.historyLimit, MinReady: s.minReady, Grace: rules(cs).GracePeriod}
			for _, w := range s.warnings {
				got.Warnings = append(got.Warnings, w.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSurgeOnlyForUpdates: with OnDelete, the controller updates no Pods, so maxSurge adds no Pod.
func TestSurgeOnlyForUpdates(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1beta1.CloneSetUpdateStrategy)
		want   int
	}{
		{"C-13 rolling update", func(*v1beta1.CloneSetUpdateStrategy) {}, 2},
		{"C-20 paused", func(s *v1beta1.CloneSetUpdateStrategy) { s.RollingUpdate.Paused = true }, 0},
		{"C-22 OnDelete", func(s *v1beta1.CloneSetUpdateStrategy) { s.Type = v1beta1.OnDelete }, 0},
	} {
		cs := &v1beta1.CloneSet{}
		cs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		cs.Spec.Template.Labels = cs.Spec.Selector.MatchLabels
		cs.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{MaxSurge: ptr.To(intstr.FromInt32(2))}
		tc.change(&cs.Spec.UpdateStrategy)
		s, problems, _ := resolve(cs, Options{Options: kruise.Options{}.Complete()})
		if problems != nil {
			t.Fatal(problems.Reasons())
		}
		if s.rollout.MaxSurge != tc.want {
			t.Errorf("%s: surge %d, want %d", tc.name, s.rollout.MaxSurge, tc.want)
		}
	}
}
