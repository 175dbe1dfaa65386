package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/revision"
)

// outOfService is the number of Pods that may be unavailable at the same time because of an update.
const outOfService = 2

// statefulSet shows how spec.replicas, reserved ordinals and a start ordinal decide which Pods exist, and then an
// update in place and an update that recreates the Pods.
func statefulSet() workload {
	return workload{
		name: "statefulset", gates: apps.ResolveGates(map[apps.Gate]bool{apps.GateStatefulSetStartOrdinal: true}),
		nodes: 20, place: ordinalOf, places: "ordinals", tell: tellStatefulSet,
	}
}

func ordinalOf(pod *corev1.Pod) string {
	ordinal, ok := ordinals.OfPod("web", pod)
	if !ok {
		return ""
	}
	return strconv.Itoa(ordinal)
}

func tellStatefulSet(ctx context.Context, s *story) error {
	web := &subject[*v1beta1.StatefulSet]{
		story: s, kind: "StatefulSet", labels: apps.ReservedStatefulSetLabels(),
		empty:    func() *v1beta1.StatefulSet { return &v1beta1.StatefulSet{} },
		template: func(set *v1beta1.StatefulSet) *corev1.PodTemplateSpec { return &set.Spec.Template },
		isDone: func(set *v1beta1.StatefulSet) bool {
			status, replicas := &set.Status, *set.Spec.Replicas
			return status.ObservedGeneration >= set.Generation && status.Replicas == replicas &&
				status.AvailableReplicas == replicas && status.UpdatedAvailableReplicas == replicas
		},
	}
	first := newStatefulSet()
	none := first.DeepCopy()
	none.Spec.Replicas = ptr.To[int32](0)
	chapter, err := numbered(none, first, s.workload.gates, "")
	if err != nil {
		return err
	}
	err = s.list(ctx, part{
		title: "A StatefulSet, replicas 4 -> 0,1,2,3", chapter: chapter, act: web.create(first), settled: web.settled,
		want: tally{after: "0,1,2,3", created: 4},
	})
	if err != nil {
		return err
	}
	for _, p := range statefulSetParts() {
		e, err := web.edit(ctx, p.change)
		if err != nil {
			return err
		}
		chapter, err := numbered(e.before, e.after, s.workload.gates, e.why)
		if err != nil {
			return err
		}
		err = s.list(ctx, part{
			title: p.title, chapter: chapter, act: e.write, settled: web.settled, want: p.want,
			maxUnavailable: p.maxUnavailable, field: e.field,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// statefulSetPart is a part of the show that changes the StatefulSet.
type statefulSetPart struct {
	title          string
	change         func(*v1beta1.StatefulSet)
	want           tally
	maxUnavailable int
}

func statefulSetParts() []statefulSetPart {
	spec := func(replicas int32, reserved ...int32) func(*v1beta1.StatefulSet) {
		return func(set *v1beta1.StatefulSet) {
			set.Spec.Replicas, set.Spec.ReserveOrdinals = &replicas, nil
			for _, ordinal := range reserved {
				set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.FromInt32(ordinal))
			}
		}
	}
	return []statefulSetPart{
		{
			title: "Ordinal 1 left out: reserveOrdinals [1], replicas 4 -> 0,2,3,4", change: spec(4, 1),
			want: tally{before: "0,1,2,3", after: "0,2,3,4", kept: 3, created: 1, deleted: 1},
		},
		{
			title: "Pod 3 moved: reserveOrdinals [1,3], replicas 4 -> 0,2,4,5", change: spec(4, 1, 3),
			want: tally{before: "0,2,3,4", after: "0,2,4,5", kept: 3, created: 1, deleted: 1},
		},
		{
			title: "Pod 3 back: reserveOrdinals [1], replicas 4 -> 0,2,3,4", change: spec(4, 1),
			want: tally{before: "0,2,4,5", after: "0,2,3,4", kept: 3, created: 1, deleted: 1},
		},
		{
			title: "Pod 3 removed alone: reserveOrdinals [1,3], replicas 3 -> 0,2,4", change: spec(3, 1, 3),
			want: tally{before: "0,2,3,4", after: "0,2,4", kept: 3, deleted: 1},
		},
		{
			title: "ordinals.start 3, replicas 5, nothing reserved -> 3,4,5,6,7",
			change: func(set *v1beta1.StatefulSet) {
				spec(5)(set)
				set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
			},
			want: tally{before: "0,2,4", after: "3,4,5,6,7", kept: 1, created: 4, deleted: 2},
		},
		{
			title:  fmt.Sprintf("Image app:v1 -> app:v2, maxUnavailable %d -> all in place, %[1]d at a time", outOfService),
			change: func(set *v1beta1.StatefulSet) { newImage(&set.Spec.Template) },
			want:   tally{before: "3,4,5,6,7", after: "3,4,5,6,7", kept: 5, updated: 5}, maxUnavailable: outOfService,
		},
		{
			title:  fmt.Sprintf("A new environment variable -> all recreated under their names, %d at a time", outOfService),
			change: func(set *v1beta1.StatefulSet) { newVariable(&set.Spec.Template) },
			want:   tally{before: "3,4,5,6,7", after: "3,4,5,6,7", recreated: 5}, maxUnavailable: outOfService,
		},
	}
}

func newStatefulSet() *v1beta1.StatefulSet {
	selector, template := podTemplate(1500 * time.Millisecond)
	template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}}
	return &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: ptr.To[int32](4), Selector: selector, Template: template,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromInt32(outOfService)),
				},
			},
		},
	}
}

// numbered returns the explanations for a change from before to after: which ordinals are the reason for creating and
// deleting Pods. If a Pod is deleted although the ordinal is still wanted, the Pod is recreated for the reason in
// why.
func numbered(before, after *v1beta1.StatefulSet, gates map[apps.Gate]bool, why string) (chapter, error) {
	fromStart := gates[apps.GateStatefulSetStartOrdinal]
	old, err := api.Ordinals(before, fromStart)
	if err != nil {
		return chapter{}, err
	}
	wanted, err := api.Ordinals(after, fromStart)
	if err != nil {
		return chapter{}, err
	}
	reserved, err := ordinals.ParseSet("spec.reserveOrdinals", after.Spec.ReserveOrdinals)
	if err != nil {
		return chapter{}, err
	}
	start := int(ptr.Deref(after.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
	return chapter{
		created: func(pod *corev1.Pod) cause {
			at := "created at revision " + revision.ShortName(pod.Labels[apps.LabelRevision]) + ": "
			ordinal, _ := ordinals.OfPod(after.Name, pod)
			if old.Contains(ordinal) {
				return cause{how: "recreated", why: why, line: at + "takes the place of the Pod that was deleted"}
			}
			text := fmt.Sprintf("ordinal %d is wanted", ordinal)
			return cause{how: "created", why: text, line: at + text}
		},
		deleted: func(pod *corev1.Pod) cause {
			ordinal, _ := ordinals.OfPod(after.Name, pod)
			text := fmt.Sprintf("ordinal %d is not wanted", ordinal)
			switch {
			case wanted.Contains(ordinal):
				return cause{how: "recreated", why: why, line: "deleted to be recreated: " + why}
			case reserved.Contains(ordinal):
				text = fmt.Sprintf("ordinal %d is reserved", ordinal)
			case ordinal < start:
				text = fmt.Sprintf("ordinals start at %d", start)
			}
			return cause{how: "deleted", why: text, line: "deleted: " + text}
		},
	}, nil
}
