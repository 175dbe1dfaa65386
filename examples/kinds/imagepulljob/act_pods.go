package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
	"github.com/workloadkit/workloadkit/reason"
)

// isThroughKubelet reports whether kubelets pull the image of a job.
func (r *Reconciler) isThroughKubelet(job *v1beta1.ImagePullJob) bool {
	if way, ok := job.Annotations[apps.AnnotationPullThrough]; ok {
		return way == apps.PullThroughKubelet
	}
	return r.options.PullThrough == apps.PullThroughKubelet
}

// puller returns the kubeletpull.Puller that decides about the Pods of a job.
func (r *Reconciler) puller(job *v1beta1.ImagePullJob) (*kubeletpull.Puller, error) {
	return kubeletpull.New(r.pulls(job, *metav1.NewControllerRef(job, r.cache.Kind())))
}

func (r *Reconciler) pulls(job *v1beta1.ImagePullJob, owned metav1.OwnerReference) kubeletpull.Options {
	return kubeletpull.Options{
		Namespace: job.Namespace, Prefix: prefixOf(job.Name), Owner: owned,
		Labels:      map[string]string{apps.LabelImagePullJobUID: string(job.UID)},
		PauseImage:  r.options.PauseImage,
		PullSecrets: map[imagepull.Owner][]string{owner(job): job.Spec.PullSecrets},
		Bounds:      imagepull.Bounds{Registries: r.options.Registries},
		Hold:        true, Annotation: apps.AnnotationPullReport,
	}
}

// prefixOf returns the prefix of the names of a job's Pods.
func prefixOf(job string) string {
	const longest = 40
	return strings.Trim(strings.ReplaceAll(job[:min(len(job), longest)], ".", "-"), "-")
}

// podsOf returns the Pods of a job, keyed by the name of the Node for which the Pod was created.
func (r *Reconciler) podsOf(job *v1beta1.ImagePullJob, puller *kubeletpull.Puller) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range r.pods.Of(job.Namespace, job.UID) {
		if node, _, ok := puller.Holding(pod); ok {
			out[node] = append(out[node], pod)
		}
	}
	return out
}

// kubeletOf returns the target for a Node whose kubelet pulls. If the kubelet does not support image volumes, the
// Node's agent pulls instead. The agent does not pull for a job with pull secrets, because agents need copies of the
// Secrets, and the controller makes no copies for a job that asks for kubelets.
func (r *Reconciler) kubeletOf(s *settings, name string, agent target) (t target, ok bool) {
	node, exists := r.nodes.Get("", name)
	if !exists || node.DeletionTimestamp != nil || isVirtual(node) {
		return target{}, false
	}
	t = target{Name: name, Node: node}
	if t.NotReady = pressure(node); !isReady(node) {
		t.NotReady = nodeNotReady
	}
	if err := r.support(node); err != nil {
		t.Node, t.Unable = nil, reason.From(err)[0]
		if len(s.secrets) == 0 && agent.Image != nil {
			t.Image, t.NotReady = agent.Image, agent.NotReady
		}
	}
	return t, true
}

// pressure returns the reason why the kubelet of a Node would reject a Pod that tolerates all taints; empty if the
// kubelet would accept the Pod (pkg/kubelet/eviction/eviction_manager.go of Kubernetes 1.36).
func pressure(node *corev1.Node) string {
	for i := range node.Spec.Taints {
		switch node.Spec.Taints[i].Key {
		case corev1.TaintNodeDiskPressure:
			return "the Node has disk pressure"
		case corev1.TaintNodePIDPressure:
			return "the Node has PID pressure"
		}
	}
	return ""
}

// isFallback reports whether the agent of a Node pulls for a job that asks for kubelets.
func (r *Reconciler) isFallback(s *settings, name string) bool {
	agent, _ := r.agentOf(s, name)
	t, ok := r.kubeletOf(s, name, agent)
	return ok && t.Node == nil && t.Image != nil
}

// unservedFor is how long the controller creates no Pods after the API server has removed the image volume from a new
// Pod.
const unservedFor = 10 * time.Minute

// support returns nil, or the reason why no Pod can make the kubelet of a Node pull an image.
func (r *Reconciler) support(node *corev1.Node) error {
	if since := r.unserved.Load(); since != nil && r.options.Clock.Now().Sub(*since) < unservedFor {
		return reason.Reason{Code: kubeletpull.ImageVolumesMissing, Detail: "the API server does not accept image volumes", Remedy: "switch on the feature gate ImageVolume, or pull with agents"}
	}
	return kubeletpull.Support(node, false)
}

func createPods() fanout.Task { return fanout.Task{Name: "create Pods"} }

// actOnPods patches, deletes and creates Pods as decided, in this order, because a deleted Pod frees quota for a new
// Pod. made is the number of created Pods. createErr is the reason why some Pods could not be created.
func (r *Reconciler) actOnPods(ctx context.Context, v *view, pass *fanout.Pass, d *decision) (made int, createErr, err error) {
	before := map[string]*corev1.Pod{}
	for _, pod := range r.pods.Of(v.Owner.Namespace, v.Owner.UID) {
		before[pod.Name] = pod
	}
	changeErr := fanout.Each(ctx, pass, fanout.Task{Name: "record pulls"}, d.Change, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		if before[pod.Name] == nil {
			return false, nil
		}
		err := v.Client.Patch(ctx, pod, client.MergeFromWithOptions(before[pod.Name], client.MergeFromWithOptimisticLock{}))
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, wrapped("recording a pull in", pod.Name, err)
	})
	deleteErr := fanout.Each(ctx, pass, fanout.Task{Name: "delete Pods"}, d.Delete, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		uid := pod.UID
		err := v.Client.Delete(ctx, pod, client.Preconditions{UID: &uid})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err == nil {
			r.options.Metrics.Done("deleted", 1)
		}
		return err == nil, wrapped("deleting", pod.Name, err)
	})
	made, createErr = pass.CreateEach(ctx, createPods(), len(d.Create), func(i int) string { return d.Create[i].Name }, func(ctx context.Context, i int) error {
		err := v.Client.Create(ctx, d.Create[i])
		if isVolumeRefused(err) {
			now := r.options.Clock.Now()
			r.unserved.Store(&now)
		}
		if apierrors.IsAlreadyExists(err) {
			return nil // created before; the cache does not show the Pod yet
		}
		return wrapped("creating", d.Create[i].Name, err)
	})
	r.options.Metrics.Done("created", int64(made))
	return made, createErr, errors.Join(changeErr, deleteErr)
}

// isOverQuota reports whether a quota has refused an object (plugin/pkg/admission/resourcequota/controller.go).
func isOverQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

func wrapped(doing, pod string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s Pod %s: %w", doing, pod, err)
}

// isVolumeRefused reports whether the API server has refused a new Pod because the volume has no source. Without the
// feature gate ImageVolume, the API server removes the image source from the volume, and then refuses the volume
// without a source.
func isVolumeRefused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, "spec.volumes[0]") {
			return true
		}
	}
	return false
}
