package chaos_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// keeper is a controller that creates a Pod for each ControllerRevision. The Pod has the name of the
// ControllerRevision, so a second Pod is impossible, however old the cache is.
type keeper struct{ client.Client }

func (k *keeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	owner := &appsv1.ControllerRevision{}
	if err := k.Get(ctx, req.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pod := &corev1.Pod{}
	if err := k.Get(ctx, req.NamespacedName, pod); client.IgnoreNotFound(err) != nil || err == nil {
		return ctrl.Result{}, err
	}
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	return ctrl.Result{}, client.IgnoreAlreadyExists(k.Create(ctx, pod))
}

// setup adds the controller to a manager; in a real program, main also calls setup.
func setup(_ context.Context, mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&appsv1.ControllerRevision{}).Owns(&corev1.Pod{}).Complete(&keeper{mgr.GetClient()})
}

// plan has the users' actions, the invariants, and the final conditions.
func plan() chaos.Plan {
	return chaos.Plan{Scheme: clientgoscheme.Scheme, New: func(w *chaos.World) chaos.Subject {
		ctx := context.Background()
		return chaos.Subject{
			Setup: setup,
			Begin: func() {
				owner := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
				if err := w.User.Create(ctx, owner); err != nil {
					w.Failf("story", "%v", err)
				}
			},
			Users: func() {
				if pod := w.AnyPod(); pod != nil {
					w.Logf("user: delete %s", pod.Name)
					_ = w.User.Delete(ctx, pod.DeepCopy())
				}
			},
			Wrote: func(write *chaos.Write) {
				if write.Call.Verb != "create" {
					w.Failf("harmless", "the controller does %s", write.Call)
				}
			},
			Converged: func() {
				if n := len(faultapi.All[*corev1.Pod](w.Server)); n != 1 {
					w.Failf("one Pod", "there are %d", n)
				}
			},
		}
	}}
}

// A test of a controller consists of three parts: the controller's Setup, the users' actions, and the rules.
func ExampleRun() {
	var t *testing.T // in a test, the argument of the test function
	chaos.Run(t, plan())
}

func TestExample(t *testing.T) {
	chaos.Run(t, plan())
	chaos.Replay(t, plan(), 3)
}

// TestReportFromOutside: the report of a failure names the package under test, not the external test package.
func TestReportFromOutside(t *testing.T) {
	t.Parallel()
	const want = "github.com/workloadkit/workloadkit/testing/chaos"
	if got := chaos.TestPackage(plan().New); got != want {
		t.Errorf("package %s, want %s", got, want)
	}
}
