package broadcastjob

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/broadcastjobs"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// done is the result of a decision.
type done struct {
	created             int
	createErr, otherErr error

	mu      sync.Mutex
	deleted []completion.Unfinished
}

// act carries a decision out, until something has changed.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, s *broadcastjobs.Settings, d *broadcastjobs.Decision) *done {
	out := &done{}
	out.otherErr = pass.UntilChanged(
		func() error { return r.delete(ctx, v, pass, d.Delete, out) },
		func() error {
			out.created, out.createErr = r.create(ctx, v, pass, s, d.Create)
			return out.createErr
		},
		func() error { return r.remove(ctx, v, pass, d) },
	)
	return out
}

// create makes the Pods for Nodes.
func (r *Reconciler) create(ctx context.Context, v *view, pass *fanout.Pass, s *broadcastjobs.Settings, nodes []string) (made int, err error) {
	var tried atomic.Bool
	own := func(i int) string { return "create a Pod for " + nodes[i] }
	made, err = pass.CreateEach(ctx, fanout.Task{Name: "create Pods"}, len(nodes), own, func(ctx context.Context, i int) error {
		tried.Store(true)
		err := r.createOn(ctx, v, s, nodes[i])
		if err == nil {
			return nil
		}
		why := reason.Reason{Code: kruise.PodNotCreated, Object: reason.Object{Kind: "Pod", Name: v.Owner.Name + "-*"}, Detail: "for Node " + nodes[i] + ": " + err.Error()}
		return why.With(err)
	})
	r.options.Metrics.Done(kruise.Created, int64(made))
	if !tried.Load() {
		return made, err
	}
	kruise.TellCreated(r.events, v.Owner, made, err)
	return made, err
}

// createOn makes the Pod of a Node. The Pod's name derives from job and Node, so two processes cannot make two Pods.
func (r *Reconciler) createOn(ctx context.Context, v *view, s *broadcastjobs.Settings, node string) error {
	pod := r.newPod(v.Owner, s, node)
	if err := v.Client.Create(ctx, pod); err != nil {
		return err
	}
	at, _ := nodefit.NodeOf(pod)
	if at == node && metav1.IsControlledBy(pod, v.Owner) {
		return nil
	}
	// The Pod would never count, or count for a wrong Node, and the controller would recreate the Pod again and again.
	err := v.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	return errors.Join(errors.New("its Node or owner reference did not survive the API server's admission plugins"), client.IgnoreNotFound(err))
}

// newPod is a job's Pod for a Node.
func (r *Reconciler) newPod(job *v1beta1.BroadcastJob, s *broadcastjobs.Settings, node string) *corev1.Pod {
	pod := podstate.FromTemplate(&job.Spec.Template, job.Namespace, *metav1.NewControllerRef(job, r.cache.Kind()))
	pod.Labels[apps.LabelBroadcastJobName], pod.Labels[apps.LabelBroadcastJobUID] = job.Name, string(job.UID)
	pod.GenerateName = job.Name + "-"
	pod.Name = nodefit.PodName(job.Name, job.UID, node, "", func(name string) bool {
		other, taken := r.cache.Pods.Get(job.Namespace, name)
		return taken && !metav1.IsControlledBy(other, job) // a Pod of the job's own is for the API server to refuse
	})
	if r.options.BindPods {
		pod.Spec.NodeName = node
	} else {
		s.Place(pod, node)
	}
	return pod
}

// again is the wait before the next look at a late cache.
const again = time.Second

// delete deletes Pods, on condition that each is as seen.
func (r *Reconciler) delete(ctx context.Context, v *view, pass *fanout.Pass, removals []completion.Unfinished, out *done) error {
	err := fanout.Each(ctx, pass, fanout.Task{Name: "delete Pods"}, removals, func(ctx context.Context, one completion.Unfinished) (bool, error) {
		err := pass.Try(fanout.Task{Name: "delete Pod"}, one.UID, func() error {
			return v.Client.Delete(ctx, one.Pod, client.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion})
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the Pod has ended or gone meanwhile, as the cache will show
			pass.Wake(again)
			return false, nil
		}
		if err != nil {
			return false, reason.Reason{Code: PodNotDeleted, Object: reason.ObjectOf("Pod", one.Pod), Detail: err.Error()}.With(err)
		}
		out.mu.Lock()
		defer out.mu.Unlock()
		out.deleted = append(out.deleted, one)
		return true, nil
	})
	r.options.Metrics.Done(kruise.Deleted, int64(len(out.deleted)))
	for _, why := range []reason.Code{broadcastjobs.JobOver, completion.NodeUnfit, completion.NodeGone} {
		var names []string
		for _, one := range out.deleted {
			if one.Why == why {
				names = append(names, one.Name)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulDelete, "deleted %s: %s", kruise.Some(names, ""), why)
		}
	}
	return err
}

// PodNotDeleted means that the API server did not delete a Pod.
const PodNotDeleted reason.Code = "PodNotDeleted"

// remove deletes a job over for long enough, on condition that the job is as seen.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass, d *broadcastjobs.Decision) error {
	if !d.Step.Remove {
		return nil
	}
	return pass.Once(ctx, fanout.Task{Name: "delete the job"}, func() (bool, error) {
		err := v.Client.Delete(ctx, v.Owner, client.Preconditions{UID: &v.Owner.UID, ResourceVersion: &v.Owner.ResourceVersion},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		return err == nil, client.IgnoreNotFound(err)
	})
}
