package daemonset

import (
	"cmp"
	"context"
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

// ControllerName is the source of the controller's events and the controller's name in logs.
const ControllerName = "daemonset-controller"

// directScheduler is the scheduler name of Pods bound to their Node at creation.
const directScheduler = "kubernetes.io/daemonset-controller"

// Options of the controller. The zero value is usable.
type Options struct {
	kruise.Options
	// BindPods binds Pods to their Nodes at creation, in place of the scheduler.
	BindPods bool
}

// Reconciler reconciles DaemonSets.
type Reconciler struct {
	*kruise.Parts[*v1beta1.DaemonSet]

	options Options
	fits    *ownercache.Memo[*v1beta1.DaemonSet, *fit]
}

// view is a DaemonSet with its controlled objects, as cached.
type view = ownercache.View[*v1beta1.DaemonSet]

// Setup adds both controllers to the manager. The controllers write with c, and c must read from the manager's cache.
// The scheme must know the DaemonSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.AddTo(mgr, r)
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	// The API server of a cluster with many Nodes is busy with the Nodes. With three concurrent requests in place of five,
	// each Pod is out of service for little more than half as long, and a whole rollout takes less than a tenth longer
	// (1,000 Nodes).
	options.Calls = cmp.Or(options.Calls, 3)
	options.Options = options.Complete()
	r := &Reconciler{options: options}
	var err error
	r.Parts, err = kruise.NewParts(ctx, mgr, c, &v1beta1.DaemonSet{}, options.Options, kruise.Kind[*v1beta1.DaemonSet]{
		Name: "daemonset", Controller: ControllerName, Nodes: true, Rules: rules, Labels: apps.ReservedDaemonSetLabels(),
		HashLabel: apps.LabelRevision, Counting: revision.CountAllOld,
		Pods:  podcontrol.Config{OnlyPreDelete: true, NeedsGate: true, GateWhereUpdated: true},
		Watch: r.watch,
	})
	if err != nil {
		return nil, err
	}
	r.fits = ownercache.NewMemo(r.Cache, func(set *v1beta1.DaemonSet) *fit { return fitOf(set, options.Gates) })
	return r, nil
}

// watch adds wake-ups for events beyond the Pods of a DaemonSet: Nodes, and Pods to adopt.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	b = ownercache.WatchOrphans(r.Cache, func(set *v1beta1.DaemonSet, pod *corev1.Pod) bool { return r.fits.Of(set).selects(pod) })(b)
	return ownercache.WatchNodes(r.Cache, func(set *v1beta1.DaemonSet, node *corev1.Node) claim { return r.fits.Of(set).claim(node) })(b)
}

// Reconcile brings a DaemonSet a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.Cache.Observe(ctx, req)
	if v == nil {
		return result, err
	}
	pass := r.Fanout.Begin(v)
	s, problems, _ := resolve(v.Owner, r.Options.Gates)
	if problems != nil {
		return r.stop(ctx, v, pass, apps.ConditionInvalidSpec, reason.Final(problems.Reasons()))
	}
	h, err := r.SyncHistory(ctx, v, pass, kruise.Templates{Pod: &v.Owner.Spec.Template, Collisions: v.Owner.Status.CollisionCount, Selector: s.selector})
	if err != nil || h.Update == nil {
		return r.stop(ctx, v, pass, apps.ConditionFailedUpdatePod, err)
	}
	o := r.observed(v, pass, s, h)
	todo, err := decide(o)
	if err != nil {
		return r.stop(ctx, v, pass, apps.ConditionInvalidSpec, reason.Final(err))
	}
	var scaleErr, updateErr error
	if v.Owner.DeletionTimestamp == nil {
		scaleErr, updateErr = r.act(ctx, v, pass, o, todo)
	}
	return r.report(ctx, v, pass, o, todo, scaleErr, updateErr)
}

// observed reads the input of the pass's decisions.
func (r *Reconciler) observed(v *view, pass *fanout.Pass, s *settings, h *revision.History) *observation {
	pods := r.Pods.For(v, pass)
	o := &observation{
		set: v.Owner, settings: s, history: h, twins: h.Twins(), fit: r.fits.Of(v.Owner), nodes: r.Cache.Nodes.All(), orphans: r.Cache.Pods.Orphans(v.Owner.Namespace),
		pods: r.Reader.Read(v.Owner.UID, v.Pods, podcontrol.Want{Update: h.Update.Name, MinReady: s.minReady, Selector: s.selector}, v.Now),
	}
	o.perNode = o.describe(podcontrol.PerNodeOptions{Rest: r.Pods.Rest, Ended: func(pod *corev1.Pod, node string) time.Duration {
		return pods.Ended(pod, node)
	}})
	return o
}

// act carries the decision out, until something has changed.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo) (scaleErr, updateErr error) {
	pods := r.Pods.For(v, pass)
	each := func(task fanout.Task, list []*corev1.Pod, do func(context.Context, *corev1.Pod) (bool, error)) func() error {
		return func() error { return fanout.Each(ctx, pass, task, list, do) }
	}
	scaleErr = pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, pass, v.Client, t.release) },
		func() error { return ownerrefs.Adopt(ctx, pass, v.Client, r.Cache.APIReader(), t.adopt) },
		func() error {
			return ownerrefs.Adopt(ctx, pass, v.Client, r.Cache.APIReader(), r.Left(v, o.settings.selector))
		},
		each(fanout.Task{Name: "label Pods"}, t.relabel, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			result, err := podwrite.Send(ctx, v.Client, pod, v.Now, r.newestRevision(o))
			return result.Sent > 0, err
		}),
		func() error {
			if len(t.relabel) > 0 || t.keepTwins {
				return nil // a Pod at a revision that is gone would be updated
			}
			return pass.Once(ctx, fanout.Task{Name: "delete revisions that are there twice"}, func() (bool, error) {
				return history.Delete(ctx, v.Client, o.twins)
			})
		},
		func() error { return r.create(ctx, v, pass, o, t) },
		each(fanout.Task{Name: "delete Pods", Most: &t.burst}, t.remove, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			node, _ := nodefit.NodeOf(pod)
			return pods.DeleteFrom(ctx, pod, node)
		}),
	)
	// A refused update has already taken a Pod out of service, so the Pod rests for longer.
	update := fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute, Most: &t.burst}
	updateErr = pass.UntilChanged(each(update, t.update, pods.UpdateTo(o.history.Update, r.PlansTo(o.history, o.history.Update))))
	if updateErr == nil {
		updateErr = pods.Unfinished(o.pods)
	}
	t.held = pods.Waiting(o.pods)
	return scaleErr, updateErr
}

// newestRevision are the labels of Pods at the newest revision.
func (r *Reconciler) newestRevision(o *observation) (change podpatch.Change) {
	change.Labels = map[string]*string{}
	for key, value := range r.Control.RevisionLabels(o.history.Update.Name) {
		change.Labels[key] = &value
	}
	return change
}

// create makes the missing Pods.
func (r *Reconciler) create(ctx context.Context, v *view, pass *fanout.Pass, o *observation, t *todo) error {
	r.TellLimits(v.Owner, t.step.Limits)
	made, err := r.Pods.For(v, pass).CreatePerNode(ctx, slices.Concat(t.step.Replace, t.step.Create), executor.NodeTemplates{
		History: o.history, Selector: o.settings.selector, Most: &t.burst, Prepare: func(pod *corev1.Pod, node string) { r.prepare(v.Owner, pod, node) },
	})
	kruise.TellCreated(r.Events, v.Owner, made, err)
	return err
}

// prepare ties a new Pod to its Node.
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
