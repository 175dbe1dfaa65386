package gatewriter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podreadiness/gatewriter"
)

const gate corev1.PodConditionType = "example.com/Ready"

var (
	t0       = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	drain    = podreadiness.Holder{UserAgent: "Lifecycle", Key: "preDeleteHook"}
	resource = schema.GroupResource{Resource: "pods"}
)

// apiServer simulates an API server with a single Pod: it checks preconditions, and applies strategic merge patches
// to the Pod's status.
type apiServer struct {
	client.Client

	mu      sync.Mutex
	pod     *corev1.Pod
	patches int
	reads   int
	// before is called with the lock held before each patch.
	before func(s *apiServer)
	fail   error
}

func newServer() *apiServer {
	return &apiServer{pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1", ResourceVersion: "7"},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: gate, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}}
}

// touch changes the Pod's resourceVersion, as a write by another client does.
func (s *apiServer) touch() {
	version, _ := strconv.Atoi(s.pod.ResourceVersion)
	s.pod = s.pod.DeepCopy()
	s.pod.ResourceVersion = strconv.Itoa(version + 1)
}

func (s *apiServer) SubResource(string) client.SubResourceClient { return subresource{server: s} }

func (s *apiServer) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fail != nil {
		return s.fail
	}
	if s.pod == nil {
		return apierrors.NewNotFound(resource, key.Name)
	}
	s.pod.DeepCopyInto(obj.(*corev1.Pod))
	return nil
}

type subresource struct {
	client.SubResourceClient

	server *apiServer
}

func (r subresource) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	s := r.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches++
	if s.before != nil {
		s.before(s)
	}
	if s.pod == nil {
		return apierrors.NewNotFound(resource, obj.GetName())
	}
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var precondition struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(body, &precondition); err != nil {
		return err
	}
	if v := precondition.Metadata.ResourceVersion; precondition.Metadata.UID != s.pod.UID || v == "" || v != s.pod.ResourceVersion {
		return apierrors.NewConflict(resource, obj.GetName(), errors.New("precondition"))
	}
	old, err := json.Marshal(s.pod)
	if err != nil {
		return err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, body, &corev1.Pod{})
	if err != nil {
		return err
	}
	fresh := &corev1.Pod{}
	if err := json.Unmarshal(merged, fresh); err != nil {
		return err
	}
	s.pod = fresh
	s.touch()
	obj.SetResourceVersion(s.pod.ResourceVersion)
	return nil
}

func (s *apiServer) writer(t *testing.T) *gatewriter.Writer {
	t.Helper()
	w, err := gatewriter.New(s, s, testclock.NewFakePassiveClock(t0))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestNewAsksForWhatItNeeds(t *testing.T) {
	s, clock := newServer(), testclock.NewFakePassiveClock(t0)
	for name, try := range map[string]func() (*gatewriter.Writer, error){
		"no client": func() (*gatewriter.Writer, error) { return gatewriter.New(nil, s, clock) },
		"no reader": func() (*gatewriter.Writer, error) { return gatewriter.New(s, nil, clock) },
		"no clock":  func() (*gatewriter.Writer, error) { return gatewriter.New(s, s, nil) },
	} {
		if w, err := try(); w != nil || err == nil {
			t.Errorf("%s: New = %v, %v", name, w, err)
		}
	}
	for _, w := range []*gatewriter.Writer{nil, {}} {
		if result, err := w.Hold(t.Context(), s.pod, gate, drain); err == nil || result != (podwrite.Result{}) {
			t.Errorf("Hold of a Writer that New did not make = %+v, %v", result, err)
		}
	}
}

// conditions returns the status of each condition, with the gate's message.
func conditions(pod *corev1.Pod) map[corev1.PodConditionType]string {
	out := map[corev1.PodConditionType]string{}
	for _, c := range pod.Status.Conditions {
		out[c.Type] = string(c.Status)
		if c.Message != "" && c.Type == gate {
			out[c.Type] += " " + c.Message
		}
	}
	return out
}

func TestHoldAndRelease(t *testing.T) {
	server := newServer()
	writer := server.writer(t)
	result, err := writer.Hold(t.Context(), server.pod, gate, drain)
	if err != nil || result.ResourceVersion != "8" {
		t.Fatalf("Hold = %+v, %v", result, err)
	}
	want := map[corev1.PodConditionType]string{
		gate: `False [{"userAgent":"Lifecycle","key":"preDeleteHook"}]`, corev1.ContainersReady: "True", corev1.PodReady: "False",
	}
	if diff := cmp.Diff(want, conditions(server.pod)); diff != "" {
		t.Errorf("U-31 Ready in the same write (-want +got):\n%s", diff)
	}
	if result, err := writer.Hold(t.Context(), server.pod, gate, drain); err != nil || result.Sent != 0 {
		t.Errorf("holding again = %+v, %v; want no write", result, err)
	}
	if _, err := writer.Release(t.Context(), server.pod, gate, drain); err != nil {
		t.Fatal(err)
	}
	want[gate] = "True []" // only the kubelet sets Ready to True
	if diff := cmp.Diff(want, conditions(server.pod)); diff != "" {
		t.Errorf("U-31 released (-want +got):\n%s", diff)
	}
	if server.patches != 2 || server.reads != 0 {
		t.Errorf("%d patches and %d reads, want 2 and 0", server.patches, server.reads)
	}
}

func TestConflictIsTriedOnAFreshPod(t *testing.T) {
	server := newServer()
	stale := server.pod
	server.touch()
	server.pod.Status.Conditions[0] = corev1.PodCondition{Type: gate, Status: "False", Message: `[{"userAgent":"Agent","key":"z"}]`}
	if _, err := server.writer(t).Hold(t.Context(), stale, gate, drain); err != nil {
		t.Fatal(err)
	}
	want := `False [{"userAgent":"Agent","key":"z"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
	if got := conditions(server.pod)[gate]; got != want {
		t.Errorf("gate = %s, want %s: another holder was lost", got, want)
	}
	if server.patches != 2 || server.reads != 1 {
		t.Errorf("%d patches and %d reads, want 2 and 1", server.patches, server.reads)
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name    string
		prepare func(*apiServer)
		check   func(error) bool
		patches int
	}{
		{"no gate", func(s *apiServer) { s.pod.Spec.ReadinessGates = nil }, func(err error) bool { return err == nil }, 0},
		{"always a conflict", func(s *apiServer) { s.before = (*apiServer).touch }, apierrors.IsConflict, 5},
		{"the Pod is gone", func(s *apiServer) { s.pod = nil }, func(err error) bool { return errors.Is(err, podwrite.Replaced) }, 1},
		{
			"the Pod goes between patch and read",
			func(s *apiServer) { s.touch(); s.fail = apierrors.NewNotFound(resource, "web-0") },
			func(err error) bool { return errors.Is(err, podwrite.Replaced) }, 1,
		},
		{
			"another Pod has the name", func(s *apiServer) { s.touch(); s.pod.UID = "u2" },
			func(err error) bool { return errors.Is(err, podwrite.Replaced) }, 1,
		},
		{"the read fails", func(s *apiServer) { s.touch(); s.fail = broken }, func(err error) bool { return errors.Is(err, broken) }, 1},
		{
			"the fresh message is unreadable", func(s *apiServer) { s.touch(); s.pod.Status.Conditions[0].Message = "by hand" },
			func(err error) bool { return errors.Is(err, podreadiness.UnreadableMessage) }, 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := newServer()
			cached := server.pod
			tc.prepare(server)
			_, err := server.writer(t).Hold(t.Context(), cached, gate, drain)
			if !tc.check(err) {
				t.Errorf("error = %v", err)
			}
			if server.patches != tc.patches {
				t.Errorf("%d patches, want %d", server.patches, tc.patches)
			}
		})
	}
}

func TestConcurrentHoldersAreAllKept(t *testing.T) {
	server := newServer()
	cached, writer := server.pod, server.writer(t)
	var wg sync.WaitGroup
	for i := range 4 { // fewer than attempts: each conflict means that another holder was added
		wg.Go(func() {
			holder := podreadiness.Holder{UserAgent: "agent", Key: fmt.Sprint(i)}
			if _, err := writer.Hold(t.Context(), cached, gate, holder); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	holders, err := podreadiness.Holders(server.pod, gate)
	if err != nil || len(holders) != 4 {
		t.Errorf("holders = %v, %v; want all 4", holders, err)
	}
}
