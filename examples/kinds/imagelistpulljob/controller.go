package imagelistpulljob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// ControllerName is the name of the controller in logs, and the source of its events.
const ControllerName = "imagelistpulljob-controller"

// conditionFailedCreate is the type of the condition that is True while ImagePullJobs cannot be created.
const conditionFailedCreate = "FailedCreate"

// Options are the options of the controller. The zero value is valid.
type Options = kruise.Options

// Reconciler reconciles ImageListPullJobs.
type Reconciler struct {
	cache    *ownercache.Cache[*v1beta1.ImageListPullJob]
	settings *ownercache.Memo[*v1beta1.ImageListPullJob, *settings]
	jobs     *ownercache.Index[*v1beta1.ImagePullJob]
	fanout   *fanout.Fanout
	events   record.EventRecorder
	told     *kruise.Told
	options  Options
}

// view is an ImageListPullJob as the cache shows it.
type view = ownercache.View[*v1beta1.ImageListPullJob]

// Setup adds the controller to the manager. The controller writes with c, and c must read from the manager's cache. The
// scheme must contain the types of this group.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	watch := func(b *builder.Builder) *builder.Builder {
		return b.Watches(&v1beta1.ImagePullJob{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1beta1.ImageListPullJob{}, handler.OnlyControllerOwner()))
	}
	return r.cache.AddController(mgr, "imagelistpulljob", r, r.options.Loop(r.options.Workers, watch))
}

func newReconciler(ctx context.Context, mgr kruise.Manager, c client.Client, options Options) (*Reconciler, error) {
	options = options.Complete()
	r := &Reconciler{fanout: fanout.New(options.Calls), events: mgr.GetEventRecorderFor(ControllerName), options: options}
	var err error
	if r.jobs, err = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.ImagePullJob{}); err != nil {
		return nil, err
	}
	store := expectations.Store{GroupResource: schema.GroupResource{Group: apps.Group, Resource: "imagepulljobs"}}
	jobs := trackedclient.Source{Store: store, Kind: v1beta1.GroupVersion.WithKind("ImagePullJob"), Index: r.jobs}
	r.cache, err = kruise.NewCache(ctx, mgr, c, &v1beta1.ImageListPullJob{}, options,
		ownercache.Options{Owned: []trackedclient.Source{jobs}, Namespace: options.Namespace})
	if err != nil {
		return nil, err
	}
	r.settings = ownercache.NewMemo(r.cache, settingsOf)
	r.told = kruise.NewTold(r.cache, r.events)
	r.cache.OnGone(r.fanout.Backoff.Forget)
	return r, nil
}

// Reconcile takes the next step of an ImageListPullJob, called a list in this package.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil || v.Owner.DeletionTimestamp != nil { // the garbage collector deletes the jobs
		return result, err
	}
	pass := r.fanout.Begin(v)
	s := r.settings.Of(v.Owner)
	if s.Problems != nil && v.Owner.Status.CompletionTime == nil {
		status := *v.Owner.Status.DeepCopy()
		set(&status.Conditions, apps.ConditionInvalidSpec, v, s.Problems)
		_, err := v.WriteStatus(ctx, status)
		return pass.Result(reason.Final(s.Problems), err)
	}
	d := decide(&observation{List: v.Owner, Settings: s, Jobs: r.jobs.Of(v.Owner.Namespace, v.Owner.UID), Now: v.Now})
	pass.Wake(d.Step.After)
	if d.Step.Remove {
		return pass.Result(r.remove(ctx, v, pass))
	}
	if d.Step.State == completion.Running {
		err = r.act(ctx, v, pass, d)
	}
	_, writeErr := v.WriteStatus(ctx, d.Status)
	return pass.Result(err, writeErr)
}

// act deletes the ImagePullJobs that are not needed, and creates the missing ImagePullJobs. The status reports a
// failed creation.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, d *decision) error {
	err := fanout.Each(ctx, pass, fanout.Task{Name: "delete jobs"}, d.Delete, func(ctx context.Context, job *v1beta1.ImagePullJob) (bool, error) {
		uid := job.UID
		err := v.Client.Delete(ctx, job, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("deleting ImagePullJob %s: %w", job.Name, err)
		}
		r.options.Metrics.Done("deleted", 1)
		r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulDelete, "deleted ImagePullJob %s of %s", job.Name, job.Spec.Image)
		return true, nil
	})
	made, createErr := pass.CreateEach(ctx, fanout.Task{Name: "create jobs"}, len(d.Create), func(i int) string { return d.Create[i] }, func(ctx context.Context, i int) error {
		return v.Client.Create(ctx, newJob(v.Owner, r.settings.Of(v.Owner).hash, d.Create[i]))
	})
	r.options.Metrics.Done("created", int64(made))
	if made > 0 {
		r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulCreate, "created %d ImagePullJobs", made)
	}
	if createErr != nil || made > 0 || len(d.Create) == 0 {
		set(&d.Status.Conditions, conditionFailedCreate, v, createErr)
	}
	message := ""
	if c := meta.FindStatusCondition(d.Status.Conditions, conditionFailedCreate); c != nil {
		message = c.Message
	}
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventFailedCreate, message)
	return errors.Join(err, createErr)
}

// newJob returns the ImagePullJob for an image of the list.
func newJob(list *v1beta1.ImageListPullJob, hash, image string) *v1beta1.ImagePullJob {
	job := &v1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: list.Namespace, Name: jobName(list, hash, image), Labels: map[string]string{apps.LabelRevision: hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(list, v1beta1.GroupVersion.WithKind("ImageListPullJob"))},
		},
		Spec: specOf(&list.Spec, image),
	}
	if way, ok := list.Annotations[apps.AnnotationPullThrough]; ok {
		job.Annotations = map[string]string{apps.AnnotationPullThrough: way}
	}
	return job
}

// jobName returns the name of the ImagePullJob for an image. The name depends on the arguments alone, so that a
// repeated creation makes no second job.
func jobName(list *v1beta1.ImageListPullJob, hash, image string) string {
	sum := sha256.Sum256([]byte(string(list.UID) + "\x00" + hash + "\x00" + image))
	return list.Name[:min(len(list.Name), longestPrefix)] + "-" + hex.EncodeToString(sum[:5])
}

// longestPrefix is the largest number of bytes of the list's name in a job's name. Job names have at most 253 bytes.
const longestPrefix = 240

// remove deletes an ImageListPullJob whose TTL has passed, unless the object has changed since it was read.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass) error {
	return pass.Once(ctx, fanout.Task{Name: "delete the job"}, func() (bool, error) {
		uid, version := v.Owner.UID, v.Owner.ResourceVersion
		err := v.Client.Delete(ctx, v.Owner, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return err == nil, client.IgnoreNotFound(err)
	})
}

// set sets a condition to True for a reason, and removes the condition if why is nil.
func set(conditions *[]metav1.Condition, kind string, v *view, why error) {
	if why == nil {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	condition := reason.Condition(kind, v.Owner.Generation, why)
	condition.LastTransitionTime = metav1.NewTime(v.Now)
	meta.SetStatusCondition(conditions, condition)
}
