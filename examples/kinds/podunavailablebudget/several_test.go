package podunavailablebudget

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// counted creates a budget, and sets the number of allowed disruptions in its status.
func (w *world) counted(b *v1beta1.PodUnavailableBudget, allowed int32) {
	w.Helper()
	w.create(b)
	b.Status = v1beta1.PodUnavailableBudgetStatus{ObservedGeneration: b.Generation, TotalReplicas: 3, DesiredAvailable: 3 - allowed, CurrentAvailable: 3, UnavailableAllowed: allowed}
	if err := w.user.Status().Update(context.Background(), b); err != nil {
		w.Fatal(err)
	}
	w.sync()
}

func old(name string, edit func(*corev1.Pod)) *corev1.Pod {
	pod := serving(edit)
	pod.Name, pod.UID, pod.CreationTimestamp = name, types.UID(name), metav1.NewTime(start.Add(-time.Hour))
	return pod
}

// TestAskAllBudgets: an operation is admitted only if all budgets of the Pod admit it. If a budget refuses, the
// operation is not counted against the other budgets.
func TestAskAllBudgets(t *testing.T) {
	team := func(p *corev1.Pod) { p.Labels["team"] = "t" }
	for _, tc := range []struct {
		name       string
		two, other int32
		marks      string
		edit       func(*corev1.Pod)
		admitted   bool
		by         string
	}{
		{"both have something left", 1, 1, "", team, true, "two"},
		{"the oldest refuses", 1, 0, "", team, false, "other"},
		{"the later one refuses", 0, 1, "", team, false, "two"},
		{"the Pod names one alone", 1, 0, "two", team, false, "other"},
		{"the other one is not for it", 1, 0, "", nil, true, "two"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.counted(budget("two", map[string]string{"app": "web"}, nil), tc.two)
			w.counted(budget("other", map[string]string{"team": "t"}, nil), tc.other)
			pod := old("web-0", tc.edit)
			if tc.marks != "" {
				pod.Annotations[policy.AnnotationRelatedBudget] = tc.marks
			}
			answer, err := w.asked.Ask(t.Context(), pod, disruption.Evict, false)
			if err != nil || answer.Admitted != tc.admitted || answer.Budget != tc.by {
				t.Errorf("%+v, %v", answer, err)
			}
			for name, allowed := range map[string]int32{"two": tc.two, "other": tc.other} {
				got := &v1beta1.PodUnavailableBudget{}
				if err := w.user.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, got); err != nil {
					t.Fatal(err)
				}
				if spent := allowed - got.Status.UnavailableAllowed; spent > 0 && !tc.admitted {
					t.Errorf("budget %s spent %d on a Pod that stays", name, spent)
				}
			}
		})
	}
}

func TestTooManyBudgets(t *testing.T) {
	w := newWorld(t)
	for i := range mostOfPod + 1 {
		w.counted(budget("budget-"+string(rune('a'+i)), map[string]string{"app": "web"}, nil), 1)
	}
	answer, err := w.asked.Ask(t.Context(), old("web-0", nil), disruption.Evict, false)
	if err != nil || answer.Admitted || answer.Reason.Code != TooManyBudgets {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestMarks(t *testing.T) {
	named := func(name string) *v1beta1.PodUnavailableBudget {
		return &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for _, tc := range []struct {
		name string
		of   []*v1beta1.PodUnavailableBudget
		want map[string]*string
		back []string
	}{
		{"one", []*v1beta1.PodUnavailableBudget{named("a")}, map[string]*string{
			policy.AnnotationRelatedBudget: ptr.To("a"), policy.AnnotationRelatedBudgetOld: ptr.To("a"), policy.AnnotationOtherBudgets: nil,
		}, []string{"a"}},
		{"three", []*v1beta1.PodUnavailableBudget{named("b"), named("z"), named("a")}, map[string]*string{
			policy.AnnotationRelatedBudget: ptr.To("b"), policy.AnnotationRelatedBudgetOld: ptr.To("b"), policy.AnnotationOtherBudgets: ptr.To("a,z"),
		}, []string{"b", "a", "z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := marks(tc.of)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			for key, value := range got {
				if value != nil {
					pod.Annotations[key] = *value
				}
			}
			if diff := cmp.Diff(tc.back, NamesIn(pod)); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesInOfAnybodysAnnotation(t *testing.T) {
	for value, want := range map[string]int{"": 1, ",,,": 1, "first,first": 1, "a,b": 3, "a,b,c,d,e,f,g,h,i,j,k,l": mostOfPod} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{policy.AnnotationRelatedBudget: "first", policy.AnnotationOtherBudgets: value}}}
		if got := NamesIn(pod); len(got) != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// unread is a reader whose requests fail.
type unread struct{ client.Reader }

func (unread) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}

// TestAskWhileTheWatchIsDown: while the cache of budgets is stale, Ask reads the budgets from the API server. If the
// read fails, evictions and requests for Pods that name a budget fail, and all other requests are admitted.
func TestAskWhileTheWatchIsDown(t *testing.T) {
	late := errors.New("the watch is down")
	for _, tc := range []struct {
		name      string
		named     string
		operation disruption.Operation
		answers   bool
		admitted  bool
		fails     bool
	}{
		{"a budget that the cache has not seen refuses an eviction", "", disruption.Evict, true, false, false},
		{"and a deletion", "", disruption.Delete, true, false, false},
		{"and those of a Pod that names it", "new", disruption.Delete, true, false, false},
		{"no answer: an eviction waits", "", disruption.Evict, false, false, true},
		{"no answer: the deletion of a Pod with a budget waits", "new", disruption.Delete, false, false, true},
		{"no answer: other Pods can be deleted", "", disruption.Delete, false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			b := budget("new", map[string]string{"app": "web"}, nil)
			b.Namespace = "shop"
			if err := w.user.Create(t.Context(), b); err != nil { // and the cache gets no event
				t.Fatal(err)
			}
			w.asked.Current = func(context.Context) error { return late }
			if !tc.answers {
				w.asked.live = unread{w.user}
			}
			pod := old("web-0", nil)
			if tc.named != "" {
				pod.Annotations[policy.AnnotationRelatedBudget] = tc.named
			}
			answer, err := w.asked.Ask(t.Context(), pod, tc.operation, false)
			if answer.Admitted != tc.admitted || (err != nil) != tc.fails {
				t.Errorf("%+v, %v", answer, err)
			}
			if tc.fails && !errors.Is(err, late) {
				t.Errorf("the error does not say that the watch is down: %v", err)
			}
			if err := w.asked.Permit(t.Context(), pod, tc.operation); (err == nil) != tc.admitted {
				t.Errorf("a controller is told %v", err)
			}
		})
	}
}

// TestNamedAndNotCached: Ask asks all budgets that the Pod names, also budgets that are not in the cache yet.
func TestNamedAndNotCached(t *testing.T) {
	w := newWorld(t)
	w.counted(budget("two", map[string]string{"app": "web"}, nil), 1)
	late := budget("late", map[string]string{"app": "web"}, nil)
	late.Namespace = "shop"
	if err := w.user.Create(t.Context(), late); err != nil { // and the cache gets no event
		t.Fatal(err)
	}
	pod := old("web-0", func(p *corev1.Pod) {
		p.Annotations = map[string]string{policy.AnnotationRelatedBudget: "two", policy.AnnotationOtherBudgets: "late"}
	})
	answer, err := w.asked.Ask(t.Context(), pod, disruption.Evict, false)
	if err != nil || answer.Admitted || answer.Budget != "late" || answer.Reason.Code != disruption.NotCounted {
		t.Errorf("%+v, %v", answer, err)
	}
}

// TestTooManyBudgetsOfADeadPod: a Pod that has ended or is terminating may be deleted, however many budgets the Pod
// has. The kubelet, the Pod garbage collector, and the controllers of Jobs and DaemonSets delete such Pods.
func TestTooManyBudgetsOfADeadPod(t *testing.T) {
	w := newWorld(t)
	for i := range mostOfPod + 1 {
		w.counted(budget("budget-"+string(rune('a'+i)), map[string]string{"app": "web"}, nil), 1)
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"is terminating, and its kubelet deletes it": func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(start.Add(-time.Minute))), ptr.To[int64](0)
		},
		"has failed":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"is not ready": func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
	} {
		answer, err := w.asked.Ask(t.Context(), old("web-0", edit), disruption.Delete, false)
		if err != nil || !answer.Admitted {
			t.Errorf("a Pod that %s is kept: %v, %v", name, answer.Reason, err)
		}
	}
}
