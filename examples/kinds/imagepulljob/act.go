package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

// selected returns the names of the Nodes that a job selects, in the order in which pulls begin. The result can
// contain Nodes that no longer exist. A label selector is compared with the labels of NodeImages or, if kubelets
// pull, of Nodes.
func (r *Reconciler) selected(job *v1beta1.ImagePullJob, s *settings, kubelets bool) (names []string) {
	first := ordered(job)
	switch {
	case s.pods != nil:
		return inOrder(nodesOfPods(r.pods.In(job.Namespace), s.pods), first)
	case s.names != nil:
		return s.names // in the order of the spec
	}
	if kubelets {
		for _, node := range r.nodes.All() {
			if s.nodes.Matches(labels.Set(node.Labels)) && !isVirtual(node) {
				names = append(names, node.Name)
			}
		}
		return inOrder(names, first)
	}
	for _, image := range r.images.All() {
		if s.nodes.Matches(labelsOf(image)) {
			names = append(names, image.Name)
		}
	}
	return inOrder(names, first)
}

// selects reports whether a job selects the Node of a NodeImage.
func (r *Reconciler) selects(job *v1beta1.ImagePullJob, s *settings, image *v1beta1.NodeImage) bool {
	switch {
	case s.pods != nil:
		return slices.Contains(nodesOfPods(r.pods.In(job.Namespace), s.pods), image.Name)
	case s.names != nil:
		return slices.Contains(s.names, image.Name)
	}
	return s.nodes.Matches(labelsOf(image))
}

// isVirtual reports whether a Node has neither a kubelet nor an agent to pull images.
func isVirtual(node *corev1.Node) bool {
	return node.Labels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet
}

// targets returns the selected Nodes on which an agent can pull or, if kubelets is true, on which a kubelet or else
// an agent can pull, in the given order.
func (r *Reconciler) targets(s *settings, selected []string, kubelets bool) (out []target) {
	for _, name := range selected {
		t, ok := r.agentOf(s, name)
		if kubelets {
			t, ok = r.kubeletOf(s, name, t)
		}
		if ok {
			out = append(out, t)
		}
	}
	return out
}

// agentOf returns the target for a Node whose agent pulls. A Node that the job selects by name or through a Pod may
// have no NodeImage yet; the pull then begins after the creation of the NodeImage.
func (r *Reconciler) agentOf(s *settings, name string) (t target, ok bool) {
	image, found := r.images.Get("", name)
	if found && image.DeletionTimestamp == nil {
		why, exists := r.notReady(image)
		return target{Name: name, Image: image, NotReady: why}, exists
	}
	node, exists := r.nodes.Get("", name)
	isAwaited := exists && node.DeletionTimestamp == nil && !isVirtual(node) && (s.names != nil || s.pods != nil)
	return target{Name: name, NotReady: "the Node has no NodeImage yet"}, isAwaited
}

// missing returns the names in the spec for which no Node and no NodeImage exists.
func (r *Reconciler) missing(s *settings) (names []string) {
	for _, name := range s.names {
		_, isNode := r.nodes.Get("", name)
		_, hasImage := r.images.Get("", name)
		if !isNode && !hasImage {
			names = append(names, name)
		}
	}
	return names
}

// notReady returns the reason why a Node cannot pull now. exists is false for a deleted Node, whose NodeImage will be
// deleted soon.
func (r *Reconciler) notReady(image *v1beta1.NodeImage) (why string, exists bool) {
	if len(image.Spec.Undecodable) > 0 {
		return "the spec of the NodeImage cannot be read", true
	}
	node, ok := r.nodes.Get("", image.Name)
	if !ok {
		_, isFake := image.Labels[apps.LabelFakeNodeImage]
		return "", isFake
	}
	if isReady(node) {
		return "", true
	}
	return nodeNotReady, true
}

const nodeNotReady = "the Node is not ready"

// act changes the job's claims, which are the job's requests for images in NodeImages: act removes claims that are
// not needed any more, and adds the claims that are due.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, s *settings, d *decision, secrets []v1beta1.ReferenceObject) error {
	return errors.Join(
		fanout.Each(ctx, pass, fanout.Task{Name: "release claims"}, d.Release, func(ctx context.Context, image *v1beta1.NodeImage) (bool, error) {
			return r.edit(ctx, v, image, "released", func(next *v1beta1.NodeImage) (bool, error) {
				// The selector is evaluated again after each conflict, because the labels of the Node may have
				// changed.
				if !r.selects(v.Owner, s, next) || r.isThroughKubelet(v.Owner) && !r.isFallback(s, next.Name) {
					return release(v.Owner, next, v.Now), nil
				}
				return release(v.Owner, next, v.Now, s.image), nil
			})
		}),
		fanout.Each(ctx, pass, fanout.Task{Name: "claim images"}, d.Claim, func(ctx context.Context, image *v1beta1.NodeImage) (bool, error) {
			return r.edit(ctx, v, image, "claimed", func(next *v1beta1.NodeImage) (bool, error) {
				return s.claim(v.Owner, next, r.secretsOfOwners(next, s.image, v.Owner, secrets), v.Now)
			})
		}),
	)
}

// attempts is how often a change of a NodeImage is tried in case of conflicts: several jobs may write the NodeImage
// at the same time.
const attempts = 4

// edit changes a NodeImage. After a conflict the change is applied to the newest version of the object. A retry is
// safe, because each job changes only its own requests for images.
func (r *Reconciler) edit(ctx context.Context, v *view, image *v1beta1.NodeImage, action string, change func(*v1beta1.NodeImage) (bool, error)) (changed bool, err error) {
	for try := 1; ; try++ {
		next := image.DeepCopy()
		if changed, err := change(next); !changed || err != nil {
			return false, reason.Final(err)
		}
		err := v.Client.Patch(ctx, next, client.MergeFromWithOptions(image, client.MergeFromWithOptimisticLock{}))
		switch {
		case err == nil:
			r.options.Metrics.Done(action, 1)
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil // the Node was deleted
		case !apierrors.IsConflict(err) || try == attempts:
			return false, fmt.Errorf("NodeImage %s: %w", image.Name, err)
		}
		image = &v1beta1.NodeImage{}
		if err := r.cache.APIReader().Get(ctx, client.ObjectKey{Name: next.Name}, image); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if len(image.Spec.Undecodable) > 0 {
			return false, nil
		}
	}
}

// letGo removes a job that ends or is being deleted from the users of copied Secrets, and then removes the job's
// finalizer. The NodeImage controller removes the job's requests for images from NodeImages: at once if the job is
// deleted, otherwise when the TTL of each request has passed.
func (r *Reconciler) letGo(ctx context.Context, v *view, pass *fanout.Pass) error {
	if err := r.releaseCopies(ctx, v, pass); err != nil {
		return err
	}
	return r.setFinalizer(ctx, v, pass, false)
}

func (r *Reconciler) setFinalizer(ctx context.Context, v *view, pass *fanout.Pass, wanted bool) error {
	if slices.Contains(v.Owner.Finalizers, apps.FinalizerImagePullJob) == wanted {
		return nil
	}
	return pass.Once(ctx, fanout.Task{Name: "set the finalizer"}, func() (bool, error) {
		return v.SetFinalizer(ctx, apps.FinalizerImagePullJob, wanted)
	})
}
