package containerrecreaterequest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func texts(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestValidateCreate(t *testing.T) {
	type object = v1beta1.ContainerRecreateRequest
	for _, tc := range []struct {
		name string
		edit func(*object)
		want []string
	}{
		{"CR-2 valid", func(*object) {}, nil},
		{"CR-2 no Pod", func(obj *object) { obj.Spec.PodName = "" }, []string{"spec.podName: Required value: name a Pod of this namespace"}},
		{"CR-2 no containers", func(obj *object) { obj.Spec.Containers = nil }, []string{"spec.containers: Required value: name at least one container of the Pod"}},
		{"CR-2 a container twice", func(obj *object) { *obj = *request("app", "log", "app") }, []string{`spec.containers[2].name: Duplicate value: "app"`}},
		{"CR-2 a deadline of 3", func(obj *object) { obj.Spec.ActiveDeadlineSeconds = new(int64(3)) }, nil},
		{"CR-2 a deadline of 2", func(obj *object) { obj.Spec.ActiveDeadlineSeconds = new(int64(2)) }, []string{
			"spec.activeDeadlineSeconds: Invalid value: 2: must be at least 3",
		}},
		{"CR-2 graces below 0", func(obj *object) {
			obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: new(int64(-1)), UnreadyGracePeriodSeconds: new(int64(-2))}
		}, []string{
			"spec.strategy.terminationGracePeriodSeconds: Invalid value: -1: must be at least 0",
			"spec.strategy.unreadyGracePeriodSeconds: Invalid value: -2: must be at least 0",
		}},
		{"4.1 what v1beta1 does not take, and v1alpha1 does", func(obj *object) {
			obj.Spec.TTLSecondsAfterFinished = new(int32(-1))
			obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{MinStartedSeconds: -1}
		}, []string{
			"spec.ttlSecondsAfterFinished: Invalid value: -1: must be at least 0",
			"spec.strategy.minStartedSeconds: Invalid value: -1: must be at least 0",
		}},
		{"CR-2 an unknown policy", func(obj *object) {
			obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{FailurePolicy: "Retry"}
		}, []string{`spec.strategy.failurePolicy: Unsupported value: "Retry": supported values: "Fail", "Ignore"`}},
		{"CR-2 what is copied from the Pod", func(obj *object) {
			obj.Spec.Containers[0] = v1beta1.ContainerRecreateRequestContainer{
				Name: "app", PreStop: &corev1.LifecycleHandler{}, Ports: []corev1.ContainerPort{{}},
				StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{},
			}
		}, []string{
			"spec.containers[0].preStop: Forbidden: is copied from the Pod; leave it out",
			"spec.containers[0].ports: Forbidden: is copied from the Pod; leave it out",
			"spec.containers[0].statusContext: Forbidden: is copied from the Pod; leave it out",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := request("app")
			tc.edit(obj)
			if diff := cmp.Diff(tc.want, texts(validateCreate(obj))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidatePod(t *testing.T) {
	ended := func(phase corev1.PodPhase, conditions ...corev1.PodCondition) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Conditions = phase, conditions }
	}
	long := strings.Repeat("n", 64)
	for _, tc := range []struct {
		name       string
		containers []string
		edit       func(*corev1.Pod)
		want       []string
	}{
		{"CR-2 a Pod that runs", []string{"app", "log"}, func(*corev1.Pod) {}, nil},
		{"CR-2 no Pod", []string{"app"}, nil, []string{`spec.podName: Not found: "web-0"`}},
		{"CR-2 a Pod that goes", []string{"app"}, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Unix(1, 0)) }, []string{
			`spec.podName: Invalid value: "web-0": the Pod is being deleted; name one that runs`,
		}},
		{"CR-2 a Pod that has ended", []string{"app"}, ended(corev1.PodSucceeded), []string{
			`spec.podName: Invalid value: "web-0": the Pod has ended with phase Succeeded; name one that runs`,
		}},
		{"CR-2 a Pod whose sidecars are to be stopped", []string{"log"}, ended(corev1.PodFailed, corev1.PodCondition{Type: "SidecarTerminated", Status: "True"}), nil},
		{"CR-2 the condition must be True", []string{"log"}, ended(corev1.PodFailed, corev1.PodCondition{Type: "SidecarTerminated", Status: "False"}), []string{
			`spec.podName: Invalid value: "web-0": the Pod has ended with phase Failed; name one that runs`,
		}},
		{"CR-2 a Pod that is not scheduled", []string{"app"}, func(pod *corev1.Pod) { pod.Spec.NodeName = "" }, []string{
			`spec.podName: Invalid value: "web-0": the Pod is on no Node yet; wait until it is scheduled`,
		}},
		{"CR-3 a Node whose name is no label", []string{"app"}, func(pod *corev1.Pod) { pod.Spec.NodeName = long }, []string{
			`spec.podName: Invalid value: "web-0": the name of the Pod's Node, ` + long + `, becomes a label: must be no more than 63 bytes`,
		}},
		{"CR-2 an unknown container, 4.1 and an init container", []string{"app", "web", "init"}, func(*corev1.Pod) {}, []string{
			`spec.containers[1].name: Unsupported value: "web": supported values: "app", "log"`,
			`spec.containers[2].name: Unsupported value: "init": supported values: "app", "log"`,
		}},
		{"CR-2 no status, no ID", []string{"app", "log"}, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
		}, []string{
			`spec.containers[0].name: Invalid value: "app": has never started, as the Pod's status says; there is nothing to recreate`,
			`spec.containers[1].name: Invalid value: "log": has never started, as the Pod's status says; there is nothing to recreate`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var pod *corev1.Pod
			if tc.edit != nil {
				pod = runningPod()
				tc.edit(pod)
			}
			if diff := cmp.Diff(tc.want, texts(validatePod(request(tc.containers...), pod))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("CR-3 a request that belongs to an earlier Pod of the name", func(t *testing.T) {
		obj := request("app")
		obj.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "u0"}}
		pod := runningPod()
		pod.UID = "u1"
		want := []string{`metadata.ownerReferences[0].uid: Invalid value: "u0": the Pod web-0 has been replaced; its UID is u1`}
		if diff := cmp.Diff(want, texts(validatePod(obj, pod))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		obj.OwnerReferences[0].UID = "u1"
		if got := texts(validatePod(obj, pod)); len(got) > 0 {
			t.Errorf("the Pod's own request: %q", got)
		}
	})
	t.Run("CR-2 no Node", func(t *testing.T) {
		want := []string{`spec.podName: Invalid value: "web-0": the Pod's Node node-1 does not exist`}
		if diff := cmp.Diff(want, texts(validateNode(request("app"), runningPod()))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestValidateUpdate(t *testing.T) {
	type object = v1beta1.ContainerRecreateRequest
	for _, tc := range []struct {
		name string
		edit func(*object)
		want []string
	}{
		{"CR-4 nothing", func(*object) {}, nil},
		{"CR-4 other metadata", func(obj *object) {
			obj.Labels = map[string]string{apps.LabelRequestPodUID: "u1", apps.LabelRequestNodeName: "node-1"} // the label active is removed when the request is completed
			obj.Finalizers = []string{apps.FinalizerRequestUnreadyAcquired}
		}, nil},
		{"CR-4 the status", func(obj *object) { obj.Status.Phase = v1beta1.ContainerRecreateRequestCompleted }, nil},
		{"CR-4 the spec", func(obj *object) { obj.Spec.TTLSecondsAfterFinished = new(int32(5)) }, []string{
			"spec: Forbidden: cannot change; delete the request and make another",
		}},
		{"CR-4 the labels", func(obj *object) { obj.Labels = map[string]string{apps.LabelRequestNodeName: "node-2"} }, []string{
			`metadata.labels[crr.apps.kruise.io/node-name]: Invalid value: "node-2": cannot change, is "node-1"`,
			`metadata.labels[crr.apps.kruise.io/pod-uid]: Invalid value: "": cannot change, is "u1"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := request("app")
			api.Default(old)
			complete(old, runningPod(), nil)
			obj := old.DeepCopy()
			tc.edit(obj)
			if diff := cmp.Diff(tc.want, texts(validateUpdate(obj, old))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateV1alpha1(t *testing.T) {
	at := func(text string) *v1alpha1.ContainerRecreateRequest {
		obj := &v1alpha1.ContainerRecreateRequest{}
		if text != "" {
			obj.Annotations = map[string]string{apps.AnnotationRequestUnreadyAcquired: text}
		}
		return obj
	}
	first, second := time.Unix(1, 0).UTC().Format(time.RFC3339), time.Unix(2, 0).UTC().Format(time.RFC3339)
	const head = "metadata.annotations[crr.apps.kruise.io/unready-acquired]: Invalid value: "
	for _, tc := range []struct {
		name     string
		obj, old *v1alpha1.ContainerRecreateRequest
		want     []string
	}{
		{"CR-4 a creation", at(first), nil, nil},
		{"CR-4 first", at(first), at(""), nil},
		{"CR-4 the same", at(first), at(first), nil},
		{"CR-4 another", at(second), at(first), []string{head + `"` + second + `": cannot change, is "` + first + `"`}},
		{"CR-4 none", at(""), at(first), []string{head + `"": cannot change, is "` + first + `"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(validateV1alpha1(tc.obj, tc.old))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
