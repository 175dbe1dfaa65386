package daemonset

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/adopt/ownerrefs"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "daemonset-controller"

// directScheduler is the scheduler name of Pods that the controller itself binds to their Node.
const directScheduler = "kubernetes.io/daemonset-controller"

// Options are the options of the controller. The zero value is valid.
type Options struct {
	kruise.Options
	// BindPods is true if the controller binds Pods to their Nodes when it creates the Pods, without the scheduler.
	BindPods bool
}

// Reconciler reconciles DaemonSets.
type Reconciler struct {
	*kruise.Parts[*v1beta1.DaemonSet]

	options Options
	fits    *ownercache.Memo[*v1beta1.DaemonSet, *fit]
}

// turn is a single reconciliation of a DaemonSet.
type turn = executor.Turn[*v1beta1.DaemonSet]

// Setup adds the controller of DaemonSets, and the controller that finishes updates of their Pods, to the manager. The
// controllers write with c, and c must read from the manager's cache. The scheme must contain the DaemonSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.Register(mgr, r)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	// In a cluster with many Nodes, the API server is busy with requests of the Nodes. Measured with 1,000 Nodes: with
	// three concurrent requests instead of five, each Pod is out of service for little more than half the time, and a
	// whole rollout takes less than a tenth longer.
	options.Calls = cmp.Or(options.Calls, 3)
	options.Options = options.Complete()
	r := &Reconciler{options: options}
	var err error
	r.Parts, err = kruise.NewParts(ctx, mgr, c, &v1beta1.DaemonSet{}, options.Options, kruise.Config[*v1beta1.DaemonSet]{
		Name: "daemonset", Controller: ControllerName, Nodes: true, Rules: rules, Status: statusOf, Labels: apps.ReservedDaemonSetLabels(),
		HashLabel: apps.LabelRevision, Counting: revision.CountAllOld,
		Control: podcontrol.Config{OnlyPreDelete: true, NeedsGate: true, GateWhereUpdated: true},
		Watch:   r.watch, PreDownload: apps.GatePreDownloadImageForDaemonSetUpdate,
	})
	if err != nil {
		return nil, err
	}
	r.fits = ownercache.NewMemo(r.Cache, func(set *v1beta1.DaemonSet) *fit { return fitOf(set, options.Gates) })
	return r, nil
}

// watch adds event sources in addition to the DaemonSet's own Pods: Nodes, and Pods that the DaemonSet could adopt.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	b = ownercache.WatchOrphans(r.Cache, func(set *v1beta1.DaemonSet, pod *corev1.Pod) bool { return r.fits.Of(set).selects(pod) })(b)
	return ownercache.WatchNodes(r.Cache, func(set *v1beta1.DaemonSet, node *corev1.Node) claim { return r.fits.Of(set).claim(node) })(b)
}

// Reconcile takes the next step towards the state that a DaemonSet's spec describes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t, result, err := r.Begin(ctx, req)
	if t == nil {
		return result, err
	}
	set := t.Owner
	s, problems, _ := resolve(set, r.Options.Gates)
	if problems != nil {
		return r.stop(ctx, t, apps.ConditionInvalidSpec, reason.Final(problems.Reasons()))
	}
	t.Selector = s.selector
	templates := executor.Templates{Pod: &set.Spec.Template, Collisions: kruise.Collisions(set.Status.CollisionCount)}
	if err := r.SyncHistory(ctx, t, templates); err != nil || t.History.Update == nil {
		return r.stop(ctx, t, apps.ConditionFailedUpdatePod, err)
	}
	o := r.observed(t, s)
	d, err := decide(o)
	if err != nil {
		return r.stop(ctx, t, apps.ConditionInvalidSpec, reason.Final(err))
	}
	var scaleErr, updateErr error
	if set.DeletionTimestamp == nil {
		scaleErr, updateErr = r.act(ctx, t, o, d)
	}
	return r.report(ctx, t, o, d, scaleErr, updateErr)
}

// observed reads the inputs of the reconciliation's decisions.
func (r *Reconciler) observed(t *turn, s *settings) *observation {
	restarts := r.ViewRestart(t, s.restart)
	o := &observation{
		set: t.Owner, settings: s, restarts: restarts, downloads: r.ViewPreDownload(t, t.Owner.Spec.Selector, &t.Owner.Spec.Template), history: t.History, twins: t.History.Twins(), fit: r.fits.Of(t.Owner), nodes: r.Cache.Nodes.All(),
		orphans: r.Cache.Pods.Orphans(t.Owner.Namespace), pods: t.Read(podcontrol.Want{Update: t.History.Update.Name, MinReady: s.minReady, Away: restarts.Away}),
	}
	o.perNode = o.describe(podcontrol.PerNodeOptions{Rest: r.Executor.Rest, Ended: t.Ended})
	return o
}

// act carries out the steps of the decision, up to and including the first step that changes an object.
func (r *Reconciler) act(ctx context.Context, t *turn, o *observation, d *todo) (scaleErr, updateErr error) {
	// When an update is refused, the Pod is out of service already, so the back-off is longer than usual.
	update := fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute, Most: &d.burst}
	scaleErr = t.Pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, t.Pass, t.Client, d.release) },
		func() error { return ownerrefs.Adopt(ctx, t.Pass, t.Client, r.Cache.APIReader(), d.adopt) },
		func() error { return ownerrefs.Adopt(ctx, t.Pass, t.Client, r.Cache.APIReader(), r.Left(t)) },
		t.Each(ctx, fanout.Task{Name: "label Pods"}, d.relabel, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			result, err := podwrite.Send(ctx, t.Client, pod, t.Now, r.newestRevision(o))
			return result.Sent > 0, err
		}),
		func() error {
			if len(d.relabel) > 0 || d.keepTwins {
				return nil // a Pod still refers to such a revision
			}
			return t.Pass.Once(ctx, fanout.Task{Name: "delete revisions that are there twice"}, func() (bool, error) {
				return history.Delete(ctx, t.Client, o.twins)
			})
		},
		func() error { return r.create(ctx, t, d) },
		t.Each(ctx, fanout.Task{Name: "delete Pods", Most: &d.burst}, d.remove, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			node, _ := nodefit.NodeOf(pod)
			return t.DeleteFrom(ctx, pod, node)
		}),
	)
	updateErr = t.Pass.UntilChanged(
		t.Each(ctx, update, d.update, t.UpdateTo(o.history.Update, r.PlansTo(o.history, o.history.Update))),
		r.Restart(ctx, t, d.restart),
	)
	if updateErr == nil {
		updateErr = t.Unfinished()
	}
	d.held = t.Waiting()
	return scaleErr, errors.Join(updateErr, r.PreDownload(ctx, t, d.download))
}

// newestRevision returns the labels that mark Pods of the newest revision.
func (r *Reconciler) newestRevision(o *observation) (change podpatch.Change) {
	change.Labels = map[string]*string{}
	for key, value := range r.Control.RevisionLabels(o.history.Update.Name) {
		change.Labels[key] = &value
	}
	return change
}

// create creates the missing Pods.
func (r *Reconciler) create(ctx context.Context, t *turn, d *todo) error {
	r.Told.Limits(t.Owner, d.step.Limits)
	made, err := t.CreatePerNode(ctx, slices.Concat(d.step.Replace, d.step.Create), executor.NodeTemplates{
		Most: &d.burst, Prepare: func(pod *corev1.Pod, node string) { r.prepare(t.Owner, pod, node) },
	})
	r.Told.Created(t.Owner, made, "", err)
	return err
}

// prepare restricts a new Pod to its Node.
func (r *Reconciler) prepare(set *v1beta1.DaemonSet, pod *corev1.Pod, node string) {
	if generation := set.Annotations[apps.AnnotationTemplateGeneration]; generation != "" {
		pod.Labels[apps.LabelTemplateGeneration] = generation
	}
	if r.options.BindPods {
		nodefit.Tolerate(&pod.Spec, nodefit.DaemonSetTolerations(pod.Spec.HostNetwork)...)
		pod.Spec.NodeName, pod.Spec.SchedulerName = node, directScheduler
	} else {
		r.fits.Of(set).requirements.Place(pod, node)
	}
}
