package runtimemeta_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/reason"
)

// openKruise is a report written by OpenKruise 1.9.
const openKruise = `{"containers":[{"name":"app","containerID":"containerd://ab12","restartCount":2,` +
	`"hashes":{"plainHash":3272088423,"extractedEnvFromMetadataHash":1181583253}}]}`

func entry(name, id string, restarts int32, plain, env uint64) runtimemeta.Container {
	return runtimemeta.Container{
		Name: name, ContainerID: id, RestartCount: restarts,
		Hashes: runtimemeta.Hashes{PlainHash: plain, ExtractedEnvFromMetadataHash: env},
	}
}

func reportOf(entries ...runtimemeta.Container) runtimemeta.Report {
	return runtimemeta.Report{Containers: entries}
}

// TestReport decodes and encodes the annotation.
func TestReport(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       runtimemeta.Report
		again      string // the encoded report; empty if equal to text
	}{
		{"ND-40 as OpenKruise writes", openKruise, reportOf(entry("app", "containerd://ab12", 2, 3272088423, 1181583253)), ""},
		{"ND-40 the second hash is omitted when 0", `{"containers":[{"name":"app","containerID":"c://1","restartCount":0,"hashes":{"plainHash":5}}]}`, reportOf(entry("app", "c://1", 0, 5, 0)), ""},
		{"ND-40 none", `{"containers":[]}`, runtimemeta.Report{Containers: []runtimemeta.Container{}}, ""},
		{"an empty object", `{}`, runtimemeta.Report{}, `{"containers":[]}`},
		{"unknown keys", `{"containers":[{"name":"app","new":1}],"more":true}`, reportOf(entry("app", "", 0, 0, 0)), `{"containers":[{"name":"app","containerID":"","restartCount":0,"hashes":{"plainHash":0}}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := runtimemeta.Decode(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			want := tc.again
			if want == "" {
				want = tc.text
			}
			if diff := cmp.Diff(want, got.Encode()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostileReports: a Node may write anything. The decoder's error has a code, and contains no text of the
// annotation.
func TestHostileReports(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       reason.Code
	}{
		{"ND-40 no JSON", `hunter2`, runtimemeta.UnreadableReport},
		{"ND-40 empty", ``, runtimemeta.UnreadableReport},
		{"ND-40 a list", `["hunter2"]`, runtimemeta.UnreadableReport},
		{"ND-40 cut off", `{"containers":[{"name":"hunter2"`, runtimemeta.UnreadableReport},
		{"ND-40 a text for a number", `{"containers":[{"restartCount":"hunter2"}]}`, runtimemeta.UnreadableReport},
		{"ND-40 a negative hash", `{"containers":[{"hashes":{"plainHash":-1}}]}`, runtimemeta.UnreadableReport},
		{"ND-40 a large count", `{"containers":[{"restartCount":3000000000}]}`, runtimemeta.UnreadableReport},
		{"ND-40 too long", `{"containers":[` + strings.Repeat(`{},`, 30000) + `{}]}`, runtimemeta.ReportTooLarge},
		{"ND-40 deep", strings.Repeat(`[`, 60000), runtimemeta.UnreadableReport},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := runtimemeta.Decode(tc.text)
			if !errors.Is(err, tc.want) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 300 {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if diff := cmp.Diff(runtimemeta.Report{}, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInstance finds an entry by name and instance.
func TestInstance(t *testing.T) {
	r := reportOf(entry("log", "c://2", 0, 1, 1), entry("app", "c://1", 0, 1, 1), entry("app", "c://3", 0, 2, 2))
	for _, tc := range []struct {
		name, container, id string
		found               bool
	}{
		{"ND-47 by name", "app", "c://1", true},
		{"ND-42 another instance", "app", "c://9", false},
		{"ND-47 another container", "web", "c://1", false},
		{"the first of two", "app", "c://3", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := r.Instance(tc.container, tc.id); (got != nil) != tc.found || got != nil && got != &r.Containers[1] {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestAhead finds instances that the kubelet does not report yet.
func TestAhead(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.NewTime(time.Unix(second, 0)) }
	running := func(second int64) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(second)}}
	}
	ended := func(second int64) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(second)}}
	}
	for _, tc := range []struct {
		name   string
		since  int64
		status corev1.ContainerStatus
		found  bool
	}{
		{"the next instance", 9, corev1.ContainerStatus{Name: "app", ContainerID: "c://0", RestartCount: 1, State: running(3)}, true},
		{"the next instance, in the second of the end", 9, corev1.ContainerStatus{Name: "app", ContainerID: "c://0", RestartCount: 1, State: ended(9)}, true},
		{"an instance without a time", 0, corev1.ContainerStatus{Name: "app", ContainerID: "c://0", RestartCount: 1, State: running(3)}, false},
		{"the reported instance", 9, corev1.ContainerStatus{Name: "app", ContainerID: "c://2", RestartCount: 2, State: running(9)}, false},
		{"a later instance is reported", 9, corev1.ContainerStatus{Name: "app", ContainerID: "c://3", RestartCount: 3, State: running(12)}, false},
		{"as many restarts", 9, corev1.ContainerStatus{Name: "app", ContainerID: "c://3", RestartCount: 2, State: running(3)}, false},
		{"the runtime has lost its containers", 9, corev1.ContainerStatus{Name: "app", ContainerID: "c://3", RestartCount: 0, State: running(12)}, false},
		{"and the container waits", 9, corev1.ContainerStatus{Name: "app", RestartCount: 0, LastTerminationState: ended(12)}, false},
		{"another container", 9, corev1.ContainerStatus{Name: "web", ContainerID: "c://0", RestartCount: 1, State: running(3)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := entry("app", "c://2", 2, 1, 1)
			c.CreatedAt = tc.since
			if got := reportOf(entry("log", "c://9", 9, 1, 1), c).Ahead(&tc.status); (got != nil) != tc.found || got != nil && got.ContainerID != "c://2" {
				t.Errorf("got %+v", got)
			}
		})
	}
}
