package persistentpodstate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ownercache"
)

// indexOf returns a cache with the given PersistentPodStates. The cache is never filled unless filled is true.
func indexOf(t testing.TB, filled bool, states ...v1beta1.PersistentPodState) *ownercache.Index[*v1beta1.PersistentPodState] {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &v1beta1.PersistentPodStateList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: states}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, unwatched{}), &v1beta1.PersistentPodState{}, 0, toolscache.Indexers{})
	index, err := ownercache.IndexOf[*v1beta1.PersistentPodState](informer)
	if err != nil {
		t.Fatal(err)
	}
	if filled {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan struct{})
		go func() { defer close(done); informer.RunWithContext(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		if !toolscache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
			t.Fatal("the cache is not filled")
		}
	}
	return index
}

// unwatched makes the informer list objects with a list request, not with a watch.
type unwatched struct{}

func (unwatched) IsWatchListSemanticsUnSupported() bool { return true }

func stateFor(apiVersion, kind, name string) v1beta1.PersistentPodState {
	state := v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keep"}, Spec: *spec()}
	state.Spec.PreferredPersistentTopology = nil
	state.Spec.TargetReference = v1beta1.PersistentPodStateTarget{APIVersion: apiVersion, Kind: kind, Name: name}
	state.Status.PodStates = records{"db-0": at("n1", "zone=a"), "db-1": at("n1")}
	return state
}

func ownedPod(name, apiVersion, kind, owner string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner, Controller: new(true)}}
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func TestStep(t *testing.T) {
	games := []schema.GroupVersionKind{{Group: "game.io", Version: "v1", Kind: "Set"}}
	builtIn, listed := stateFor("apps/v1", "StatefulSet", "db"), stateFor("game.io/v1", "Set", "db")
	asks := func(pod *corev1.Pod) { pod.Spec.NodeSelector = pairs("zone=b") }
	elsewhere := func(pod *corev1.Pod) { pod.Namespace = "other" }
	for _, c := range []struct {
		name   string
		state  v1beta1.PersistentPodState
		filled bool
		listed []schema.GroupVersionKind
		known  bool
		pod    *corev1.Pod
		dry    bool
		want   map[string]string
		waits  bool
		events int
	}{
		{name: "PS-3 a Pod that has run", state: builtIn, filled: true, pod: ownedPod("db-0", "apps/v1", "StatefulSet", "db"), want: pairs("zone=a")},
		{name: "PS-3 the version of its controller does not matter", state: builtIn, filled: true, pod: ownedPod("db-0", "apps/v1beta2", "StatefulSet", "db"), want: pairs("zone=a")},
		{name: "PS-3 one without labels", state: builtIn, filled: true, pod: ownedPod("db-1", "apps/v1", "StatefulSet", "db")},
		{name: "PS-3 the first of its name", state: builtIn, filled: true, pod: ownedPod("db-2", "apps/v1", "StatefulSet", "db")},
		{name: "PS-3 another workload's", state: builtIn, filled: true, pod: ownedPod("db-0", "apps/v1", "StatefulSet", "web")},
		{name: "PS-3 another kind's", state: builtIn, filled: true, pod: ownedPod("db-0", "apps.kruise.io/v1", "StatefulSet", "db")},
		{name: "PS-3 another namespace's", state: builtIn, filled: true, pod: ownedPod("db-0", "apps/v1", "StatefulSet", "db", elsewhere)},
		{name: "PS-3 nobody's", state: builtIn, filled: true, pod: ownedPod("db-0", "", "", "")},
		{name: "PS-3 it asks for something else", state: builtIn, filled: true, pod: ownedPod("db-0", "apps/v1", "StatefulSet", "db", asks), want: pairs("zone=a"), events: 1},
		{name: "PS-3 a dry run tells nobody", state: builtIn, filled: true, dry: true, pod: ownedPod("db-0", "apps/v1", "StatefulSet", "db", asks), want: pairs("zone=a")},
		{name: "PS-3 the cache is not filled", state: builtIn, pod: ownedPod("db-0", "apps/v1", "StatefulSet", "db"), waits: true},
		{name: "other Pods do not wait for it", state: builtIn, pod: ownedPod("db-0", "apps/v1", "ReplicaSet", "db")},
		{name: "nor do those of Jobs", state: builtIn, pod: ownedPod("db-0", "batch/v1", "Job", "db")},
		{name: "PS-11 a kind that is listed", state: listed, filled: true, listed: games, known: true, pod: ownedPod("db-0", "game.io/v2", "Set", "db"), want: pairs("zone=a")},
		{name: "PS-11 a kind that is listed no more", state: listed, filled: true, known: true, pod: ownedPod("db-0", "game.io/v1", "Set", "db")},
		{name: "PS-11 the list is not read", state: listed, filled: true, pod: ownedPod("db-0", "game.io/v1", "Set", "db"), waits: true},
		{name: "PS-11 nobody waits for it without need", state: listed, filled: true, pod: ownedPod("db-2", "game.io/v1", "Set", "db")},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			mutate, err := mutateOf(indexOf(t, c.filled, c.state), c.listed, c.known, events)
			if err != nil {
				t.Fatal(err)
			}
			request := &admission.Request{}
			request.DryRun = &c.dry
			err = mutate(t.Context(), c.pod, request)
			if apierrors.IsServiceUnavailable(err) != c.waits || err != nil && !c.waits {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(c.want, c.pod.Spec.NodeSelector); diff != "" && !c.waits {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(events.Events) != c.events {
				t.Errorf("%d events", len(events.Events))
			}
		})
	}
}

// BenchmarkStepOfOthers measures what the step of the Pod webhook costs for a Pod without a PersistentPodState.
func BenchmarkStepOfOthers(b *testing.B) {
	mutate, err := mutateOf(indexOf(b, true, stateFor("apps/v1", "StatefulSet", "db")), nil, true, nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, pod := range map[string]*corev1.Pod{
		"ReplicaSet": ownedPod("web-x7f2k", "apps/v1", "ReplicaSet", "web-x7"), "StatefulSet": ownedPod("web-0", "apps/v1", "StatefulSet", "web"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := mutate(b.Context(), pod, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecord measures a decision about 10,000 unchanged Pods.
func BenchmarkRecord(b *testing.B) {
	var pods []*corev1.Pod
	for i := range 10_000 {
		pods = append(pods, readyPod(fmt.Sprintf("db-%d", i), "n1"))
	}
	workload := wants(b, 0, len(pods))
	s := read(spec())
	before, _ := recordOf(s, nil, workload, pods, nodes)
	node, _ := nodes("n1")
	b.ReportAllocs()
	for b.Loop() {
		after, differs := recordOf(s, before, workload, pods, func(string) (*corev1.Node, bool) { return node, true })
		paths := pathsOf(v1beta1.PersistentPodStateStatus{PodStates: before}, v1beta1.PersistentPodStateStatus{PodStates: after})
		if differs || len(paths) > 0 {
			b.Fatal(paths)
		}
	}
}

// mutateOf returns the function that changes new Pods, with the given index and the given configured workload kinds.
// known is true if the configuration was read.
func mutateOf(index *ownercache.Index[*v1beta1.PersistentPodState], listed []schema.GroupVersionKind, known bool, events record.EventRecorder) (
	func(context.Context, *corev1.Pod, *admission.Request) error, error,
) {
	lists := func(kind schema.GroupKind) (bool, bool) {
		return slices.ContainsFunc(listed, func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind }), known
	}
	current := func(context.Context) error {
		if !index.HasSynced() {
			return errors.New("the cache is not filled")
		}
		return nil
	}
	s := &step{current: current, states: index, lists: lists, events: events}
	return s.mutate, index.Add(stepIndex, byTarget)
}
