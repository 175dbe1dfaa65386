package foresee

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/podreadiness"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds/cloneset"
	"github.com/workloadkit/workloadkit/examples/kinds/daemonset"
	"github.com/workloadkit/workloadkit/examples/kinds/podunavailablebudget"
	"github.com/workloadkit/workloadkit/examples/kinds/sidecarset"
	"github.com/workloadkit/workloadkit/examples/kinds/statefulset"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/rehearsal"
)

// Rows returns the kind.Row of each kind whose controller Play runs.
func Rows() []kind.Row {
	return []kind.Row{cloneset.Row(), statefulset.Row(), daemonset.Row(), sidecarset.Row(), podunavailablebudget.Row()}
}

// NewScheme returns a scheme with the types of Kubernetes and of the rows.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, policyv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// served returns an empty object of each kind that the API server in memory has, in addition to Pods,
// PersistentVolumeClaims and ControllerRevisions.
func served() []client.Object {
	return append(workloads.Kinds(),
		faultapi.ClusterWide(&v1beta1.SidecarSet{}), &policyv1beta1.PodUnavailableBudget{}, &v1beta1.ContainerRecreateRequest{},
		&v1beta1.ImagePullJob{}, &corev1.Node{}, &corev1.Namespace{}, &storagev1.StorageClass{},
	)
}

// world is the API server in memory with the controllers.
type world struct {
	server *faultapi.Server
	scheme *runtime.Scheme
	clock  *rehearsal.Clock
	rows   []kind.Row
	gates  map[apps.Gate]bool
	ask    Question
	steps  []podwebhook.Mutator
	permit func(context.Context, *corev1.Pod, disruption.Operation) error
}

func newWorld(ask Question) (*world, error) {
	w := &world{clock: rehearsal.NewClock(ask.Now), rows: Rows(), gates: apps.ResolveGates(ask.Gates), ask: ask}
	var err error
	if w.scheme, err = NewScheme(); err != nil {
		return nil, err
	}
	if w.server, err = faultapi.New(w.scheme, w.clock.Now, served()...); err != nil {
		return nil, err
	}
	objects := make([]client.Object, 0, len(ask.Objects))
	for _, object := range ask.Objects {
		objects = append(objects, object.DeepCopyObject().(client.Object))
	}
	w.complete(&objects)
	return w, w.server.Load(objects...)
}

// setUp adds the controllers and the parts of the Pod webhook to a manager.
func (w *world) setUp(ctx context.Context, mgr ctrl.Manager) error {
	shared := kruise.Options{
		Gates: w.gates, ManagerNamespace: w.ask.ManagerNamespace, Clock: passive{w.clock}, Calls: 1, Workers: 1, PodWorkers: 1,
		ExpectationTimeout: time.Hour, Permit: func(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error {
			if w.permit == nil {
				return nil
			}
			return w.permit(ctx, pod, operation)
		},
		OpensGate: func(of schema.GroupKind) bool {
			for _, row := range w.rows {
				if row.OpensGate && row.Kind.GroupKind() == of {
					return true
				}
			}
			return false
		},
	}
	if err := w.webhooks(ctx, mgr); err != nil {
		return err
	}
	for _, row := range w.rows {
		if row.Setup == nil || !row.IsOn(w.gates) {
			continue
		}
		if err := row.Setup(ctx, mgr, mgr.GetClient(), shared); err != nil {
			return fmt.Errorf("setting up %s: %w", row.Controller, err)
		}
	}
	return podreadiness.Setup(ctx, mgr, mgr.GetClient(), shared)
}

// webhooks creates the guards that permit or refuse disruptions of Pods, and the mutations of new Pods, in the same
// order as the real manager.
func (w *world) webhooks(ctx context.Context, mgr ctrl.Manager) error {
	in := kind.PodInputs{
		Gates: w.gates, Namespace: w.ask.ManagerNamespace, Revisions: w.ask.ManagerNamespace, Clock: passive{w.clock},
		Current: func(context.Context) error { return nil },
	}
	w.steps = []podwebhook.Mutator{admission.ReadinessGate(w.gates)}
	var guards []kind.Guard
	for _, row := range w.rows {
		if row.PodMutator != nil {
			step, err := row.PodMutator(ctx, mgr, in)
			if err != nil {
				return fmt.Errorf("webhook for Pods of %s: %w", row.Kind.Kind, err)
			}
			w.steps = append(w.steps, step)
		}
		if row.Guard != nil && row.IsOn(w.gates) {
			guard, err := row.Guard(ctx, mgr, in)
			if err != nil {
				return fmt.Errorf("guard of %s: %w", row.Kind.Kind, err)
			}
			guards = append(guards, guard)
		}
	}
	for _, guard := range guards {
		w.steps = append(w.steps, guard.Mutator())
	}
	w.permit = func(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) error {
		for _, guard := range guards {
			if err := guard.Permit(ctx, pod, operation); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// mutate changes a new Pod as the Pod webhook would.
func (w *world) mutate(ctx context.Context, pod *corev1.Pod) error {
	if w.ask.NoWebhooks || !w.gates[apps.GatePodWebhook] {
		return nil
	}
	for _, step := range w.steps {
		if err := step.Mutate(ctx, pod, &webhookadmission.Request{}); err != nil {
			return fmt.Errorf("webhook for Pods, step %s: %w", step.Name, err)
		}
	}
	return nil
}

// volumes binds PersistentVolumeClaims, and grows their volumes to the requested size.
func (w *world) volumes(ctx context.Context) (changed bool) {
	user := w.server.Client(nil, nil)
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.server) {
		want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		have := claim.Status.Capacity[corev1.ResourceStorage]
		if claim.Status.Phase == corev1.ClaimBound && want.Cmp(have) <= 0 || claim.Status.Phase == corev1.ClaimLost {
			continue
		}
		next := claim.DeepCopy()
		next.Status.Phase = corev1.ClaimBound
		next.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: want}
		next.Status.Conditions = nil
		changed = user.Status().Update(ctx, next) == nil || changed
	}
	return changed
}
