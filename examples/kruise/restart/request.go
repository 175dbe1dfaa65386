package restart

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// startSeconds is how long new containers may take to become ready, after the grace period for the old containers.
const startSeconds = 600

// defaultGrace is the kubelet's default grace period, in seconds.
const defaultGrace = 30

// namePrefix is the prefix of the names of requests. The rest of the name is the Pod's UID. A Pod has a single request
// at a time, so creating a second request fails because the name exists.
const namePrefix = "restart-"

func nameOf(pod types.UID) string { return namePrefix + string(pod) }

// podOf returns the UID of the Pod for which a request was created; ours is false if another client has created the
// request.
func podOf(request *v1beta1.ContainerRecreateRequest) (pod types.UID, ours bool) {
	name, ours := strings.CutPrefix(request.Name, namePrefix)
	_, marked := request.Annotations[apps.AnnotationRestartContainers]
	return types.UID(name), ours && marked
}

// Request returns a new ContainerRecreateRequest for a Pod. The request's owner is the workload.
func (w *Wish) Request(pod *corev1.Pod, owner metav1.OwnerReference) *v1beta1.ContainerRecreateRequest {
	owner.BlockOwnerDeletion = nil // the deletion of a workload does not have to wait for requests
	request := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: nameOf(pod.UID), OwnerReferences: []metav1.OwnerReference{owner},
			Annotations: map[string]string{apps.AnnotationRestartContainers: w.text},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{
			PodName:               pod.Name,
			ActiveDeadlineSeconds: new(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, defaultGrace) + startSeconds),
		},
	}
	for _, name := range w.namesIn(pod) {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: name})
	}
	return request
}

// namesIn returns the names of the containers to restart in a Pod.
func (w *Wish) namesIn(pod *corev1.Pod) []string {
	if len(w.Containers) > 0 {
		return w.Containers
	}
	names := make([]string, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		names[i] = pod.Spec.Containers[i].Name
	}
	return names
}

// IsUnderWay reports whether an agent may still stop containers for a request.
func IsUnderWay(request *v1beta1.ContainerRecreateRequest) bool {
	return request.DeletionTimestamp == nil && !api.HasEnded(&request.Status)
}

// isFor reports whether a ContainerRecreateRequest was made for this restart.
func (w *Wish) isFor(request *v1beta1.ContainerRecreateRequest) bool {
	return w != nil && request.Annotations[apps.AnnotationRestartContainers] == w.text
}

// failureOf returns why an ended request has failed; the code is empty if all containers were recreated.
func failureOf(request *v1beta1.ContainerRecreateRequest) (why reason.Reason) {
	status := &request.Status
	for i := range request.Spec.Containers {
		name := request.Spec.Containers[i].Name
		at := slices.IndexFunc(status.ContainerRecreateStates, func(s v1beta1.ContainerRecreateRequestContainerRecreateState) bool { return s.Name == name })
		if at >= 0 && status.ContainerRecreateStates[at].Phase == v1beta1.ContainerRecreateRequestSucceeded {
			continue
		}
		why.Code, why.Detail = RequestFailed, cmp.Or(status.Message, "container "+name+" was not recreated")
		if status.Message == "" && at >= 0 && status.ContainerRecreateStates[at].Message != "" {
			why.Detail += ": " + status.ContainerRecreateStates[at].Message
		}
		why.Detail = reason.Shorten(why.Detail, longestDetail)
		return why
	}
	return why
}
