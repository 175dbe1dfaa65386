package broadcastjob

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/completion/noderun"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// act carries out the steps of a decision one after the other. After the first step that changes an object, act
// stops. An event reports each change.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, s *settings, d *decision) (noderun.Done, error) {
	done, err := r.runner.Do(ctx, v, pass, d.Work, func(node string) *corev1.Pod { return r.newPod(v.Owner, s, node) })
	r.options.Metrics.Done("created", int64(done.Created))
	r.options.Metrics.Done("deleted", int64(len(done.Deleted)))
	if done.Tried {
		r.told.Created(v.Owner, done.Created, "", done.CreateErr)
	}
	for _, why := range []reason.Code{completion.JobOver, completion.NodeUnfit, completion.NodeGone} {
		var names []string
		for _, one := range done.Deleted {
			if one.Why == why {
				names = append(names, one.Name)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulDelete, "deleted %s: %s", kruise.Some(names, ""), why)
		}
	}
	return done, err
}

// newPod returns the Pod of a job for a Node.
func (r *Reconciler) newPod(job *v1beta1.BroadcastJob, s *settings, node string) *corev1.Pod {
	pod := podstate.FromTemplate(&job.Spec.Template, job.Namespace, *metav1.NewControllerRef(job, r.cache.Kind()))
	pod.Labels[apps.LabelBroadcastJobName], pod.Labels[apps.LabelBroadcastJobUID] = job.Name, string(job.UID)
	if r.options.BindPods {
		pod.Spec.NodeName = node
	} else {
		s.Place(pod, node)
	}
	return pod
}
