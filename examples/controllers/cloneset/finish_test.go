package cloneset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
)

var scheduledAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newPod is a Pod as the controller created it, after what happened to it since.
func newPod(since ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-abcde", UID: "u", ResourceVersion: "7",
			Labels: map[string]string{
				apps.LabelRevision: "web-6d5f8b", apps.LabelPodTemplateHash: "6d5f8b", apps.LabelLifecycleState: apps.LifecyclePreparingNormal,
			},
		},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "app"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, f := range since {
		f(pod)
	}
	return pod
}

func owned(cs *v1beta1.CloneSet) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{ownerReference(cs)} }
}

func scheduled(pod *corev1.Pod) {
	pod.Spec.NodeName = "node-1"
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(scheduledAt),
	})
}

func reported(pod *corev1.Pod) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
}

func containersReady(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
}

// TestNewPod holds when a new Pod is written to: once, with its gate and its labels together, and not while scheduler and
// kubelet are about to write it (C-49, U-24, L-7). A label that went ahead of the gate would be a write of its own.
func TestNewPod(t *testing.T) {
	const once = "status: Normal, [InPlaceUpdateReady=True]"
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		after time.Duration // since it was scheduled
		want  []string
		again time.Duration
	}{
		{"no node yet", newPod(), 0, nil, 0},
		{"just scheduled", newPod(scheduled), 0, nil, 0},
		{"its node has said nothing for long", newPod(scheduled), time.Hour, nil, 0},
		{"being set up", newPod(scheduled, reported), 4 * time.Second, nil, 6 * time.Second},
		{"set up for as long as one waits", newPod(scheduled, reported), settleTime, []string{once}, 0},
		{"its containers are ready", newPod(scheduled, reported, containersReady), time.Second, []string{once}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &Finisher{&Reconciler{inPlace: inPlace(t, apps.DefaultGates())}}
			now := metav1.NewTime(scheduledAt.Add(tc.after))
			changes, again, err := f.decide(tc.pod, &v1beta1.CloneSet{}, now)
			if err != nil {
				t.Fatal(err)
			}
			patches, err := podpatch.Merge(tc.pod, now.Time, changes...)
			if err != nil {
				t.Fatal(err)
			}
			var requests []string
			for _, request := range patches.Requests {
				requests = append(requests, said(t, request))
			}
			if diff := cmp.Diff(tc.want, requests); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if again != tc.again {
				t.Errorf("looks again after %v, want %v", again, tc.again)
			}
		})
	}
}

func inPlace(t *testing.T, gates map[apps.Gate]bool) *inplaceupdate.Updater {
	t.Helper()
	updater, err := kruise.InPlace(gates)
	if err != nil {
		t.Fatal(err)
	}
	return updater
}

// TestFinisherNeverConflictsWithItself draws Pods in any state, under any hooks and with any gates, and merges what is decided
// for them. A conflict would come back with every event, for ever.
func TestFinisherNeverConflictsWithItself(t *testing.T) {
	options := withDefaults(Options{})
	f := &Finisher{&Reconciler{options: options, inPlace: inPlace(t, options.Gates)}}
	now := metav1.NewTime(scheduledAt.Add(time.Minute))
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 9))
		pod, cs := anyPod(r), &v1beta1.CloneSet{}
		if r.IntN(4) > 0 {
			cs.Spec.Lifecycle = &pub.Lifecycle{PreDelete: anyHook(r), InPlaceUpdate: anyHook(r), PreNormal: anyHook(r)}
		}
		changes, _, err := f.decide(pod, cs, now)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, err := podpatch.Merge(pod, now.Time, changes...); err != nil {
			t.Fatalf("seed %d, state %q, lifecycle %+v, conditions %+v: %v", seed, pod.Labels[apps.LabelLifecycleState], cs.Spec.Lifecycle, pod.Status.Conditions, err)
		}
	}
}

func anyPod(r *rand.Rand) *corev1.Pod {
	pod := newPod(scheduled, reported)
	pod.Status.Phase = corev1.PodRunning
	pod.Labels[apps.LabelLifecycleState] = []string{
		"", "PreparingNormal", "Normal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete", "x",
	}[r.IntN(8)]
	if r.IntN(3) > 0 {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: apps.ConditionKruisePodReady})
	}
	for _, kind := range []corev1.PodConditionType{apps.ConditionInPlaceUpdateReady, apps.ConditionKruisePodReady, corev1.ContainersReady, corev1.PodReady} {
		if r.IntN(3) == 0 {
			continue
		}
		condition := corev1.PodCondition{Type: kind, Status: []corev1.ConditionStatus{"", "True", "False"}[r.IntN(3)]}
		if kind == apps.ConditionKruisePodReady {
			condition.Message = []string{"", "[]", `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`, `[{"userAgent":"o","key":"k"}]`}[r.IntN(4)]
		}
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
	}
	if r.IntN(2) == 0 {
		pod.Labels["h"] = "y"
	}
	if r.IntN(2) == 0 {
		pod.Finalizers = []string{"x/f"}
	}
	return pod
}

func anyHook(r *rand.Rand) *pub.LifecycleHook {
	if r.IntN(3) == 0 {
		return nil
	}
	h := &pub.LifecycleHook{MarkPodNotReady: r.IntN(2) == 0}
	if r.IntN(3) > 0 {
		h.LabelsHandler = map[string]string{"h": "y"}
	}
	if r.IntN(3) > 0 {
		h.FinalizersHandler = []string{"x/f"}
	}
	return h
}

// said is the subresource of a request, the lifecycle state and the conditions that it writes.
func said(t *testing.T, request podpatch.Patch) string {
	t.Helper()
	var pod corev1.Pod
	if err := json.Unmarshal(request.Body, &pod); err != nil {
		t.Fatal(err)
	}
	var conditions []string
	for _, c := range pod.Status.Conditions {
		conditions = append(conditions, string(c.Type)+"="+string(c.Status))
	}
	return fmt.Sprintf("%s: %s, %v", request.Subresource, pod.Labels[apps.LabelLifecycleState], conditions)
}

// TestConflictsBackOff: a real conflict comes with an event; where it is a webhook that always has one, asking it again every
// other second would go on for ever.
func TestConflictsBackOff(t *testing.T) {
	pod := newPod(scheduled, reported, containersReady)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("busy"))
	answer := error(conflict)
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(pod).Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return answer
		},
	})
	r := eachOf()
	r.inPlace = inPlace(t, apps.DefaultGates())
	r.client = expectationsapply.NewClient(c, c, expectations.Options{})
	now := testingclock.NewFakePassiveClock(scheduledAt.Add(time.Minute))
	r.options.Clock = now
	f, cs := &Finisher{r}, &v1beta1.CloneSet{}
	send := func() time.Duration {
		t.Helper()
		changes, again, err := f.decide(pod, cs, metav1.NewTime(now.Now()))
		if err != nil {
			t.Fatal(err)
		}
		result, err := f.send(t.Context(), cs, pod, changes, again)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	first, second := send(), send()
	if first != firstPodBackOff || second != 2*first {
		t.Errorf("asked again after %v and %v, want %v and twice that", first, second, firstPodBackOff)
	}
	if pod.ResourceVersion = "8"; send() != first {
		t.Error("another version of the Pod does not start anew")
	}
	if answer = nil; send() != 0 || r.kept.Len() != 0 {
		t.Errorf("%d Pods are remembered after success", r.kept.Len())
	}
}
