package cloneset

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// judgeDownload checks that each job pulls an image of the template for Pods that wait for the update, and the
// controller deletes only jobs of finished or replaced rollouts.
func (w *story) judgeDownload(v *taskView, write *chaos.Write) {
	job, _ := write.After.(*v1beta1.ImagePullJob)
	if write.Call.Verb == "delete" {
		job, _ = write.Before.(*v1beta1.ImagePullJob)
	}
	switch {
	case v.owner == nil || job == nil || !w.setup.pullsAhead:
		w.Failf("download", "%s of job %s by another loop, or without the gate", write.Call.Verb, write.Call.Name)
		return
	case !metav1.IsControlledBy(job, v.owner):
		w.Failf("download", "job %s of another owner", job.Name)
	}
	waiting := false // outdated Pods in the view
	for _, pod := range v.pods {
		waiting = waiting || pod.DeletionTimestamp == nil && !revision.Same(pod.Labels[apps.LabelRevision], job.Name[:strings.LastIndex(job.Name, "-")])
	}
	if write.Call.Verb != "create" {
		return
	}
	wanted := false
	for i := range v.owner.Spec.Template.Spec.Containers {
		c := &v.owner.Spec.Template.Spec.Containers[i]
		wanted = wanted || c.Image == job.Spec.Image && strings.HasSuffix(job.Name, "-"+c.Name)
	}
	if !wanted || !waiting {
		w.Failf("download", "job %s pulls %s, in the template: %t, Pods that wait: %t", job.Name, job.Spec.Image, wanted, waiting)
	}
}

// checkDownloads checks that the decision about the update revision is recorded, jobs exist for the update revision
// alone, and no jobs exist if all Pods are updated.
func (w *story) checkDownloads(cs *v1beta1.CloneSet, active []*corev1.Pod, revisions map[string]*appsv1.ControllerRevision) {
	old := 0
	for _, pod := range active {
		old += ord(pod.DeletionTimestamp == nil && !revision.Same(pod.Labels[apps.LabelRevision], cs.Status.UpdateRevision))
	}
	jobs := 0
	for _, job := range faultapi.All[*v1beta1.ImagePullJob](w.Server) {
		if !metav1.IsControlledBy(job, cs) || job.DeletionTimestamp != nil {
			continue
		}
		if jobs++; old == 0 || !strings.HasPrefix(job.Name, cs.Status.UpdateRevision+"-") {
			w.Failf("converged download", "job %s is left; %d Pods are outdated, and the revision is %s", job.Name, old, cs.Status.UpdateRevision)
		}
	}
	rev := revisions[cs.Status.UpdateRevision]
	if rev == nil {
		return
	}
	created, ignored := rev.Labels[apps.LabelPreDownloadCreated] == "true", rev.Labels[apps.LabelPreDownloadIgnored] == "true"
	if w.setup.pullsAhead && old > 0 && !created && !ignored || created && ignored || jobs > 0 && !created {
		w.Failf("converged download", "revision %s: jobs created %t, ignored %t; %d jobs, %d outdated Pods", rev.Name, created, ignored, jobs, old)
	}
}
