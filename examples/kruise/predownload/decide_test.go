package predownload_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/podcontrol"
)

// template returns a template from words such as "app=nginx:2"; a word that begins with "init:" is an init container.
func template(words ...string) *corev1.PodTemplateSpec {
	out := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"team": "a"}}}
	out.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}, {Name: "pull"}, {}}
	for _, word := range words {
		name, image, _ := strings.Cut(word, "=")
		if name, isInit := strings.CutPrefix(name, "init:"); isInit {
			out.Spec.InitContainers = append(out.Spec.InitContainers, corev1.Container{Name: name, Image: image})
			continue
		}
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: name, Image: image})
	}
	return out
}

// pods returns Pods named a, b, c and so on, each on a Node of its own. Each word describes a Pod: "1" is a ready Pod
// at revision 1, "3-" is an unready Pod at revision 3, which is the update revision, and "1l" is a Pod at revision 1
// that waits for its deletion.
func pods(words ...string) *podcontrol.Set {
	set := &podcontrol.Set{}
	for i, word := range words {
		name := string(rune('a' + i))
		pod := podcontrol.Pod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n" + name}}}
		pod.Revision, pod.Updated, pod.Leaving, pod.Ready = "web-"+word[:1], word[0] == '3', strings.HasSuffix(word, "l"), word == "3"
		set.Active = append(set.Active, pod)
	}
	return set
}

// job returns a job of a revision.
func job(name string) *v1beta1.ImagePullJob {
	return &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

type outcome struct {
	Create, Delete []string
	Label, Order   string
}

func outcomeOf(plan *predownload.Plan) (out outcome) {
	for _, job := range plan.Create {
		out.Create = append(out.Create, job.Name+" "+job.Spec.Image)
		out.Order = job.Annotations[apps.AnnotationPullOrder]
	}
	for _, job := range plan.Delete {
		out.Delete = append(out.Delete, job.Name)
	}
	out.Label = plan.Label
	return out
}

func TestDecide(t *testing.T) {
	const created, ignored = apps.LabelPreDownloadCreated, apps.LabelPreDownloadIgnored
	never := func(*corev1.Pod) bool { return false }
	gone := job("web-2-app")
	gone.DeletionTimestamp = &metav1.Time{}
	for _, tc := range []struct {
		name     string
		pods     *podcontrol.Set
		template *corev1.PodTemplateSpec
		labels   map[string]string
		jobs     []*v1beta1.ImagePullJob
		rules    predownload.Rules
		want     outcome
	}{
		{name: "C-6, I-3 the changed image", pods: pods("1", "1"), template: template("app=nginx:3", "log=log:1"), want: outcome{
			Create: []string{"web-3-app nginx:3"}, Label: created, Order: "nb,na",
		}},
		{name: "IP-60 the Nodes of the next batch first", pods: pods("3", "1", "1", "1"), template: template("app=nginx:3", "log=log:1"), want: outcome{
			Create: []string{"web-3-app nginx:3"}, Label: created, Order: "nd,nc,nb",
		}},
		{name: "I-3 a new container", pods: pods("1", "1"), template: template("app=nginx:1", "log=log:1", "new=new:1"), want: outcome{
			Create: []string{"web-3-new new:1"}, Label: created, Order: "nb,na",
		}},
		{name: "I-3 several containers with the same image", pods: pods("1"), template: template("init:setup=nginx:3", "app=nginx:3", "log=log:1"), want: outcome{
			Create: []string{"web-3-setup nginx:3"}, Label: created,
		}},
		{name: "two former revisions", pods: pods("1", "2"), template: template("app=nginx:2", "log=log:2"), want: outcome{
			Create: []string{"web-3-app nginx:2", "web-3-log log:2"}, Label: created, Order: "nb,na",
		}},
		{name: "back to the image of all Pods", pods: pods("2"), template: template("app=nginx:2", "log=log:1"), want: outcome{Label: ignored}},
		{name: "an unknown revision", pods: pods("7"), template: template("app=nginx:1"), want: outcome{Create: []string{"web-3-app nginx:1"}, Label: created}},
		{name: "I-2 no Pod is updated in place", pods: pods("1", "1"), rules: predownload.Rules{InPlace: never}, want: outcome{Label: ignored}},
		{name: "I-2 the rollout is short", pods: pods("1", "1"), rules: predownload.Rules{IsShort: true}, want: outcome{Label: ignored}},
		{name: "I-2 jobs were created", pods: pods("1"), labels: map[string]string{created: "true"}, jobs: []*v1beta1.ImagePullJob{job("web-3-app")}},
		{name: "I-2 an earlier pass has begun, and could not record its decision", pods: pods("1", "1"), rules: predownload.Rules{IsShort: true}, template: template("app=nginx:3", "log=log:2"), jobs: []*v1beta1.ImagePullJob{job("web-3-app")}, want: outcome{
			Create: []string{"web-3-log log:2"}, Label: created, Order: "nb,na",
		}},
		{name: "I-2 no jobs were needed", pods: pods("1"), labels: map[string]string{ignored: "true"}},
		{name: "I-4 too few updated Pods are ready", pods: pods("3", "3-", "1", "1"), rules: predownload.Rules{
			Settings: predownload.Settings{MinUpdatedReady: intstr.FromInt32(2)},
		}},
		{name: "I-4 enough updated Pods are ready", pods: pods("3", "3", "1", "1"), rules: predownload.Rules{
			Settings: predownload.Settings{MinUpdatedReady: intstr.FromString("40%")}, Replicas: 4,
		}, want: outcome{Create: []string{"web-3-app nginx:3"}, Label: created, Order: "nd,nc"}},
		{name: "I-4 a percentage is rounded up", pods: pods("3", "1", "1", "1"), rules: predownload.Rules{
			Settings: predownload.Settings{MinUpdatedReady: intstr.FromString("26%")}, Replicas: 4,
		}},
		{name: "I-5 all Pods are updated", pods: pods("3", "3-"), jobs: []*v1beta1.ImagePullJob{job("web-3-app"), job("web-2-app")}, want: outcome{
			Delete: []string{"web-2-app", "web-3-app"},
		}},
		{name: "I-5 the last outdated Pod waits for its deletion", pods: pods("3", "1l"), jobs: []*v1beta1.ImagePullJob{job("web-3-app")}, want: outcome{
			Delete: []string{"web-3-app"},
		}},
		{name: "jobs of an earlier rollout", pods: pods("1"), labels: map[string]string{created: "true"}, jobs: []*v1beta1.ImagePullJob{job("web-3-app"), job("web-33-app"), gone, job("web-2-b")}, want: outcome{
			Delete: []string{"web-2-b", "web-33-app"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.template == nil {
				tc.template = template("app=nginx:3", "log=log:1")
			}
			tc.rules.Order = func() []*corev1.Pod {
				all := tc.pods.Select(func(*podcontrol.Pod) bool { return true })
				slices.Reverse(all)
				return all
			}
			view := &predownload.View{
				Namespace: "shop", Selector: &metav1.LabelSelector{}, Template: tc.template, Jobs: tc.jobs,
				Update: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-3", Labels: tc.labels}},
				TemplateOf: func(revision string) *corev1.PodTemplateSpec {
					return map[string]*corev1.PodTemplateSpec{"web-1": template("app=nginx:1", "log=log:1"), "web-2": template("app=nginx:2", "log=log:1")}[revision]
				},
			}
			plan := predownload.Decide(view, tc.pods, func() predownload.Rules { return tc.rules })
			if diff := cmp.Diff(tc.want, outcomeOf(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(&predownload.Plan{}, predownload.Decide(nil, pods("1"), nil)); diff != "" {
		t.Errorf("I-1 the gate is off (-want +got):\n%s", diff)
	}
}

// TestJob checks all fields of a job.
func TestJob(t *testing.T) {
	owner := metav1.OwnerReference{Kind: "CloneSet", Name: "web"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	view := &predownload.View{
		Owner: owner, Namespace: "shop", Selector: selector, Template: template("app=nginx:3"), TemplateOf: func(string) *corev1.PodTemplateSpec { return nil },
		Update: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-7d9f"}},
	}
	set := pods("1")
	var read judge.Reading
	settings := predownload.Read(&read, nil, nil)
	got := predownload.Decide(view, set, func() predownload.Rules {
		return predownload.Rules{Settings: settings, Order: func() []*corev1.Pod { return set.Select(func(*podcontrol.Pod) bool { return true }) }}
	}).Create
	want := []*v1beta1.ImagePullJob{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-7d9f-app", OwnerReferences: []metav1.OwnerReference{owner}, Labels: map[string]string{"app": "web", "controller.kubernetes.io/hash": "7d9f"},
		},
		Spec: v1beta1.ImagePullJobSpec{
			Image: "nginx:3", PullSecrets: []string{"pull"}, Parallelism: new(intstr.FromInt32(1)),
			PodSelector: &v1beta1.ImagePullJobPodSelector{LabelSelector: metav1.LabelSelector{
				MatchLabels:      map[string]string{"app": "web"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "controller-revision-hash", Operator: "NotIn", Values: []string{"web-7d9f", "7d9f"}}},
			}},
			PullPolicy:       &v1beta1.PullPolicy{TimeoutSeconds: new(int32(300)), BackoffLimit: new(int32(1))},
			CompletionPolicy: v1beta1.CompletionPolicy{Type: "Always", TTLSecondsAfterFinished: new(int32(600))},
			SandboxConfig:    &v1beta1.SandboxConfig{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"team": "a"}},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("I-3, IP-50 (-want +got):\n%s", diff)
	}
	if len(selector.MatchExpressions) > 0 {
		t.Error("the workload's selector was changed")
	}
	view.Update.Name = strings.Repeat("a", 60) + "-7d9f" // longer than the value of a label
	long := predownload.Decide(view, set, func() predownload.Rules {
		return predownload.Rules{Settings: settings, Order: func() []*corev1.Pod { return set.Select(func(*podcontrol.Pod) bool { return true }) }}
	}).Create
	if len(long) != 1 {
		t.Fatalf("%d jobs of a workload with a long name", len(long))
	}
	if _, err := metav1.LabelSelectorAsSelector(&long[0].Spec.PodSelector.LabelSelector); err != nil {
		t.Errorf("I-3 a workload with a long name: %v", err)
	}
}

func TestRead(t *testing.T) {
	const parallelism, timeout, ready = apps.AnnotationImagePreDownloadParallelism, apps.AnnotationImagePreDownloadTimeoutSeconds, apps.AnnotationImagePreDownloadMinUpdatedReadyPods
	defaults := predownload.Settings{Parallelism: intstr.FromInt32(1), TimeoutSeconds: 300}
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		strategy    *pub.InPlaceUpdateStrategy
		want        predownload.Settings
		warnings    []string
	}{
		{name: "IP-50 defaults", want: defaults},
		{
			name: "IP-51 annotations", annotations: map[string]string{parallelism: "3", timeout: "60", ready: "20%"},
			want: predownload.Settings{Parallelism: intstr.FromInt32(3), TimeoutSeconds: 60, MinUpdatedReady: intstr.FromString("20%")},
		},
		{
			name: "IP-51, I-7 fields come first", annotations: map[string]string{parallelism: "5%", timeout: "60", ready: "many"},
			strategy: &pub.InPlaceUpdateStrategy{
				ImagePreDownloadParallelism: new(intstr.FromInt32(0)), ImagePreDownloadTimeoutSeconds: new(int32(9)), ImagePreDownloadMinUpdatedReadyPods: new(int32(2)),
			},
			want: predownload.Settings{Parallelism: intstr.FromInt32(0), TimeoutSeconds: 9, MinUpdatedReady: intstr.FromInt32(2)},
		},
		{
			name: "invalid annotations", annotations: map[string]string{parallelism: "10%", timeout: "-1", ready: "many"}, want: defaults,
			warnings: []string{
				"metadata.annotations[apps.kruise.io/image-predownload-parallelism]", "metadata.annotations[apps.kruise.io/image-predownload-timeout-seconds]",
				"metadata.annotations[apps.kruise.io/image-predownload-min-updated-ready-pods]",
			},
		},
		{
			name: "invalid fields", want: defaults, strategy: &pub.InPlaceUpdateStrategy{
				ImagePreDownloadParallelism: new(intstr.FromString("10%")), ImagePreDownloadTimeoutSeconds: new(int32(0)), ImagePreDownloadMinUpdatedReadyPods: new(int32(-1)),
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var read judge.Reading
			got := predownload.Read(&read, tc.annotations, tc.strategy)
			var paths []string
			for _, why := range read.Warnings.Reasons() {
				paths = append(paths, why.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, paths); diff != "" || len(read.Problems) > 0 {
				t.Errorf("problems %v, warnings (-want +got):\n%s", read.Problems.Reasons(), diff)
			}
		})
	}
}
