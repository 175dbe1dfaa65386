package kruise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

// pulls is the cache of the ImagePullJobs of workloads; the jobs pull images before a rollout.
type pulls struct {
	*beside[*v1beta1.ImagePullJob]
}

// newPulls returns the cache of ImagePullJobs; nil if a feature gate is off.
func newPulls(ctx context.Context, mgr Manager, options Options, gate apps.Gate) (*pulls, error) {
	if gate == "" || !options.Gates[gate] || !options.Gates[apps.GateImagePullJob] {
		return nil, nil
	}
	objects, err := newBeside(ctx, mgr, options, &v1beta1.ImagePullJob{})
	return &pulls{objects}, err
}

// ViewPreDownload returns a reconciliation's view of the jobs for images of the rollout; nil if the gate is off or no
// jobs are served.
func (p *Parts[O]) ViewPreDownload(t *executor.Turn[O], selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) *predownload.View {
	if p.pulls == nil || !p.pulls.areServed() {
		return nil
	}
	return &predownload.View{
		Owner: *metav1.NewControllerRef(t.Owner, p.Cache.Kind()), Namespace: t.Owner.GetNamespace(), Selector: selector, Template: template, Update: t.History.Update,
		Jobs: p.pulls.Of(t.Owner.GetNamespace(), t.Owner.GetUID()),
		TemplateOf: func(revision string) *corev1.PodTemplateSpec {
			found, err := t.History.Template(t.History.Find(revision))
			if err != nil {
				return nil
			}
			return found
		},
	}
}

// PreDownload creates and deletes the ImagePullJobs of a plan. The rollout continues even if the API server refuses a
// request: an event reports the refusal, and the request is repeated after a while. Errors that a repeated request
// may avoid are returned, and the caller may repeat the request at once.
func (p *Parts[O]) PreDownload(ctx context.Context, t *executor.Turn[O], plan *predownload.Plan) error {
	pass := p.Fanout.Begin(t.View) // a change of a job must not end the work on Pods: no event of the job would continue it
	result, err := pass.Result(p.preDownload(ctx, t, pass, plan))
	t.Pass.Wake(result.RequeueAfter)
	return err
}

func (p *Parts[O]) preDownload(ctx context.Context, t *executor.Turn[O], pass *fanout.Pass, plan *predownload.Plan) error {
	if len(plan.Delete) > 0 {
		err := pass.Once(ctx, fanout.Task{Name: "delete image jobs"}, func() (changed bool, err error) {
			for _, job := range plan.Delete { // a job for each container at most
				one := client.IgnoreNotFound(t.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
				changed, err = changed || one == nil, errors.Join(err, one)
			}
			return changed, err
		})
		if err != nil {
			return err
		}
	}
	if len(plan.Create) > 0 {
		if err := p.createPulls(ctx, t, pass, plan.Create); err != nil {
			return err
		}
	}
	if plan.Label == "" {
		return nil
	}
	return pass.Once(ctx, fanout.Task{Name: "label the revision"}, func() (bool, error) {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": t.History.Update.UID, "labels": map[string]string{plan.Label: "true"}}})
		if err != nil {
			return false, err
		}
		err = t.Client.Patch(ctx, t.History.Update.DeepCopy(), client.RawPatch(types.MergePatchType, body))
		return err == nil, err
	})
}

// createPulls creates jobs, and sends events about the jobs.
func (p *Parts[O]) createPulls(ctx context.Context, t *executor.Turn[O], pass *fanout.Pass, jobs []*v1beta1.ImagePullJob) error {
	create := func(ctx context.Context, i int) error {
		job := jobs[i]
		err := t.Client.Create(ctx, job)
		switch {
		case apierrors.IsAlreadyExists(err): // an earlier reconciliation created the job, and could not set the label
			return nil
		case err != nil:
			return fmt.Errorf("ImagePullJob %s: %w", job.Name, err)
		}
		p.Events.Eventf(t.Owner, corev1.EventTypeNormal, apps.EventCreatedImagePullJob, "created ImagePullJob %s, which pulls %s on the Nodes of Pods to be updated", job.Name, job.Spec.Image)
		return nil
	}
	name := func(i int) string { return jobs[i].Name }
	_, err := pass.CreateEach(ctx, fanout.Task{Name: "create image jobs"}, len(jobs), name, create)
	message := ""
	if err != nil {
		_, message = reason.Explain(err)
	}
	p.Told.Tell(t.Owner, corev1.EventTypeWarning, apps.EventFailedCreateImagePullJob, message)
	return err
}
