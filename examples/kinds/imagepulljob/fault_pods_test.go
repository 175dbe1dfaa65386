package imagepulljob

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// The functions below read Pods without the controller's code, because a mistake in the controller's code would hide
// a wrong write.

func isThrough(job *v1beta1.ImagePullJob) bool {
	return job.Annotations[apps.AnnotationPullThrough] == apps.PullThroughKubelet
}

// pull contains the facts about a Pod of a job.
type pull struct {
	job            types.UID
	node, image    string
	serial         int
	isOver, hasRun bool
	began          time.Time
}

func pullOf(pod *corev1.Pod) (p pull, ok bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ImagePullJob" {
		return p, false
	}
	p.job = owner.UID
	p.node = pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	p.image = pod.Spec.Volumes[0].Image.Reference
	var report struct {
		Serial int
		Phase  string
	}
	if json.Unmarshal([]byte(pod.Annotations[apps.AnnotationPullReport]), &report) != nil {
		return p, false
	}
	p.began = pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(p.began) {
			p.began = c.LastTransitionTime.Time
		}
	}
	p.serial, p.isOver = report.Serial, report.Phase == "Failed" || report.Phase == "Succeeded"
	for _, c := range pod.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			p.hasRun = p.hasRun || state.Running != nil || state.Terminated != nil
		}
	}
	return p, true
}

// evict deletes a Pod of a job, as a drain of the Node would.
func (w *story) evict(job *v1beta1.ImagePullJob) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if p, ok := pullOf(pod); ok && p.job == job.UID && pod.DeletionTimestamp == nil {
			w.Logf("user: Pod %s is evicted", pod.Name)
			w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod.DeepCopy())))
			return
		}
	}
}

// full returns the long name of an image of the test, with registry and repository.
func full(image string) string {
	if image == "nginx:1" {
		return "docker.io/library/nginx:1"
	}
	return image
}

// lookAtPods counts the ready Nodes whose newest Pod has neither pulled the image nor failed.
func (w *story) lookAtPods(t *chaos.Task, v *glance) {
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods, client.InNamespace(team)))
	last := map[string]pull{}
	for i := range pods.Items {
		p, ok := pullOf(&pods.Items[i])
		if !ok || p.job != v.job.UID || p.image != full(v.job.Spec.Image) {
			continue
		}
		if v.pods[p.node] = true; p.serial > last[p.node].serial {
			last[p.node] = p
		}
	}
	for name, p := range last {
		node := &corev1.Node{}
		known := t.Process.Cache.Get(context.Background(), client.ObjectKey{Name: name}, node) == nil
		isLate := v.job.Spec.PullPolicy != nil && time.Since(p.began) >= time.Duration(*v.job.Spec.PullPolicy.TimeoutSeconds)*time.Second
		if known && isReady(node) && isThrough(v.job) && chosen(v.job, name) && !p.isOver && !p.hasRun && !isLate {
			v.busy++
		}
	}
}

// judgePod checks that a Pod may be created.
func (w *story) judgePod(write *chaos.Write, pod *corev1.Pod) {
	p, ok := pullOf(pod)
	if !ok {
		w.Failf("kubelets", "Pod %s has no report: %v", pod.Name, pod.Annotations)
		return
	}
	if v, _ := write.Task.View.(*sight); v != nil && !slices.ContainsFunc(v.views, func(v glance) bool { return v.job.UID == p.job && v.pods[p.node] }) {
		v.made++
	}
	alive := 0
	for _, other := range faultapi.All[*corev1.Pod](w.Server) {
		if o, ok := pullOf(other); ok && o.job == p.job && o.node == p.node && o.image == p.image && other.DeletionTimestamp == nil {
			alive++
		}
	}
	if alive > 2 || p.serial > 5 {
		w.Failf("kubelets", "%d Pods pull %s on %s, the last is number %d", alive, p.image, p.node, p.serial)
	}
	w.allow(write, "IP-10, IP-11, IP-65, kubelets", func(s *sight, v *glance) string {
		job := v.job
		switch {
		case job.UID != p.job || !isThrough(job) || !chosen(job, p.node) || p.node == oldNode || p.image != full(job.Spec.Image):
			return "a Pod for " + p.image + " on " + p.node + ", which job " + job.Name + " does not want"
		case len(pod.Spec.ImagePullSecrets) != len(job.Spec.PullSecrets):
			return "a Pod of job " + job.Name + " has other pull secrets"
		case v.pods[p.node] && job.Status.CompletionTime == nil && job.DeletionTimestamp == nil:
			return "" // a further attempt
		}
		return s.problem(v)
	})
}

// convergedPods checks that the remaining Pods have the images of their own jobs, one Pod of a job on each Node.
func (w *story) convergedPods() {
	held := map[types.UID][]string{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		p, ok := pullOf(pod)
		job := w.job(metav1.GetControllerOf(pod).Name)
		switch {
		case !ok || job == nil || job.UID != p.job:
			w.Failf("kubelets", "Pod %s is of no job", pod.Name)
		case job.Status.CompletionTime != nil && (!p.hasRun || p.image != full(job.Spec.Image)):
			w.Failf("IP-33", "Pod %s holds no image for job %s, which has ended", pod.Name, job.Name)
		case job.Status.CompletionTime == nil && !isThrough(job):
			w.Failf("IP-64", "Pod %s is of job %s, for which agents pull", pod.Name, job.Name)
		}
		held[p.job] = append(held[p.job], p.node)
	}
	for _, name := range jobNames() {
		job := w.job(name)
		if job == nil || job.Status.CompletionTime != nil || !isThrough(job) {
			continue
		}
		want := slices.DeleteFunc(nodeNames(), func(node string) bool { return w.node(node) == nil || node == oldNode || !chosen(job, node) })
		if got := held[job.UID]; !slices.Equal(sorted(got), want) {
			w.Failf("IP-8", "job %s has Pods on %v, want %v", name, sorted(got), want)
		}
	}
}

func sorted[T cmp.Ordered](in []T) []T { return slices.Sorted(slices.Values(in)) }
