package cloneset

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults runs fault schedules with CloneSets, Pods, stale caches and restarts of the controller, and checks
// invariants after each write and at the end.
func TestFaults(t *testing.T) {
	chaos.Run(t, plan(t))
}

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) {
	chaos.Replay(t, plan(t), 3)
}

func plan(t testing.TB) chaos.Plan {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{Scheme: scheme, Kinds: []client.Object{&v1beta1.CloneSet{}, &v1beta1.ContainerRecreateRequest{}, &v1beta1.ImagePullJob{}}, Seeds: 300, Steps: 300, Quiet: quiet, New: newStory}
}

// quiet is the time without a write after which a schedule's final state counts as reached. The time is longer than
// the controller's wait after a refused update.
const quiet = 6 * time.Minute

// story is the state of a fault schedule, with the controller's past writes.
type story struct {
	*chaos.World

	setup    setup
	policies policies
	// reconciler is the reconciler of the running process.
	reconciler *Reconciler
	// taken contains, by Pod, the version of the controller's last write that took the Pod out of service or deleted the
	// Pod.
	taken map[types.UID]int64
	// held contains, by Pod, the start of the reconciliation that delayed an update. If the Node has reported the Pod as
	// ready since, held contains the time of this report.
	held map[types.UID]time.Time
	// senseless is true if the specs are invalid after the last edits.
	senseless bool
	// agents restart containers.
	agents *restarttest.Agents
}

func newStory(world *chaos.World) chaos.Subject {
	w := &story{World: world, taken: map[types.UID]int64{}, held: map[types.UID]time.Time{}, agents: restarttest.New(world)}
	return chaos.Subject{
		Setup: w.start, Begin: w.begin, Users: w.act, Outside: w.outside, Settle: w.settle,
		Denies: w.denies, Looks: w.look, Wrote: w.judge, Check: func() { w.agentPolls(); w.checkState() }, Converged: w.checkConverged,
	}
}

// start starts the controllers as the manager does. The delays after errors begin as in the manager, but have a
// shorter maximum.
func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	gates := apps.DefaultGates()
	gates[apps.GateInPlaceWorkloadVerticalScaling] = true
	gates[apps.GateCloneSetPartitionRollback] = w.setup.rollback
	gates[apps.GateRecreatePodWhenChangeVCT] = w.setup.recreateForClaims
	gates[apps.GatePreDownloadImageForInPlaceUpdate], gates[apps.GateImagePullJob] = w.setup.pullsAhead, w.setup.pullsAhead
	r, err := newReconciler(ctx, mgr, mgr.GetClient(), Options{NewID: w.NewID(), Options: kruise.Options{
		Gates: gates, Presence: w.presence,
		RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
		},
	}})
	if err != nil {
		return err
	}
	w.reconciler = r
	return r.Register(mgr, r)
}

// presence says which kinds the API server serves. ImagePullJobs are always served.
func (w *story) presence(kind schema.GroupVersionKind) watchhealth.State {
	if kind.Kind == "ImagePullJob" {
		return watchhealth.Served
	}
	return w.agents.Presence(kind)
}

// checkMemory checks that the process forgets writes and refusals when their Pods and CloneSets are deleted.
func (w *story) checkMemory() {
	r, pods := w.reconciler, faultapi.All[*corev1.Pod](w.Server)
	alive := make([]metav1.Object, 0, len(pods)+len(w.setup.owners))
	for _, pod := range pods {
		alive = append(alive, pod)
	}
	for _, name := range w.setup.owners {
		alive = append(alive, w.cloneSet(name))
	}
	clients, doubts := r.Cache.Clients(), 0
	for _, obj := range alive { // Check forgets writes that the cache shows
		if clients.InDoubt(obj) {
			doubts++ // the next reconciliation asks the API server
			continue
		}
		if pending, err := clients.Check(context.Background(), obj); pending != nil || err != nil {
			w.Failf("memory", "%s still waits for its writes: %v, %v", obj.GetName(), pending, err)
		}
	}
	if n := clients.Tracker().Len(); n > doubts {
		w.Failf("memory", "writes of %d owners are kept that are gone", n-doubts)
	}
	if n := r.Fanout.Backoff.Len(); n > len(alive) {
		w.Failf("memory", "refusals of %d Pods and CloneSets are kept, of which there are %d", n, len(alive))
	}
}
