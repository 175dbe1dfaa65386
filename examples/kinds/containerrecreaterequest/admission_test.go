package containerrecreaterequest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for ContainerRecreateRequests.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, containerrecreaterequest.Row().Admission(options)))
}

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

// podAndNode is a reader that finds a single Pod and a single Node.
type podAndNode struct {
	client.Reader

	pod  *corev1.Pod
	node *metav1.PartialObjectMetadata
	err  error
}

func (r podAndNode) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch into := obj.(type) {
	case *corev1.Pod:
		if r.err != nil {
			return r.err
		}
		if r.pod != nil && key == (client.ObjectKey{Namespace: "default", Name: r.pod.Name}) {
			r.pod.DeepCopyInto(into)
			return nil
		}
	case *metav1.PartialObjectMetadata:
		if r.node != nil && into.Kind == "Node" && key == (client.ObjectKey{Name: r.node.Name}) {
			r.node.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "any"}, key.Name)
}

func runningPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", TerminationGracePeriodSeconds: new(int64(7)), Containers: []corev1.Container{{
				Name: "app", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 2}}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", ContainerID: "containerd://a", RestartCount: 1}}},
	}
}

func virtualNode() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"type": "virtual-kubelet", "zone": "a"}}}
}

// TestAdmitContainerRecreateRequest checks the webhook's reads of the Pod and the Node, and the webhook's responses.
// Other tests check the functions for validation and defaults.
func TestAdmitContainerRecreateRequest(t *testing.T) {
	there := admission.Options{Reader: podAndNode{pod: runningPod(), node: virtualNode()}}
	withReader := func(r client.Reader) admission.Options { return admission.Options{Reader: r} }
	labels := tree{
		"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": "node-1", "crr.apps.kruise.io/pod-uid": "u1", "type": "virtual-kubelet",
	}
	completed := map[string]any{
		"/metadata/labels": labels, "/spec/strategy": tree{"failurePolicy": "Fail", "terminationGracePeriodSeconds": 7.0},
		"/spec/containers/0/preStop":       tree{"sleep": tree{"seconds": 2.0}},
		"/spec/containers/0/statusContext": tree{"containerID": "containerd://a", "restartCount": 1.0},
	}
	for _, tc := range []struct {
		name    string
		options admission.Options
		more    string
		want    map[string]any
		refused admissiontest.Answer
	}{
		{name: "CR-3 all is copied", options: there, want: completed},
		{name: "CR-3 without a reader nothing is", want: map[string]any{"/spec/strategy": tree{"failurePolicy": "Fail"}}},
		{name: "CR-2 what is wrong with the request", more: "  activeDeadlineSeconds: 1", options: there, refused: admissiontest.Invalid(
			"spec.activeDeadlineSeconds: FieldValueInvalid: Invalid value: 1: must be at least 3")},
		{name: "CR-2 no Pod", options: withReader(podAndNode{}), refused: admissiontest.Invalid(`spec.podName: FieldValueNotFound: Not found: "web-0"`)},
		{name: "CR-2 no Node", options: withReader(podAndNode{pod: runningPod()}), refused: admissiontest.Invalid(
			`spec.podName: FieldValueInvalid: Invalid value: "web-0": the Pod's Node node-1 does not exist`)},
		{
			name: "CR-2 a Pod that cannot be read", options: withReader(podAndNode{err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))}),
			refused: admissiontest.Answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
				": : looking up Pod default/web-0: forbidden: no right",
			}},
		},
		{
			name: "CR-1 no agents", options: admission.Options{Gates: map[apps.Gate]bool{apps.GateKruiseDaemon: false}, Reader: there.Reader},
			refused: admissiontest.Answer{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden},
		},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(tc.name+" "+version, func(t *testing.T) {
				object := small(t, version, tc.more)
				response := served(tc.options).Mutate(t, object, nil)
				if got := admissiontest.Answered(response); got.Code != 0 || tc.refused.Code != 0 {
					if diff := cmp.Diff(tc.refused, got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					return
				}
				_, changes := admissiontest.Patch(t, object, response)
				if diff := cmp.Diff(tc.want, changes); diff != "" {
					t.Errorf("patch (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestAdmitContainerRecreateRequestNames(t *testing.T) {
	for _, name := range []string{"../pods/web-0", "Web", "a b"} {
		object := admissiontest.Edit(t, small(t, "v1beta1"), "/spec/podName", name)
		options := admission.Options{Reader: podAndNode{err: errors.New("a name that no Pod can have was looked up")}}
		got := admissiontest.Answered(served(options).Mutate(t, object, nil))
		if diff := cmp.Diff(admissiontest.Invalid(`spec.podName: FieldValueNotFound: Not found: "`+name+`"`), got); diff != "" {
			t.Errorf("CR-2 (-want +got):\n%s", diff)
		}
	}
}

func TestUpdateContainerRecreateRequest(t *testing.T) {
	const unready = "/metadata/annotations/crr.apps.kruise.io~1unready-acquired"
	stored := func(version string) tree {
		object := admissiontest.Edit(t, small(t, version), "/metadata/labels", tree{apps.LabelRequestPodUID: "u1", apps.LabelRequestNodeName: "node-1"})
		return admissiontest.Edit(t, object, "/metadata/annotations", tree{apps.AnnotationRequestUnreadyAcquired: "2026-03-01T02:00:03Z"})
	}
	off := admission.Options{Gates: map[apps.Gate]bool{apps.GateKruiseDaemon: false}}
	for _, tc := range []struct {
		name, version, path string
		value               any
		options             admission.Options
		want                admissiontest.Answer
	}{
		{name: "CR-4 other labels", version: "v1beta1", path: "/metadata/labels/a", value: "b"},
		{name: "CR-4 other labels, and no agents", version: "v1beta1", path: "/metadata/labels/a", value: "b", options: off},
		{name: "CR-4 the spec", version: "v1beta1", path: "/spec/podName", value: "web-1", want: admissiontest.Invalid(
			"spec: FieldValueForbidden: Forbidden: cannot change; delete the request and make another")},
		{name: "CR-4 the spec in v1alpha1", version: "v1alpha1", path: "/spec/podName", value: "web-1", want: admissiontest.Invalid(
			"spec: FieldValueForbidden: Forbidden: cannot change; delete the request and make another")},
		{name: "CR-4 the Pod's UID", version: "v1alpha1", path: "/metadata/labels/crr.apps.kruise.io~1pod-uid", value: "u2", want: admissiontest.Invalid(
			`metadata.labels[crr.apps.kruise.io/pod-uid]: FieldValueInvalid: Invalid value: "u2": cannot change, is "u1"`)},
		{name: "CR-4 the annotation in v1alpha1", version: "v1alpha1", path: unready, value: "2026-03-01T02:00:04Z", want: admissiontest.Invalid(
			"metadata.annotations[crr.apps.kruise.io/unready-acquired]: FieldValueInvalid: Invalid value: " +
				`"2026-03-01T02:00:04Z": cannot change, is "2026-03-01T02:00:03Z"`)},
		{name: "CR-4 the annotation in v1beta1, where it means nothing", version: "v1beta1", path: unready, value: "2026-03-01T02:00:04Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := stored(tc.version)
			object := admissiontest.Edit(t, old, tc.path, tc.value)
			response := served(tc.options).Mutate(t, object, old)
			if diff := cmp.Diff(tc.want, admissiontest.Answered(response)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if response.Patch != nil {
				t.Errorf("patched: %s", response.Patch)
			}
		})
	}
}

// TestContainerRecreateRequestsAreJudgedOnce: as in OpenKruise, the server serves only a mutating webhook for the
// kind, and no path for validation.
func TestContainerRecreateRequestsAreJudgedOnce(t *testing.T) {
	want := []string{"/mutate-apps-kruise-io-containerrecreaterequest"}
	if diff := cmp.Diff(want, admission.Paths(containerrecreaterequest.Row().Admission(admission.Options{}))); diff != "" {
		t.Errorf("6.5 paths (-want +got):\n%s", diff)
	}
	object := admissiontest.Edit(t, small(t, "v1beta1"), "/spec/podName", 5.0)
	if got := admissiontest.Answered(served(admission.Options{}).Mutate(t, object, nil)); got.Code != http.StatusUnprocessableEntity {
		t.Errorf("a name that is a number: %+v", got)
	}
	finalized := admissiontest.Edit(t, object, "/metadata/finalizers", []any{"a.test/b"})
	if got := admissiontest.Answered(served(admission.Options{}).Mutate(t, object, finalized)); got.Code != 0 {
		t.Errorf("a finalizer cannot go from what makes no sense: %+v", got)
	}
}
