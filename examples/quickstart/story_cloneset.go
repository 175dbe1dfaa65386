package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/revision"
)

// clones is the number of Pods of the CloneSet.
const clones = 20

// cloneSet shows an update in place, first as far as the partition allows and then completely, and a change that cannot
// be made in live Pods.
func cloneSet() workload {
	return workload{
		name: "cloneset", gates: apps.DefaultGates(), nodes: 20, place: func(*corev1.Pod) string { return "" }, tell: tellCloneSet,
	}
}

func tellCloneSet(ctx context.Context, s *story) error {
	web := &subject[*v1beta1.CloneSet]{
		story: s, kind: "CloneSet", labels: apps.ReservedPodLabels(),
		empty:    func() *v1beta1.CloneSet { return &v1beta1.CloneSet{} },
		template: func(cs *v1beta1.CloneSet) *corev1.PodTemplateSpec { return &cs.Spec.Template },
		isDone: func(cs *v1beta1.CloneSet) bool {
			status := &cs.Status
			return status.ObservedGeneration >= cs.Generation && status.AvailableReplicas == clones &&
				status.Replicas == clones && status.UpdatedAvailableReplicas >= status.ExpectedUpdatedReplicas
		},
	}
	_, err := s.play(ctx, part{
		title: fmt.Sprintf("Creating a CloneSet of %d Pods", clones), act: web.create(newCloneSet()), settled: web.settled,
		want: tally{created: clones},
	})
	if err != nil {
		return err
	}
	for _, p := range cloneSetParts() {
		e, err := web.edit(ctx, p.change)
		if err != nil {
			return err
		}
		err = s.list(ctx, part{
			title: p.title, chapter: clonesReplaced(e.why), act: e.write, settled: web.settled, want: p.want, field: e.field,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cloneSetPart is a part of the show that changes the CloneSet.
type cloneSetPart struct {
	title  string
	change func(*v1beta1.CloneSet)
	want   tally
}

func cloneSetParts() []cloneSetPart {
	return []cloneSetPart{
		{"Image app:v1 -> app:v2 in place, partition 50 %: half of the Pods stay", func(cs *v1beta1.CloneSet) {
			newImage(&cs.Spec.Template)
			cs.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromString("50%"))
		}, tally{kept: clones, updated: clones / 2}},
		{"Partition 0: the rest follows", func(cs *v1beta1.CloneSet) {
			cs.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(0))
		}, tally{kept: clones, updated: clones / 2}},
		{"A new environment variable: no live Pod can take that", func(cs *v1beta1.CloneSet) {
			newVariable(&cs.Spec.Template)
		}, tally{recreated: clones}},
	}
}

func newCloneSet() *v1beta1.CloneSet {
	selector, template := podTemplate(700 * time.Millisecond)
	return &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To[int32](clones), Selector: selector, Template: template,
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromString("20%")),
				},
			},
		},
	}
}

// clonesReplaced returns the explanations (see chapter) for an update in which Pods with new names replace all Pods.
func clonesReplaced(why string) chapter {
	return chapter{
		created: func(pod *corev1.Pod) cause {
			return cause{
				how: "created", why: "replaces a Pod of the old revision",
				line: "created at revision " + revision.ShortName(pod.Labels[apps.LabelRevision]),
			}
		},
		deleted: func(*corev1.Pod) cause {
			return cause{how: "recreated", why: why, line: "deleted to be recreated: " + why}
		},
	}
}
