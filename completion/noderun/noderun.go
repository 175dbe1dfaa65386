// Package noderun carries out the decisions of package completion for jobs that run a Pod on each fitting Node, such
// as an image check, a migration of files or a backup.
//
// A reconcile counts the Pods, calls package completion for the next action, and carries out the action:
//
//	survey := completion.OnNodes(v.Pods, claims, restartLimit)
//	step := completion.Next(rules, survey.Progress(started, ended), v.Now)
//	work := survey.Work(step)
//	if work.Ends {
//		// first write the end into the status
//	}
//	done, err := runner.Do(ctx, v, pass, work, newPod)
//	pass.Wake(step.After)
//
// The name of a Pod derives from job and Node, so two processes, or a process with a stale cache, cannot create two
// Pods for a Node. A delete request names the UID and resourceVersion from the cache: a Pod that has ended since then
// is not deleted, so its result is kept.
//
// RBAC: create and delete on pods, and delete on the job's kind for jobs with a TTL.
package noderun

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// PodNotCreated means that the Pod of a Node was not created. The message leaves out the Pod's name, so equal
	// failures on all Nodes give a single message.
	PodNotCreated reason.Code = "PodNotCreated"
	// PodNotDeleted means that the API server did not delete a Pod.
	PodNotDeleted reason.Code = "PodNotDeleted"
	// PodStripped means that a webhook or policy has removed the Node or the owner from a new Pod. Runner deletes such
	// a Pod: the Pod would not count for its Node, so Runner would create Pods for the Node again and again.
	PodStripped reason.Code = "PodStripped"
)

// again is the wait before the next reconcile if the cache is stale.
const again = time.Second

// Runner creates and deletes the Pods of jobs of a kind, and deletes the jobs. A Runner is safe for concurrent use.
// Make a Runner with New.
type Runner[O client.Object] struct{ cache *ownercache.Cache[O] }

// New returns a Runner. The cache needs ownercache.Options.Nodes to be set.
func New[O client.Object](cache *ownercache.Cache[O]) (*Runner[O], error) {
	if cache == nil || cache.Pods == nil || cache.Nodes == nil {
		return nil, errors.New("noderun: a cache with Pods and ownercache.Options.Nodes is required")
	}
	return &Runner[O]{cache}, nil
}

// Done reports the actions of a call of Runner.Do.
type Done struct {
	// Tried says that Do tried to create a Pod. After a refusal, Do creates no Pods for a while, and Tried is false.
	Tried bool
	// Created is the number of created Pods, and CreateErr says why other Pods could not be created.
	Created   int
	CreateErr error
	// Deleted are the reasons of the deleted Pods, by Pod name.
	Deleted []completion.Unfinished
}

// Active returns the change of the number of active Pods: the created Pods minus the deleted active Pods.
func (d *Done) Active() int {
	n := d.Created
	for i := range d.Deleted {
		if d.Deleted[i].Active {
			n--
		}
	}
	return n
}

// Do carries out work in three phases: deletions, creations, the deletion of the job. Do stops after the first phase
// that has changed an object. newPod makes the Pod of a Node from the job's template, see NewPod; Do gives the Pod
// its name. newPod must be safe for concurrent use. The error joins all errors, CreateErr among them, as in
// fanout.Pass.UntilChanged.
func (r *Runner[O]) Do(ctx context.Context, v *ownercache.View[O], pass *fanout.Pass, work completion.Work, newPod func(node string) *corev1.Pod) (Done, error) {
	job := &run[O]{Runner: r, view: v, pass: pass}
	err := pass.UntilChanged(
		func() error { return job.delete(ctx, work.Delete) },
		func() error {
			job.done.CreateErr = job.create(ctx, work.Create, newPod)
			return job.done.CreateErr
		},
		func() error { return job.remove(ctx, work.Remove) },
	)
	slices.SortFunc(job.done.Deleted, func(a, b completion.Unfinished) int { return strings.Compare(a.Name, b.Name) })
	return job.done, err
}

// run is the state of a single call of Do.
type run[O client.Object] struct {
	*Runner[O]

	view *ownercache.View[O]
	pass *fanout.Pass

	mu   sync.Mutex
	done Done
}

func (r *run[O]) create(ctx context.Context, nodes []string, newPod func(node string) *corev1.Pod) (err error) {
	own := func(i int) string { return "create a Pod for " + nodes[i] }
	r.done.Created, err = r.pass.CreateEach(ctx, fanout.Task{Name: "create Pods"}, len(nodes), own, func(ctx context.Context, i int) error {
		r.mu.Lock()
		r.done.Tried = true
		r.mu.Unlock()
		if err := r.createOn(ctx, nodes[i], newPod(nodes[i])); err != nil {
			object := reason.Object{Kind: "Pod", Name: r.view.Owner.GetName() + "-*"}
			return reason.Reason{Code: PodNotCreated, Object: object, Detail: "for Node " + nodes[i] + ": " + err.Error()}.With(err)
		}
		return nil
	})
	return err
}

func (r *run[O]) createOn(ctx context.Context, node string, pod *corev1.Pod) error {
	owner := r.view.Owner
	pod.GenerateName = owner.GetName() + "-"
	pod.Name = nodefit.PodName(owner.GetName(), owner.GetUID(), node, "", func(name string) bool {
		other, taken := r.cache.Pods.Get(owner.GetNamespace(), name)
		// If the Pod belongs to the job itself, the API server must refuse the creation, so the name does not count as
		// taken.
		return taken && !metav1.IsControlledBy(other, owner)
	})
	if why := r.lacks(pod, node); why != "" {
		return reason.Reason{Code: PodStripped, Object: reason.ObjectOf("Pod", pod), Detail: "it was made without its " + why, Remedy: "see to what makes the Pod"}
	}
	if err := r.view.Client.Create(ctx, pod); err != nil {
		return err
	}
	why := r.lacks(pod, node)
	if why == "" {
		return nil
	}
	err := r.view.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	stripped := reason.Reason{Code: PodStripped, Detail: "its " + why + " did not survive the API server's admission plugins"}
	return errors.Join(stripped, client.IgnoreNotFound(err))
}

// lacks says why a Pod does not count for its Node; empty if the Pod counts.
func (r *run[O]) lacks(pod *corev1.Pod, node string) string {
	at, _ := nodefit.NodeOf(pod)
	switch {
	case at != node:
		return "Node"
	case !metav1.IsControlledBy(pod, r.view.Owner):
		return "owner reference"
	}
	return ""
}

func (r *run[O]) delete(ctx context.Context, pods []completion.Unfinished) error {
	return fanout.Each(ctx, r.pass, fanout.Task{Name: "delete Pods"}, pods, func(ctx context.Context, one completion.Unfinished) (bool, error) {
		err := r.pass.Try(fanout.Task{Name: "delete Pod"}, one.UID, func() error {
			return r.view.Client.Delete(ctx, one.Pod, client.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion})
		})
		// The Pod has ended or was deleted since the cache has read the Pod.
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			r.pass.Wake(again)
			return false, nil
		}
		if err != nil {
			return false, reason.Reason{Code: PodNotDeleted, Object: reason.ObjectOf("Pod", one.Pod), Detail: err.Error()}.With(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done.Deleted = append(r.done.Deleted, one)
		return true, nil
	})
}

// remove deletes a job whose TTL has passed, on condition that the job has not changed since the cache has read the
// job.
func (r *run[O]) remove(ctx context.Context, due bool) error {
	if !due {
		return nil
	}
	return r.pass.Once(ctx, fanout.Task{Name: "delete the job"}, func() (bool, error) {
		owner := r.view.Owner
		uid, version := owner.GetUID(), owner.GetResourceVersion()
		err := r.view.Client.Delete(ctx, owner, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return err == nil, client.IgnoreNotFound(err)
	})
}

// NewPod returns a Pod for a Node from the job's template, with the job as its owner, pinned to the Node by the
// requirements of the template (nodefit.New), and without a name: see Runner.Do.
func (r *Runner[O]) NewPod(job O, template *corev1.PodTemplateSpec, fits *nodefit.Requirements, node string) *corev1.Pod {
	pod := podstate.FromTemplate(template, job.GetNamespace(), *metav1.NewControllerRef(job, r.cache.Kind()))
	fits.Place(pod, node)
	return pod
}
