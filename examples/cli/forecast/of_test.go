package forecast_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/reason"
)

func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// pod returns a Pod of web at a revision. The UID is the name, unless a UID is given.
func pod(name, revision string, uid ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"controller-revision-hash": revision},
		OwnerReferences: []metav1.OwnerReference{{Kind: "CloneSet", Name: "web", UID: "web", Controller: new(true)}},
	}}
	if len(uid) > 0 {
		p.UID = types.UID(uid[0])
	}
	p.Spec.NodeName = "node-of-" + name
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: revision}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "containerd://" + name + revision}}
	return p
}

// object returns a workload with an update policy, and with a status in which all Pods are updated.
func object(kind, policy string, pods int64) map[string]any {
	strategy := map[string]any{"podUpdatePolicy": policy, "rollingUpdateType": policy}
	return map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": "web", "generation": int64(1)},
		"spec": map[string]any{"replicas": pods, "updateStrategy": map[string]any{"rollingUpdate": strategy}},
		"status": map[string]any{
			"observedGeneration": int64(1), "updateRevision": "web-2", "replicas": pods, "updatedReplicas": pods, "updatedReadyReplicas": pods, "readyReplicas": pods,
		},
	}
}

func write(after time.Duration, verb, name string) forecast.Write {
	return forecast.Write{At: began().Add(after), Controller: "cloneset", Object: "web", Verb: verb, Resource: "pods", Namespace: "shop", Name: name, UID: types.UID(name), Takes: verb == "patch"}
}

// input returns the input for a rollout of a workload.
func input(kind, policy string, before, after []*corev1.Pod, writes ...forecast.Write) *forecast.Input {
	revision := func(name string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &forecast.Input{
		Kind: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: kind}, Name: "web", Began: began(), Ended: began().Add(time.Hour),
		Before: forecast.Snapshot{Object: object(kind, policy, int64(len(before))), UID: "web", Pods: before, Revisions: []*appsv1.ControllerRevision{revision("web-1")}},
		After:  forecast.Snapshot{Object: object(kind, policy, int64(len(after))), UID: "web", Pods: after, Revisions: []*appsv1.ControllerRevision{revision("web-1"), revision("web-2")}},
		Writes: writes,
		Blocking: func(from, to *appsv1.ControllerRevision) reason.List {
			return reason.List{{Code: "ImmutableField", Path: "spec.env", Old: from.Name, New: to.Name}}
		},
	}
}

func TestOf(t *testing.T) {
	type pods = []*corev1.Pod
	blocked := []forecast.Reason{{Code: "ImmutableField", Path: "spec.env", Old: "web-1", New: "web-2"}}
	tests := []struct {
		name string
		in   *forecast.Input
		want []forecast.Pod
		// batches are the numbers of Pods in each batch.
		batches []int
	}{
		{"nothing happens", input("CloneSet", "InPlaceIfPossible", pods{pod("a", "1")}, pods{pod("a", "1")}), []forecast.Pod{
			{Name: "a", UID: "a", Action: forecast.Keep},
		}, nil},
		{
			"in place, in two batches, whatever the order of names",
			input("CloneSet", "InPlaceIfPossible", pods{pod("a", "1"), pod("b", "1"), pod("c", "1")}, pods{pod("a", "2"), pod("b", "2"), pod("c", "1")},
				write(0, "patch", "b"), write(time.Minute, "patch", "a"), write(2*time.Minute, "patch", "b")),
			[]forecast.Pod{
				{Name: "b", UID: "b", Action: forecast.InPlace, Batch: 1, Restarts: []string{"app"}},
				{Name: "a", UID: "a", Action: forecast.InPlace, Batch: 2, Restarts: []string{"app"}},
				{Name: "c", UID: "c", Action: forecast.Keep},
			},
			[]int{1, 1},
		},
		{
			"recreated for a field",
			input("CloneSet", "InPlaceIfPossible", pods{pod("a", "1")}, pods{pod("x", "2")}, write(0, "delete", "a"), write(0, "create", "x")),
			[]forecast.Pod{{Name: "a", UID: "a", Action: forecast.Recreate, Batch: 1, Reasons: blocked}},
			[]int{1},
		},
		{
			"recreated because the policy asks for it",
			input("CloneSet", "ReCreate", pods{pod("a", "1")}, pods{pod("x", "2")}, write(0, "delete", "a")),
			[]forecast.Pod{{Name: "a", UID: "a", Action: forecast.Recreate, Batch: 1, Reasons: []forecast.Reason{
				{Code: "RecreateAsked", Path: "spec.updateStrategy.rollingUpdate.podUpdatePolicy", New: "ReCreate"},
			}}},
			[]int{1},
		},
		{
			"a CloneSet shrinks first: the Pod deleted later has the successor",
			input("CloneSet", "InPlaceIfPossible", pods{pod("a", "1"), pod("b", "1")}, pods{pod("x", "2")}, write(0, "delete", "b"), write(time.Minute, "delete", "a"), write(time.Minute, "create", "x")),
			[]forecast.Pod{{Name: "b", UID: "b", Action: forecast.Delete, Batch: 1}, {Name: "a", UID: "a", Action: forecast.Recreate, Batch: 2, Reasons: blocked}},
			[]int{1, 1},
		},
		{
			"a StatefulSet: the successor has the same name",
			input("StatefulSet", "InPlaceIfPossible", pods{pod("web-0", "web-1"), pod("web-1", "web-1")}, pods{pod("web-0", "web-2", "new")}, write(0, "delete", "web-1"), write(time.Minute, "delete", "web-0")),
			[]forecast.Pod{{Name: "web-1", UID: "web-1", Action: forecast.Delete, Batch: 1}, {Name: "web-0", UID: "web-0", Action: forecast.Recreate, Batch: 2, Reasons: blocked}},
			[]int{1, 1},
		},
		{
			"a new Pod beside the others",
			input("CloneSet", "InPlaceIfPossible", pods{pod("a", "1")}, pods{pod("a", "1"), pod("x", "1")}, write(0, "create", "x")),
			[]forecast.Pod{{Name: "x", UID: "x", Action: forecast.Create, Batch: 1}, {Name: "a", UID: "a", Action: forecast.Keep}},
			[]int{1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := forecast.Of(tt.in)
			if diff := cmp.Diff(tt.want, r.Pods, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Pods (-want +got):\n%s", diff)
			}
			var batches []int
			for _, b := range r.Batches {
				batches = append(batches, len(b.Pods))
			}
			if diff := cmp.Diff(tt.batches, batches); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
			if len(r.Stops) > 0 {
				t.Errorf("stops for %v", r.Stops)
			}
		})
	}
}

func claim(name, size string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return c
}

func TestClaims(t *testing.T) {
	in := input("CloneSet", "InPlaceIfPossible", nil, nil)
	own := func(name, size string) *corev1.PersistentVolumeClaim {
		c := claim(name, size)
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "CloneSet", Name: "web", UID: "web"}}
		return c
	}
	in.Before.Claims = []*corev1.PersistentVolumeClaim{own("a", "1Gi"), own("b", "1Gi"), own("c", "1Gi"), claim("foreign", "1Gi")}
	in.After.Claims = []*corev1.PersistentVolumeClaim{own("a", "1Gi"), own("b", "2Gi"), own("d", "1Gi"), claim("data-other-0", "1Gi")}
	want := []forecast.Claim{{Name: "d", Action: "create", Detail: "1Gi"}, {Name: "c", Action: "delete"}, {Name: "b", Action: "grow", Detail: "1Gi to 2Gi"}}
	if diff := cmp.Diff(want, forecast.Of(in).Claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestClaimsOfStatefulSets: claims of a StatefulSet have no owner, but a name, and Pods use claims of other names.
func TestClaimsOfStatefulSets(t *testing.T) {
	uses := pod("web-0", "1")
	uses.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}}}}
	in := input("StatefulSet", "InPlaceIfPossible", []*corev1.Pod{uses}, []*corev1.Pod{uses})
	in.After.Object["spec"].(map[string]any)["volumeClaimTemplates"] = []any{map[string]any{"metadata": map[string]any{"name": "data"}}}
	in.Before.Claims = []*corev1.PersistentVolumeClaim{claim("data-web-0", "1Gi"), claim("shared", "1Gi"), claim("data-other-0", "1Gi")}
	in.After.Claims = []*corev1.PersistentVolumeClaim{claim("data-web-0", "2Gi"), claim("shared", "3Gi"), claim("data-other-0", "2Gi"), claim("data-my-web-0", "1Gi"), claim("data-web-1", "1Gi")}
	want := []forecast.Claim{{Name: "data-web-1", Action: "create", Detail: "1Gi"}, {Name: "shared", Action: "grow", Detail: "1Gi to 3Gi"}, {Name: "data-web-0", Action: "grow", Detail: "1Gi to 2Gi"}}
	if diff := cmp.Diff(want, forecast.Of(in).Claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestTakes: the writes for other workloads do not make the rollout longer.
func TestTakes(t *testing.T) {
	in := input("CloneSet", "InPlaceIfPossible", []*corev1.Pod{pod("a", "1")}, []*corev1.Pod{pod("a", "2")}, write(0, "patch", "a"), write(time.Hour, "patch", "foreign"))
	in.Times.Restart = new(time.Second)
	in.Writes = append(in.Writes, forecast.Write{At: began().Add(7 * time.Second), Verb: "patch", Resource: "clonesets", Namespace: "shop", Name: "web", UID: "web"})
	if got := forecast.Of(in).Takes; got != "7s" {
		t.Errorf("takes %q, want the time until the last write of the status", got)
	}
}

func TestStops(t *testing.T) {
	in := input("CloneSet", "InPlaceIfPossible", []*corev1.Pod{pod("a", "1")}, []*corev1.Pod{pod("a", "1")})
	in.Endless = true
	if got := forecast.Of(in).Stops; len(got) != 1 || got[0].Code != string(forecast.Endless) {
		t.Errorf("endless work stops for %v", got)
	}
	in.Endless = false
	in.After.Object["status"].(map[string]any)["updatedReplicas"] = int64(0)
	in.Failures = map[string]string{"cloneset shop/web": "something is wrong", "cloneset shop/other": "elsewhere"}
	var codes []string
	for _, s := range forecast.Of(in).Stops {
		codes = append(codes, s.Code)
		if s.Detail == "elsewhere" {
			t.Error("the error of another object is a stop")
		}
	}
	if len(codes) < 2 || codes[len(codes)-1] != string(forecast.ReconcileFails) {
		t.Errorf("stops for %v", codes)
	}
}

func TestMeasure(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(began().Add(d)) }
	// ready returns a Pod that became ready after the given time. ended is when the last container instance ended; 0
	// for none. Both times count from the creation of the Pod.
	ready := func(after, ended time.Duration) *corev1.Pod {
		p := pod("a", "1")
		p.CreationTimestamp, p.Status.Phase = at(0), corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(after)}}
		if ended > 0 {
			p.Status.ContainerStatuses[0].RestartCount = 1
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: at(ended)}
		}
		return p
	}
	tests := []struct {
		name            string
		pods            []*corev1.Pod
		restart, create time.Duration // negative means unknown
	}{
		{"no Pods", nil, -1, -1},
		{"an unready Pod tells nothing", []*corev1.Pod{pod("a", "1")}, -1, -1},
		{"the median of creations", []*corev1.Pod{ready(3*time.Second, 0), ready(5*time.Second, 0), ready(time.Hour, 0)}, -1, 5 * time.Second},
		{"a restart", []*corev1.Pod{ready(time.Hour+7*time.Second, time.Hour)}, 7 * time.Second, -1},
		{"a restart after which the Pod stayed ready tells nothing", []*corev1.Pod{ready(time.Minute, time.Hour)}, -1, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := forecast.Measure(tt.pods)
			for name, pair := range map[string]struct {
				got  *time.Duration
				want time.Duration
			}{"restart": {got.Restart, tt.restart}, "creation": {got.Create, tt.create}} {
				if (pair.got == nil) != (pair.want < 0) || pair.got != nil && *pair.got != pair.want {
					t.Errorf("%s: %v, want %v", name, pair.got, pair.want)
				}
			}
		})
	}
}
