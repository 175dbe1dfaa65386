// Command embed is a whole operator for a kind of its own, Fleet, that updates its Pods in place. Everything hard comes from
// the kit; what is left reads from top to bottom: observe, decide, act. Its CRD is in crd.yaml.
package main

import (
	"context"
	"errors"
	"log"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/expectations"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/fairqueue"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownerindex"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	revisionapply "github.com/workloadkit/workloadkit/revision/apply"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/slowstart"
)

// Names of the operator's own: the kit has none.
const (
	group         = "fleet.example.com"
	revisionLabel = group + "/revision"
	gate          = group + "/Updated"
)

type reconciler struct {
	*expectationsapply.Client // whatever is written through it is awaited
	pods                      *ownerindex.Index[*corev1.Pod]
	revisions                 *ownerindex.Index[*appsv1.ControllerRevision]
	decoder                   *revision.Decoder
	inPlace                   *inplaceupdate.Updater
	planner                   *inplaceupdate.Planner
}

// Reconcile takes one Fleet a step closer to its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	fleet := &Fleet{}
	if err := r.Get(ctx, req.NamespacedName, fleet); err != nil || fleet.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if len(fleet.Spec.undecodable) > 0 {
		return ctrl.Result{}, reconcile.TerminalError(fleet.Spec.undecodable[0]) // an edit will wake us
	}
	pending, err := r.Check(ctx, fleet)
	if err != nil || pending != nil { // the cache does not hold all of our own writes yet
		return ctrl.Result{RequeueAfter: pending.Wait()}, err
	}
	ctx = expectationsapply.For(ctx, fleet.UID)
	owner := revision.Owner{Namespace: fleet.Namespace, Name: fleet.Name, Reference: *metav1.NewControllerRef(fleet, fleetKind())}
	history := r.revisions.Of(fleet.Namespace, fleet.UID)
	target, err := revisionapply.Current(ctx, r, r.Live(), owner, revision.Keys{HashLabel: revisionLabel}, &fleet.Spec.Template, history, r.decoder)
	if err != nil {
		return ctrl.Result{}, err
	}
	counts, byUpdated, complete, result := rollout.Counts{}, map[bool][]*corev1.Pod{}, map[types.UID]bool{}, ctrl.Result{}
	available := func(pod *corev1.Pod) bool { return podstate.IsReady(pod) && complete[pod.UID] }
	for _, pod := range slices.DeleteFunc(r.pods.Of(fleet.Namespace, fleet.UID), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) }) {
		next, err := r.finish(ctx, pod)
		if err != nil {
			return ctrl.Result{}, err
		}
		if again := next.RequeueAfter; again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
			result.RequeueAfter = again // only time may tell whether the update is complete
		}
		updated := pod.Labels[revisionLabel] == target.Name
		complete[pod.UID] = next.Complete
		counts.Add(updated, available(pod))
		byUpdated[updated] = append(byUpdated[updated], pod)
	}
	step := rollout.Plan(rollout.Spec{Replicas: fleet.Spec.Replicas, MaxUnavailable: 1}, counts)
	if step.Create > 0 {
		_, err := slowstart.Run(ctx, step.Create, 1, func(ctx context.Context, _ int) error {
			pod := podstate.FromTemplate(&fleet.Spec.Template, fleet.Namespace, owner.Reference, gate)
			r.inPlace.StripReserved(&pod.ObjectMeta)
			pod.GenerateName, pod.Labels[revisionLabel] = fleet.Name+"-", target.Name
			return r.Create(ctx, pod)
		})
		return result, err
	}
	if step.Delete > 0 {
		extra := slices.Concat(byUpdated[false], byUpdated[true])[:step.Delete]
		return result, r.remove(ctx, rollout.Affordable(step, extra, available)...)
	}
	budget := rollout.NewUpdateBudget(step, counts)
	for _, pod := range rollout.Admitted(budget, byUpdated[false], available) {
		err = errors.Join(err, r.update(ctx, pod, target, history))
	}
	return result, err
}

// finish opens the gate of a new Pod, and of one whose containers run the new images.
func (r *reconciler) finish(ctx context.Context, pod *corev1.Pod) (inplaceupdate.Step, error) {
	next, err := r.inPlace.Next(pod, time.Now())
	if err == nil {
		_, err = podwrite.Send(ctx, r, pod, time.Now(), next.Change)
	}
	if errors.Is(err, podwrite.Refused) && !next.Complete { // it will not get what its label says already
		err = r.recreate(ctx, pod, err)
	}
	return next, err
}

// update changes a Pod in place, or has it recreated where that cannot be.
func (r *reconciler) update(ctx context.Context, pod *corev1.Pod, target *appsv1.ControllerRevision, history []*appsv1.ControllerRevision) error {
	plan := r.planner.Plan(revision.Find(history, pod.Labels[revisionLabel]), target)
	if !plan.Possible() {
		return r.recreate(ctx, pod, plan.Blocking)
	}
	to := inplaceupdate.Target{Revision: target.Name, Labels: map[string]string{revisionLabel: target.Name}}
	change, err := r.inPlace.Start(pod, plan, to, time.Now())
	if err != nil {
		return err
	}
	_, err = podwrite.Send(ctx, r, pod, time.Now(), change)
	if errors.Is(err, podwrite.Refused) {
		return r.recreate(ctx, pod, err)
	}
	return err
}

func (r *reconciler) recreate(ctx context.Context, pod *corev1.Pod, why error) error {
	ctrl.LoggerFrom(ctx).Info("Pod is recreated", "pod", pod.Name, "why", why.Error())
	return r.remove(ctx, pod)
}

func (r *reconciler) remove(ctx context.Context, pods ...*corev1.Pod) (err error) {
	for _, pod := range pods {
		err = errors.Join(err, client.IgnoreNotFound(r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})))
	}
	return err
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatal(err)
	}
}

// run runs the operator until ctx ends.
func run(ctx context.Context, config *rest.Config) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: newScheme(), Metrics: server.Options{BindAddress: "0"}})
	if err == nil {
		err = setup(ctx, mgr)
	}
	if err == nil {
		err = mgr.Start(ctx)
	}
	return err
}

// setup wires the parts together.
func setup(ctx context.Context, mgr ctrl.Manager) error {
	pods, err := ownerindex.New(ctx, mgr.GetCache(), &corev1.Pod{})
	revisions, revisionsErr := ownerindex.New(ctx, mgr.GetCache(), &appsv1.ControllerRevision{})
	inPlace, configErr := inplaceupdate.New(inplaceupdate.Config{Keys: keys()})
	if err := errors.Join(err, revisionsErr, configErr); err != nil {
		return err
	}
	writes := expectationsapply.NewClient(mgr.GetClient(), mgr.GetAPIReader(), expectations.Options{Barrier: true},
		expectationsapply.Pods(pods), expectationsapply.Revisions(revisions))
	decoder := revision.NewDecoder(1000, nil)
	r := &reconciler{writes, pods, revisions, decoder, inPlace, inplaceupdate.NewPlanner(inPlace, decoder, nil)}
	return errors.Join(mgr.Add(writes), ctrl.NewControllerManagedBy(mgr).For(&Fleet{}).
		Watches(&corev1.Pod{}, ownerindex.EnqueueController(fleetKind().GroupKind(), nil)).WithOptions(queue()).Complete(r))
}

// queue has namespaces take turns, and fail for themselves.
func queue() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 2, NewQueue: fairqueue.New(1),
		RateLimiter: fairqueue.PerNamespace(nil),
	}
}

func keys() inplaceupdate.Keys {
	return inplaceupdate.Keys{StateAnnotation: group + "/state", GraceAnnotation: group + "/grace", Gate: gate, Reserved: []string{revisionLabel}}
}

func fleetKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Fleet"}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypes(fleetKind().GroupVersion(), &Fleet{}, &FleetList{})
	metav1.AddToGroupVersion(scheme, fleetKind().GroupVersion())
	return scheme
}
