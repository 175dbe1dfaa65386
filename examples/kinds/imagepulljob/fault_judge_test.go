package imagepulljob

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is the possible input of a reconcile of a job: the state of the caches before the first write. The reconcile
// reads the job at any time before its first request, so several versions of the job are possible.
type sight struct {
	views []glance
	made  int // claims (requests in NodeImages) and Pods that the reconcile has created so far
	now   time.Time
	// called means that the reconcile has sent a request for the job. wrote means that the reconcile has written a
	// claim, a Pod or the status.
	called, wrote bool
}

// glance is one possible version of the job, with the state of the job's Nodes.
type glance struct {
	job  *v1beta1.ImagePullJob
	busy int // ready Nodes whose pull has no result yet
	// pods are the Nodes with a Pod of the job for the job's image.
	pods map[string]bool
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	v, _ := t.View.(*sight)
	if t.Controller != "imagepulljob" || v != nil && v.wrote {
		return
	}
	// A reconcile reads the job first, then the Secrets, then the NodeImages.
	isAboutSecrets := call != nil && (call.Resource.Resource == "secrets" || call.Resource.Resource == "imagepulljobs" && call.Verb == "patch" && call.Subresource == "")
	isWrite := call != nil && !isAboutSecrets && call.Verb != "get" && call.Verb != "list"
	if v == nil || !isAboutSecrets && !isWrite {
		v = &sight{now: time.Now()}
		t.View = v
	}
	if !v.called {
		job := &v1beta1.ImagePullJob{}
		if t.Process.Cache.Get(context.Background(), t.Object, job) == nil {
			v.views = append(v.views, glance{job: job})
		}
	}
	v.called, v.wrote = v.called || isWrite || isAboutSecrets, isWrite
	if isWrite && v.called && len(v.views) == 0 {
		return
	}
	for i := range v.views {
		// The reconcile may have read the Nodes at any time until now, so the smallest number of busy Nodes counts.
		g := &v.views[i]
		before, known := g.busy, g.pods != nil
		if w.count(t, g); known {
			g.busy = min(g.busy, before)
		}
	}
}

// count counts the ready Nodes whose pull for a job has no result yet.
func (w *story) count(t *chaos.Task, v *glance) {
	v.busy, v.pods = 0, map[string]bool{}
	w.lookAtPods(t, v)
	var images v1beta1.NodeImageList
	w.must(t.Process.Cache.List(context.Background(), &images))
	for i := range images.Items {
		node := &corev1.Node{}
		known := t.Process.Cache.Get(context.Background(), client.ObjectKey{Name: images.Items[i].Name}, node) == nil
		if known && isReady(node) && chosen(v.job, node.Name) && (!isThrough(v.job) || node.Name == oldNode && len(v.job.Spec.PullSecrets) == 0) && isBusy(&images.Items[i], v.job) {
			v.busy++
		}
	}
}

// allow fails the test unless at least one possible input of the reconcile justifies a write. problem returns the
// reason why an input does not justify the write.
func (w *story) allow(write *chaos.Write, rule string, problem func(*sight, *glance) string) {
	v, _ := write.Task.View.(*sight)
	if v == nil || len(v.views) == 0 {
		w.Failf(rule, "%s writes for no job", write.Task.Controller)
		return
	}
	why := ""
	for i := range v.views {
		if why = problem(v, &v.views[i]); why == "" {
			return
		}
	}
	w.Failf(rule, "%s", why)
}

// The functions below read jobs and NodeImages without the controller's code, because a mistake in the controller's
// code would hide a wrong write.

func chosen(job *v1beta1.ImagePullJob, node string) bool {
	return job.Spec.Selector == nil || slices.Contains(job.Spec.Selector.Names, node)
}

// place splits an image of the test into name and tag.
func place(image string) (name, tag string) {
	i := len(image) - 1
	for image[i] != ':' {
		i--
	}
	return image[:i], image[i+1:]
}

func indexOf(tags []v1beta1.ImageTagStatus, tag string) int {
	return slices.IndexFunc(tags, func(t v1beta1.ImageTagStatus) bool { return t.Tag == tag })
}

func isFinal(phase v1beta1.ImagePullPhase) bool {
	return phase == v1beta1.ImagePhaseSucceeded || phase == v1beta1.ImagePhaseFailed
}

func sortedImages(image *v1beta1.NodeImage) iter.Seq2[string, v1beta1.ImageSpec] {
	return func(yield func(string, v1beta1.ImageSpec) bool) {
		for _, name := range slices.Sorted(maps.Keys(image.Spec.Images)) {
			if !yield(name, image.Spec.Images[name]) {
				return
			}
		}
	}
}

// owned returns the tags in a NodeImage that a job owns, as "name:tag".
func owned(image *v1beta1.NodeImage, job types.UID) (tags []string) {
	for name, in := range sortedImages(image) {
		for i := range in.Tags {
			for _, ref := range in.Tags[i].OwnerReferences {
				if ref.UID == job {
					tags = append(tags, name+":"+in.Tags[i].Tag)
				}
			}
		}
	}
	return tags
}

// isBusy reports whether a job's request for an image in a NodeImage has no result yet.
func isBusy(image *v1beta1.NodeImage, job *v1beta1.ImagePullJob) bool {
	if !slices.Contains(owned(image, job.UID), job.Spec.Image) {
		return false
	}
	name, tag := place(job.Spec.Image)
	i := slices.IndexFunc(image.Spec.Images[name].Tags, func(t v1beta1.ImageTagSpec) bool { return t.Tag == tag })
	version := image.Spec.Images[name].Tags[i].Version
	if own, has := image.Spec.Images[name].Tags[i].OwnerVersions[string(job.UID)]; has {
		version = own
	}
	statuses := image.Status.ImageStatuses[name].Tags
	k := indexOf(statuses, tag)
	return k < 0 || statuses[k].Version < version || !isFinal(statuses[k].Phase)
}

func (w *story) judge(write *chaos.Write) {
	switch after := write.After.(type) {
	case *v1beta1.NodeImage:
		before, _ := write.Before.(*v1beta1.NodeImage)
		w.judgeImage(write, before, after)
		return
	case *v1beta1.ImagePullJob:
		before, _ := write.Before.(*v1beta1.ImagePullJob)
		w.judgeJob(write, before, after)
		return
	case *corev1.Secret:
		w.judgeCopy(after)
		return
	case *corev1.Pod:
		if write.Before == nil {
			w.judgePod(write, after)
		}
		return
	}
	if _, isImage := write.Before.(*v1beta1.NodeImage); isImage && write.After == nil && w.node(write.Before.GetName()) != nil {
		if node := w.node(write.Before.GetName()); node.DeletionTimestamp == nil && node.CreationTimestamp.Before(new(write.Before.GetCreationTimestamp())) {
			w.Failf("IP-31", "the NodeImage of Node %s is deleted", node.Name)
		}
	}
}

func (w *story) judgeImage(write *chaos.Write, before, after *v1beta1.NodeImage) {
	if before == nil {
		return
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		w.Failf("IP-68", "the manager writes the status of NodeImage %s", after.Name)
	}
	for _, name := range jobNames() {
		job := w.job(name)
		if job == nil {
			continue
		}
		was, is := owned(before, job.UID), owned(after, job.UID)
		for _, tag := range was {
			if !slices.Contains(is, tag) && !isThrough(job) && tag == job.Spec.Image && job.Spec.CompletionPolicy.Type == v1beta1.Always && chosen(job, after.Name) && job.Status.CompletionTime == nil && job.DeletionTimestamp == nil &&
				w.node(after.Name) != nil && !w.isStale(write, job) {
				w.Failf("IP-33", "job %s loses its claim for %s on %s", name, tag, after.Name)
			}
		}
		if len(is) > len(was) {
			w.judgeClaim(write, job, after.Name)
		}
	}
}

// isStale reports whether the reconcile may have seen another version of a job's spec than the given version.
func (w *story) isStale(write *chaos.Write, job *v1beta1.ImagePullJob) bool {
	v, _ := write.Task.View.(*sight)
	return v != nil && slices.ContainsFunc(v.views, func(v glance) bool {
		return v.job.Generation != job.Generation || v.job.UID != job.UID || isThrough(v.job) != isThrough(job)
	})
}

func (w *story) judgeClaim(write *chaos.Write, job *v1beta1.ImagePullJob, node string) {
	if v, _ := write.Task.View.(*sight); v != nil {
		v.made++
	}
	w.allow(write, "IP-10, IP-11, kubelets", func(s *sight, v *glance) string {
		switch {
		case v.job.UID != job.UID:
			return "a claim for job " + job.Name + " by somebody else"
		case isThrough(v.job) && (node != oldNode || len(v.job.Spec.PullSecrets) > 0):
			return "a claim on " + node + " for job " + job.Name + ", for which kubelets pull"
		}
		return s.problem(v)
	})
}

// problem returns the reason why a job must not begin pulls on further Nodes; empty if the job may.
func (s *sight) problem(v *glance) string {
	if v.job.Status.CompletionTime != nil || v.job.DeletionTimestamp != nil {
		return "job " + v.job.Name + " has ended"
	}
	if most := v.job.Spec.Parallelism.IntValue(); v.busy+s.made > most {
		return fmt.Sprintf("job %s pulls on %d Nodes, and has begun %d more; %d are allowed", v.job.Name, v.busy, s.made, most)
	}
	return ""
}

func (w *story) judgeJob(write *chaos.Write, before, after *v1beta1.ImagePullJob) {
	if before == nil || equality.Semantic.DeepEqual(before.Status, after.Status) {
		return
	}
	status := &after.Status
	if before.Status.CompletionTime != nil {
		w.Failf("IP-11", "the status of job %s changes after the end", after.Name)
	}
	if status.Desired < status.Active+status.Succeeded+status.Failed || int(status.Failed) != len(status.FailedNodes) {
		w.Failf("IP-63", "job %s: numbers %+v", after.Name, status)
	}
	if status.Failed > 0 && len(status.Failures) != int(status.Failed) {
		w.Failf("IP-70", "job %s does not say why: %+v", after.Name, status)
	}
	if status.CompletionTime == nil || status.Succeeded+status.Failed == status.Desired {
		return
	}
	w.allow(write, "IP-11", func(s *sight, v *glance) string {
		deadline := v.job.Spec.CompletionPolicy.ActiveDeadlineSeconds
		if deadline != nil && v.job.Status.StartTime != nil && !s.now.Before(v.job.Status.StartTime.Add(time.Duration(*deadline)*time.Second)) {
			return ""
		}
		return fmt.Sprintf("job %s ends early: %+v", after.Name, status)
	})
}

func (w *story) judgeCopy(secret *corev1.Secret) {
	if secret.Namespace != apps.NamespacePullSecrets || secret.Type != corev1.SecretTypeDockerConfigJson || len(secret.Labels) > 0 {
		w.Failf("IP-65", "a Secret is written: %s/%s of type %s with labels %v", secret.Namespace, secret.Name, secret.Type, secret.Labels)
	}
	if bytes.Contains(secret.Data[corev1.DockerConfigJsonKey], []byte("other.test")) {
		w.Failf("IP-65", "the copy %s has credentials for another registry", secret.Name)
	}
}

func (w *story) converged() {
	for _, name := range jobNames() {
		job := w.job(name)
		if job == nil {
			continue
		}
		switch ended := job.Status.CompletionTime != nil; {
		case job.DeletionTimestamp != nil:
			w.Failf("IP-62", "job %s is not let go: %v", name, job.Finalizers)
		case !ended && job.Spec.CompletionPolicy.Type == v1beta1.Always:
			w.Failf("IP-11", "job %s has not ended: %+v", name, job.Status)
		case ended && slices.Contains(job.Finalizers, apps.FinalizerImagePullJob):
			w.Failf("IP-62", "job %s has ended with a finalizer", name)
		case !ended && job.Status.Succeeded+job.Status.Failed != job.Status.Desired:
			w.Failf("IP-8", "job %s: %+v", name, job.Status)
		}
	}
	w.convergedPods()
	w.convergedImages()
	w.convergedCopies()
}

func (w *story) convergedImages() {
	for _, name := range nodeNames() {
		node := w.node(name)
		image, _ := w.Server.Stored(&v1beta1.NodeImage{}, client.ObjectKey{Name: name}).(*v1beta1.NodeImage)
		if (node != nil) != (image != nil) {
			w.Failf("IP-30, IP-31", "Node %s is there: %t, and its NodeImage: %t", name, node != nil, image != nil)
			continue
		}
		if node == nil {
			continue
		}
		if !maps.Equal(node.Labels, image.Labels) {
			w.Failf("IP-32", "Node %s has the labels %v, and its NodeImage %v", name, node.Labels, image.Labels)
		}
		for _, in := range image.Spec.Images {
			for i := range in.Tags {
				for _, ref := range in.Tags[i].OwnerReferences {
					switch job := w.job(ref.Name); {
					case job == nil || job.UID != ref.UID:
						w.Failf("IP-33", "tag %s on %s is of job %s, which is gone", in.Tags[i].Tag, name, ref.Name)
					case isThrough(job) && job.Status.CompletionTime == nil && (name != oldNode || len(job.Spec.PullSecrets) > 0):
						w.Failf("kubelets", "tag %s on %s is of job %s, for which kubelets pull", in.Tags[i].Tag, name, ref.Name)
					}
				}
			}
		}
	}
}

func (w *story) convergedCopies() {
	source, _ := w.Server.Stored(&corev1.Secret{}, client.ObjectKey{Namespace: team, Name: "pull"}).(*corev1.Secret)
	held := map[string]bool{}
	for _, secret := range faultapi.All[*corev1.Secret](w.Server) {
		for _, holder := range byHolder(secret) {
			job := w.job(holder[len(team)+1:])
			if held[holder] = true; job == nil || job.Status.CompletionTime != nil || isThrough(job) {
				w.Failf("IP-23", "copy %s is held by %s, which needs no copy", secret.Name, holder)
			}
			if source == nil {
				w.Failf("IP-61", "copy %s of a Secret that is gone", secret.Name)
			}
		}
	}
	for _, name := range jobNames() {
		job := w.job(name)
		needs := job != nil && !isThrough(job) && job.Status.CompletionTime == nil && len(job.Spec.PullSecrets) > 0 && job.Spec.Image != "nginx:1" && source != nil
		if needs && !held[team+"/"+name] {
			w.Failf("IP-20", "job %s has no copy of its pull secret", name)
		}
	}
}
