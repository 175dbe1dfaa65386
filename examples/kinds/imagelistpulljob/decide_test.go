package imagelistpulljob

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func newList(edits ...func(*v1beta1.ImageListPullJob)) *v1beta1.ImageListPullJob {
	list := &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "warm", UID: "warm-uid"}}
	list.Spec.Images, list.Spec.CompletionPolicy.Type = []string{"b:1", "a:1"}, v1beta1.Always
	list.Status.StartTime = new(metav1.NewTime(noon.Add(-time.Hour)))
	for _, edit := range edits {
		edit(list)
	}
	return list
}

// jobOf returns the ImagePullJob for an image. numbers are the numbers of Nodes in the status of the ImagePullJob:
// desired, active, succeeded, failed.
func jobOf(list *v1beta1.ImageListPullJob, image string, numbers ...int32) *v1beta1.ImagePullJob {
	job := newJob(list, hashOf(&list.Spec), image)
	if len(numbers) > 0 {
		s := &job.Status
		s.StartTime = &metav1.Time{Time: noon}
		s.Desired, s.Active, s.Succeeded, s.Failed = numbers[0], numbers[1], numbers[2], numbers[3]
		if s.Failed > 0 {
			s.FailedNodes, s.Failures = []string{"n1"}, []v1beta1.ImagePullJobFailure{{Node: "n1", Reason: "PullFailed", Message: "no such image"}}
		}
	}
	return job
}

// result summarizes a decision.
type result struct {
	Create, Delete  []string
	Numbers         []int32 // desired, active, completed, succeeded
	Failed          []string
	Ended, IsRemove bool
}

func TestDecide(t *testing.T) {
	list := newList()
	other := newList(func(l *v1beta1.ImageListPullJob) { l.Spec.PullSecrets = []string{"new"} })
	unlabelled := jobOf(list, "a:1")
	unlabelled.Labels = nil
	upstream := jobOf(list, "a:1")
	upstream.Labels[apps.LabelRevision], upstream.Spec.CompletionPolicy.TTLSecondsAfterFinished = "5d9f", new(int32(60))
	twin := jobOf(list, "a:1")
	twin.Name, twin.CreationTimestamp = "twin", metav1.NewTime(noon)
	leaving := jobOf(list, "a:1")
	leaving.DeletionTimestamp = new(metav1.NewTime(noon))
	for _, tc := range []struct {
		name string
		list *v1beta1.ImageListPullJob
		jobs []*v1beta1.ImagePullJob
		want result
	}{
		{"IP-40 a job for each image", list, nil, result{Create: []string{"b:1", "a:1"}, Numbers: []int32{2, 0, 0, 0}}},
		{"IP-40 a job is missing", list, []*v1beta1.ImagePullJob{jobOf(list, "a:1")}, result{Create: []string{"b:1"}, Numbers: []int32{2, 0, 0, 0}}},
		{"IP-40 a job that goes", list, []*v1beta1.ImagePullJob{leaving, jobOf(list, "b:1")}, result{Create: []string{"a:1"}, Numbers: []int32{2, 0, 0, 0}}},
		{"IP-41 another spec", other, []*v1beta1.ImagePullJob{jobOf(list, "a:1"), jobOf(other, "b:1")}, result{Create: []string{"a:1"}, Delete: []string{"a:1"}, Numbers: []int32{2, 0, 0, 0}}},
		{"IP-41 no label", list, []*v1beta1.ImagePullJob{unlabelled, jobOf(list, "b:1")}, result{Numbers: []int32{2, 0, 0, 0}}},
		{"IP-41 a job of OpenKruise", list, []*v1beta1.ImagePullJob{upstream, jobOf(list, "b:1")}, result{Numbers: []int32{2, 0, 0, 0}}},
		{"IP-42 an image that is not listed", list, []*v1beta1.ImagePullJob{jobOf(list, "a:1"), jobOf(list, "b:1"), jobOf(list, "c:1")}, result{Delete: []string{"c:1"}, Numbers: []int32{2, 0, 0, 0}}},
		{"IP-40 two jobs for an image", list, []*v1beta1.ImagePullJob{twin, jobOf(list, "a:1"), jobOf(list, "b:1")}, result{Delete: []string{"a:1"}, Numbers: []int32{2, 0, 0, 0}}},
		{"IP-43 numbers", list, []*v1beta1.ImagePullJob{jobOf(list, "a:1", 3, 2, 0, 1), jobOf(list, "b:1", 3, 0, 3, 0)}, result{
			Numbers: []int32{2, 1, 1, 1}, Failed: []string{"a:1: failed on 1 of 3 Nodes: n1; n1: PullFailed: no such image"},
		}},
		{"IP-44 complete, IP-70 sorted, with the cause", list, []*v1beta1.ImagePullJob{jobOf(list, "b:1", 2, 0, 1, 1), jobOf(list, "a:1", 2, 0, 1, 1)}, result{
			Numbers: []int32{2, 0, 2, 0}, Ended: true,
			Failed: []string{"a:1: failed on 1 of 2 Nodes: n1; n1: PullFailed: no such image", "b:1: failed on 1 of 2 Nodes: n1; n1: PullFailed: no such image"},
		}},
		{"IP-44 never complete", newList(func(l *v1beta1.ImageListPullJob) { l.Spec.CompletionPolicy.Type = v1beta1.Never }), []*v1beta1.ImagePullJob{
			jobOf(newList(func(l *v1beta1.ImageListPullJob) { l.Spec.CompletionPolicy.Type = v1beta1.Never }), "a:1", 1, 0, 1, 0),
			jobOf(newList(func(l *v1beta1.ImageListPullJob) { l.Spec.CompletionPolicy.Type = v1beta1.Never }), "b:1", 1, 0, 1, 0),
		}, result{Numbers: []int32{2, 0, 2, 2}}},
		{"IP-44 after the end", newList(func(l *v1beta1.ImageListPullJob) {
			l.Status.CompletionTime, l.Status.Desired = new(metav1.NewTime(noon)), 2
		}), nil, result{Numbers: []int32{2, 0, 0, 0}, Ended: true}},
		{"IP-44 the TTL", newList(func(l *v1beta1.ImageListPullJob) {
			l.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
			l.Status.CompletionTime, l.Status.Desired = new(metav1.NewTime(noon.Add(-time.Minute))), 2
		}), nil, result{Numbers: []int32{2, 0, 0, 0}, Ended: true, IsRemove: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(&observation{List: tc.list, Settings: settingsOf(tc.list), Jobs: tc.jobs, Now: noon})
			s := &d.Status
			got := result{Create: d.Create, Numbers: []int32{s.Desired, s.Active, s.Completed, s.Succeeded}, Ended: s.CompletionTime != nil, IsRemove: d.Step.Remove}
			for _, job := range d.Delete {
				got.Delete = append(got.Delete, job.Spec.Image)
			}
			for _, failed := range s.FailedImageStatuses {
				got.Failed = append(got.Failed, failed.Name+": "+failed.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewJob(t *testing.T) {
	list := newList(func(l *v1beta1.ImageListPullJob) { l.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(5)) })
	one, again, other := jobOf(list, "a:1"), jobOf(list, "a:1"), jobOf(list, "b:1")
	if one.Name != again.Name || one.Name == other.Name || one.Spec.CompletionPolicy.TTLSecondsAfterFinished != nil || one.Spec.ImagePullPolicy != "IfNotPresent" {
		t.Errorf("IP-40, 3.9: %+v", one)
	}
	if !metav1.IsControlledBy(one, list) || len(one.Labels[apps.LabelRevision]) == 0 {
		t.Errorf("IP-40: %+v", one.ObjectMeta)
	}
}

func TestAdmission(t *testing.T) {
	options := admission.Options{Gates: map[apps.Gate]bool{apps.GateImagePullJob: true}}
	server := admissiontest.Server(admission.Handlers(options, endpoint(options)))
	good := admissiontest.Load(t, "testdata/small.yaml", "v1beta1")
	many := make([]any, 256)
	for i := range many {
		many[i] = "a:" + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	for _, c := range []struct {
		name  string
		path  string
		value any
		want  int32
	}{
		{"3.2 valid", "/spec/images", []any{"a:1", "b:1"}, 0},
		{"3.2 no images", "/spec/images", []any{}, 422},
		{"3.2 an image twice", "/spec/images", []any{"a:1", "a:1"}, 422},
		{"3.2 no valid image", "/spec/images", []any{"A:1"}, 422},
		{"3.2 255 images", "/spec/images", many[:255], 0},
		{"3.2 256 images", "/spec/images", many, 422},
		{"3.2 a percentage", "/spec/parallelism", "5%", 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := admissiontest.Answered(server.Validate(t, admissiontest.Edit(t, good, c.path, c.value), nil)); got.Code != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
	closed := admissiontest.Server(admission.Handlers(admission.Options{}, endpoint(admission.Options{})))
	if answer := admissiontest.Answered(closed.Validate(t, good, nil)); answer.Code != 403 {
		t.Errorf("0.2 the gate is off: %+v", answer)
	}
}

// FuzzFaults: for any spec, the controller and admission find the same invalid values.
func FuzzFaults(f *testing.F) {
	faulttest.Fuzz(f, faulttest.Sides[*v1beta1.ImageListPullJob]{
		Object: func(spec []byte) (objects []*v1beta1.ImageListPullJob, ok bool) {
			obj := &v1beta1.ImageListPullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "warm"}}
			if err := json.Unmarshal(spec, &obj.Spec); err != nil {
				return nil, false
			}
			return []*v1beta1.ImageListPullJob{obj}, len(obj.Spec.Undecodable) == 0
		},
		Resolve: func(obj *v1beta1.ImageListPullJob) (problems, warnings judge.Faults) { return resolve(&obj.Spec) },
		Create:  endpoint(admission.Options{}).ValidateCreate,
	})
}
