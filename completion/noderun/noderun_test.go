package noderun_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/completion/noderun"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/internal/clustertest"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
)

// job is the kind of the owners; a caller has its own kind.
type job = *appsv1.ReplicaSet

// world has a job in a cluster in memory, and a Runner.
type world struct {
	*clustertest.Cluster

	t      *testing.T
	cache  *ownercache.Cache[job]
	runner *noderun.Runner[job]
	fanout *fanout.Fanout
	fits   *nodefit.Requirements
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := process(t, clustertest.New())
	w.must(w.Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "check", UID: "u"}}))
	w.must(w.Deliver(t.Context()))
	w.Requests()
	return w
}

// process returns the world of another controller process, with its own cache and Runner, on the same cluster.
func process(t *testing.T, cluster *clustertest.Cluster) *world {
	t.Helper()
	w := &world{Cluster: cluster, t: t, fanout: fanout.New(5)}
	var err error
	w.cache, err = ownercache.New(t.Context(), w.Cluster, &appsv1.ReplicaSet{}, ownercache.Options{NoBarrier: true, Nodes: true})
	w.must(err)
	w.runner, err = noderun.New(w.cache)
	w.must(err)
	w.fits, err = nodefit.New(&corev1.PodSpec{})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// do carries out the work in a new reconcile.
func (w *world) do(work completion.Work) (noderun.Done, ctrl.Result, error) {
	w.t.Helper()
	v, _, err := w.cache.Observe(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "check"}})
	w.must(err)
	if v == nil {
		w.t.Fatal("the cache lacks a write")
	}
	pass := w.fanout.Begin(v)
	done, err := w.runner.Do(w.t.Context(), v, pass, work, func(node string) *corev1.Pod {
		return w.runner.NewPod(v.Owner, &corev1.PodTemplateSpec{}, w.fits, node)
	})
	result, _ := pass.Result(err)
	return done, result, err
}

// pods returns, for all Pods, the names of their Nodes.
func (w *world) pods() (nodes []string) {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.WithWatch.List(w.t.Context(), &list))
	for i := range list.Items {
		node, err := nodefit.NodeOf(&list.Items[i])
		w.must(err)
		nodes = append(nodes, node)
	}
	return nodes
}

func TestNew(t *testing.T) {
	c := clustertest.New()
	without, err := ownercache.New(t.Context(), c, &appsv1.ReplicaSet{}, ownercache.Options{NoBarrier: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, cache := range map[string]*ownercache.Cache[job]{"no cache": nil, "a cache without Nodes": without} {
		if _, err := noderun.New(cache); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCreate: a Pod is created for each Node only once, even by a process whose cache does not show the Pod.
func TestCreate(t *testing.T) {
	w := newWorld(t)
	done, _, err := w.do(completion.Work{Create: []string{"n1", "n2"}})
	if err != nil || done.Created != 2 || !done.Tried || done.Active() != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if diff := cmp.Diff([]string{"n1", "n2"}, w.pods(), cmp.Transformer("sorted", sorted)); diff != "" {
		t.Errorf("Nodes (-want +got):\n%s", diff)
	}
	done, _, err = process(t, w.Cluster).do(completion.Work{Create: []string{"n1"}}) // its cache is empty
	if !apierrors.IsAlreadyExists(err) || done.Created != 0 || !errors.Is(done.CreateErr, noderun.PodNotCreated) || len(w.pods()) != 2 {
		t.Errorf("%+v, %v, Pods on %v", done, err, w.pods())
	}
}

func sorted(list []string) map[string]int {
	out := map[string]int{}
	for _, s := range list {
		out[s]++
	}
	return out
}

// TestStripped: a created Pod that has lost its Node or owner is deleted again, and a Pod without Node or owner is
// not created at all.
func TestStripped(t *testing.T) {
	w := newWorld(t)
	w.Change = func(object client.Object) {
		if pod, ok := object.(*corev1.Pod); ok {
			pod.OwnerReferences = nil
		}
	}
	done, _, err := w.do(completion.Work{Create: []string{"n1"}})
	if !errors.Is(err, noderun.PodStripped) || done.Created != 0 || len(w.pods()) != 0 {
		t.Errorf("%+v, %v, Pods on %v", done, err, w.pods())
	}
	v, _, err := newWorld(t).cache.Observe(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "check"}})
	w.must(err)
	fresh := newWorld(t)
	_, err = fresh.runner.Do(t.Context(), v, fresh.fanout.Begin(v), completion.Work{Create: []string{"n1"}}, func(string) *corev1.Pod {
		return podstate.FromTemplate(&corev1.PodTemplateSpec{}, "default", *metav1.NewControllerRef(v.Owner, fresh.cache.Kind())) // a Pod without a Node
	})
	if !errors.Is(err, noderun.PodStripped) || len(fresh.Requests()) > 0 {
		t.Errorf("%v", err)
	}
}

// TestDelete: a Pod is deleted only in the observed version. If a Pod has changed since, the job is reconciled again,
// and the next phase waits.
func TestDelete(t *testing.T) {
	w := newWorld(t)
	_, _, err := w.do(completion.Work{Create: []string{"n1", "n2"}})
	w.must(err)
	w.must(w.Deliver(t.Context()))
	survey := completion.OnNodes(w.cache.Pods.All(), map[string]completion.Claim{"n1": {Fits: true}, "n2": {Fits: true}}, 0)
	w.Answer = func(r clustertest.Request) error {
		if node, _ := nodefit.NodeOf(survey.Running[0].Pod); r.Verb == "delete" && node != "" && r.Object.GetName() == survey.Running[0].Name {
			return apierrors.NewConflict(corev1.Resource("pods"), r.Object.GetName(), errors.New("changed"))
		}
		return nil
	}
	done, result, err := w.do(survey.Work(completion.Step{State: completion.Over, Remove: true}))
	if err != nil || len(done.Deleted) != 1 || done.Deleted[0].Name != survey.Running[1].Name || done.Deleted[0].Why != completion.JobOver || done.Active() != -1 {
		t.Errorf("%+v, %v", done, err)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("again in %v", result.RequeueAfter)
	}
	if err := w.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "check"}, &appsv1.ReplicaSet{}); err != nil {
		t.Errorf("the job is deleted before its Pods: %v", err)
	}
}

// TestRemove: the job is deleted when no other work remains.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	if _, _, err := w.do(completion.Work{Remove: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "check"}, &appsv1.ReplicaSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("the job is there: %v", err)
	}
}
