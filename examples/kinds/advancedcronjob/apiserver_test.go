package advancedcronjob_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestJobs: the controller creates Jobs from the template, and deletes ended Jobs beyond the history limit. The
// controller learns of the end of each Job at once.
func TestJobs(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.run("AdvancedCronJob")
	obj := c.create("jobs", func(s *v1beta1.AdvancedCronJobSpec) {
		s.Template.JobTemplate, s.SuccessfulJobsHistoryLimit = jobTemplate(true), new(int32(1))
	})
	c.eventually(obj, func(context.Context) error {
		if at := obj.Status.LastScheduleTime; at == nil || at.Sub(obj.CreationTimestamp.Time) < 4*time.Second {
			return fmt.Errorf("last started at %v, created at %v", at, obj.CreationTimestamp)
		}
		return nil
	})
	c.change(obj, func(s *v1beta1.AdvancedCronJobSpec) { s.Paused = new(true) })
	var job batchv1.Job
	c.eventually(obj, func(ctx context.Context) error {
		jobs, err := c.jobs(ctx)
		if err != nil || len(jobs) != 1 || len(obj.Status.Active) > 0 {
			return fmt.Errorf("%d Jobs, %d active, %w", len(jobs), len(obj.Status.Active), err)
		}
		job = jobs[0]
		return nil
	})
	run, _ := advancedcronjob.Read(&job)
	at, err := time.Parse(time.RFC3339, job.Annotations[apps.AnnotationScheduledAt])
	if err != nil || !at.Equal(run.Slot) || !obj.Status.LastScheduleTime.Time.Equal(run.Slot) || obj.Status.Type != "Job" || run.State != advancedcronjob.Succeeded {
		t.Errorf("AC-9, AC-10, AC-15: annotation %v (%v), slot %s, status %+v, %s", at, err, run.Slot, obj.Status, run.State)
	}
	want := []metav1.OwnerReference{*metav1.NewControllerRef(obj, v1beta1.GroupVersion.WithKind("AdvancedCronJob"))}
	if diff := cmp.Diff(want, job.OwnerReferences); diff != "" || job.Labels["team"] != "a" || job.Annotations["note"] != "b" {
		t.Errorf("AC-15: labels %v, annotations %v, owner (-want +got):\n%s", job.Labels, job.Annotations, diff)
	}
}

// TestForbid: a run begins only after Kubernetes' Job controller has reported the end of the previous run.
func TestForbid(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.run("AdvancedCronJob")
	obj := c.create("forbid", func(s *v1beta1.AdvancedCronJobSpec) {
		s.Template.JobTemplate, s.FailedJobsHistoryLimit, s.ConcurrencyPolicy = jobTemplate(false), new(int32(5)), v1beta1.ForbidConcurrent
	})
	c.eventually(obj, func(ctx context.Context) error {
		jobs, err := c.jobs(ctx)
		if err != nil {
			return err
		}
		active, failed := 0, 0
		for i := range jobs {
			switch run, _ := advancedcronjob.Read(&jobs[i]); run.State {
			case advancedcronjob.Active:
				active++
			case advancedcronjob.Failed:
				failed++
			}
		}
		if active > 1 {
			t.Fatalf("AC-14: %d Jobs are active", active)
		}
		if failed < 2 {
			return fmt.Errorf("%d Jobs have ended", failed)
		}
		return nil
	})
}

// TestReplace: the previous run and its Pods are deleted before the next run is started.
func TestReplace(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.run("AdvancedCronJob")
	since := controllertest.End(t, c.cp.AuditLog())
	obj := c.create("replace", func(s *v1beta1.AdvancedCronJobSpec) {
		s.Template.JobTemplate, s.ConcurrencyPolicy = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods()}}, v1beta1.ReplaceConcurrent
	})
	c.eventually(obj, func(context.Context) error {
		if at := obj.Status.LastScheduleTime; at == nil || at.Sub(obj.CreationTimestamp.Time) < 3*time.Second {
			return fmt.Errorf("last started at %v", at)
		}
		return nil
	})
	c.change(obj, func(s *v1beta1.AdvancedCronJobSpec) { s.Paused = new(true) })
	c.eventually(obj, func(ctx context.Context) error {
		jobs, err := c.jobs(ctx)
		if err != nil || len(jobs) != 1 || len(obj.Status.Active) != 1 {
			return fmt.Errorf("%d Jobs, %w", len(jobs), err)
		}
		return nil
	})
	left := 0
	for _, write := range c.writes(since, "jobs") {
		switch {
		case strings.HasPrefix(write, "create") && strings.HasSuffix(write, " 201"):
			left++
		case strings.HasPrefix(write, "delete") && strings.HasSuffix(write, " 200"):
			left--
		}
		if left > 1 {
			t.Errorf("AC-14: %d are there after %s", left, write)
		}
	}
}

// TestBroadcastJobs: by its schedule, an AdvancedCronJob starts BroadcastJobs, which run on every Node.
func TestBroadcastJobs(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.run("AdvancedCronJob", "BroadcastJob")
	obj := c.create("everywhere", func(s *v1beta1.AdvancedCronJobSpec) {
		s.ConcurrencyPolicy = v1beta1.ForbidConcurrent
		s.Template.BroadcastJobTemplate = &v1beta1.BroadcastJobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}}, Spec: v1beta1.BroadcastJobSpec{Template: pods()},
		}
	})
	c.eventually(obj, func(ctx context.Context) error {
		var jobs v1beta1.BroadcastJobList
		var list corev1.PodList
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return err
		}
		if err := c.List(ctx, &jobs, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		if len(jobs.Items) != 1 || jobs.Items[0].Labels["team"] != "a" || len(list.Items) != len(nodes.Items) {
			return fmt.Errorf("%d BroadcastJobs, %d Pods", len(jobs.Items), len(list.Items))
		}
		if len(obj.Status.Active) != 1 || obj.Status.Active[0].UID != jobs.Items[0].UID || obj.Status.Active[0].APIVersion != "apps.kruise.io/v1beta1" {
			return fmt.Errorf("active %+v", obj.Status.Active)
		}
		return nil
	})
}

// TestChangedSchedule: if a schedule is changed so that a slot lies in the past, no run is started for the slot. If
// the schedule is changed while no controller runs, slots count from the time of the change.
func TestChangedSchedule(t *testing.T) {
	t.Parallel()
	c := idle(t)
	stop := c.run("AdvancedCronJob")
	seen := func(names ...string) (out []*v1beta1.AdvancedCronJob) {
		for _, name := range names {
			obj := c.create(name, func(s *v1beta1.AdvancedCronJobSpec) {
				s.Schedule, s.Template.JobTemplate = "0 0 29 2 *", jobTemplate(true)
			})
			c.eventually(obj, func(context.Context) error {
				if obj.Status.ObservedSchedule == nil {
					return fmt.Errorf("nobody has looked at it")
				}
				return nil
			})
			out = append(out, obj)
		}
		return out
	}
	objects := seen("meanwhile", "over")
	stop()
	slot := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	at := func(s *v1beta1.AdvancedCronJobSpec) {
		s.Schedule, s.TimeZone = fmt.Sprintf("%d %d %d %d *", slot.Minute(), slot.Hour(), slot.Day(), slot.Month()), new("UTC")
	}
	c.change(objects[0], at)
	controlplanetest.Eventually(t, 2*minute, func(context.Context) error {
		if now := time.Now(); !now.After(slot.Add(2 * time.Second)) {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	c.change(objects[1], at)
	c.run("AdvancedCronJob")
	for i, want := range []*metav1.Time{{Time: slot}, nil} {
		c.eventually(objects[i], func(context.Context) error {
			if s := objects[i].Status; s.ObservedSchedule.Since == nil || !s.LastScheduleTime.Equal(want) {
				return fmt.Errorf("want it to be started at %v", want)
			}
			return nil
		})
	}
	jobs, err := c.jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].Name != fmt.Sprintf("meanwhile-%d", slot.Unix()) || objects[1].Status.LastScheduleTime != nil {
		t.Errorf("%d Jobs, %v; %+v", len(jobs), err, objects[1].Status)
	}
}

// restored returns the path of a copy of the objects that OpenKruise 1.9 has left. In the copy, last and the minute
// before last replace the two recorded times.
func restored(t *testing.T, state string, last time.Time) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/openkruise-1.9/" + state + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	for old, at := range map[string]time.Time{"1795252260": last.Add(-time.Minute), "1795252320": last} {
		var seconds int64
		if _, err := fmt.Sscan(old, &seconds); err != nil {
			t.Fatal(err)
		}
		raw = bytes.ReplaceAll(raw, []byte(old), fmt.Append(nil, at.Unix()))
		raw = bytes.ReplaceAll(raw, []byte(time.Unix(seconds, 0).UTC().Format(time.RFC3339)), []byte(at.UTC().Format(time.RFC3339)))
	}
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTakeOver creates the objects that OpenKruise 1.9 has left, starts the controller, and checks that nothing is
// written before the next slot. Then the unfinished runs end, leave the status, and are deleted from the history. The
// next run is started at its time.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"settled", "midway"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			c := idle(t)
			last := time.Now().Truncate(time.Minute).Add(time.Minute)
			controllertest.Restore(t, c, c.namespace, restored(t, state, last))
			obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "tick"}}
			before := c.linked(obj)
			since := controllertest.End(t, c.cp.AuditLog())
			c.run("AdvancedCronJob")
			witness := c.create("witness", func(s *v1beta1.AdvancedCronJobSpec) { s.Template.JobTemplate = jobTemplate(true) })
			c.eventually(witness, func(context.Context) error { // by then any wrong write would have happened
				if witness.Status.LastScheduleTime == nil {
					return fmt.Errorf("nothing is started")
				}
				return nil
			})
			for _, resource := range []string{"broadcastjobs", "advancedcronjobs"} {
				for _, write := range c.writes(since, resource) {
					if strings.Contains(write, "tick") {
						t.Errorf("%s: %s", resource, write)
					}
				}
			}
			if state == "midway" {
				c.goesOn(obj, before, last)
			}
		})
	}
}

// linked sets the UIDs of the created runs in the status of a restored object, and returns the UIDs.
func (c *cluster) linked(obj *v1beta1.AdvancedCronJob) (uids []types.UID) {
	c.t.Helper()
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		c.t.Fatal(err)
	}
	for i := range obj.Status.Active {
		ref := &obj.Status.Active[i]
		job := &v1beta1.BroadcastJob{}
		if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: ref.Name}, job); err != nil {
			c.t.Fatal(err)
		}
		ref.UID, ref.Namespace = job.UID, c.namespace
		uids = append(uids, job.UID)
	}
	if err := c.Status().Update(c.t.Context(), obj); err != nil || len(uids) != 2 {
		c.t.Fatalf("%d active runs, %v", len(uids), err)
	}
	return uids
}

// goesOn ends the unfinished runs, and waits until the next run is started at its time.
func (c *cluster) goesOn(obj *v1beta1.AdvancedCronJob, before []types.UID, last time.Time) {
	c.t.Helper()
	var jobs v1beta1.BroadcastJobList
	if err := c.List(c.t.Context(), &jobs, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		job.Status.Conditions = []v1beta1.JobCondition{{Type: v1beta1.JobComplete, Status: corev1.ConditionTrue}}
		if err := c.Status().Update(c.t.Context(), job); err != nil {
			c.t.Fatal(err)
		}
	}
	c.eventually(obj, func(context.Context) error {
		if len(obj.Status.Active) > 0 || !obj.Status.LastScheduleTime.Time.Equal(last) {
			return fmt.Errorf("want none active, and last at %s", last)
		}
		return nil
	})
	c.change(obj, func(s *v1beta1.AdvancedCronJobSpec) { s.SuccessfulJobsHistoryLimit = new(int32(1)) })
	next := &v1beta1.BroadcastJob{}
	c.eventually(obj, func(ctx context.Context) error {
		name := fmt.Sprintf("tick-%d", last.Add(time.Minute).Unix())
		return c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, next)
	})
	if err := c.List(c.t.Context(), &jobs, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	if len(jobs.Items) != 2 || jobs.Items[0].UID != before[1] {
		c.t.Errorf("%d BroadcastJobs, the first is %s, want %s", len(jobs.Items), jobs.Items[0].Name, before[1])
	}
}
