// Package apply adds and removes writers of a Pod's readiness gate in the API server.
//
// Controllers that write more to the same Pod merge the change of package podreadiness into their own patch instead, with
// package podpatch.
//
// RBAC: get on pods, patch on pods/status.
package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podpatchapply "github.com/workloadkit/workloadkit/podpatch/apply"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/reason"
)

// attempts bounds how often one call tries again. Each conflict is one write that somebody else has made.
const attempts = 5

// Editor edits readiness gates. All fields are required. It is safe for concurrent use.
type Editor struct {
	Client podpatchapply.Client
	// Live reads Pods after a conflict. A reader that is not a cache needs one attempt; a cache may take all of them.
	Live  client.Reader
	Clock clock.PassiveClock
}

// Edit makes the writers in hold, and not those in release, hold the gate: at most one patch of pods/status, which takes the
// Pod's Ready condition away with the gate (see package podpatch), and none if nothing changes. After a conflict it starts
// again from the Pod as the API server has it. The result is that of the patch, zero if there was none.
//
// The error wraps podreadiness.UnreadableMessage, podpatch/apply.Replaced when the Pod is gone or another has its name, or
// what the API server answered; a conflict after the last attempt remains one for apierrors.IsConflict.
func (e Editor) Edit(
	ctx context.Context, pod *corev1.Pod, gate corev1.PodConditionType, hold, release []podreadiness.Writer,
) (podpatchapply.Result, error) {
	for attempt := 1; ; attempt++ {
		change, err := podreadiness.Edit(pod, gate, hold, release)
		if err != nil {
			return podpatchapply.Result{}, err
		}
		patches, err := podpatch.Merge(pod, metav1.NewTime(e.Clock.Now()), change)
		if err != nil {
			return podpatchapply.Result{}, err
		}
		result, err := podpatchapply.Apply(ctx, e.Client, patches)
		if !apierrors.IsConflict(err) || attempt == attempts {
			return result, err
		}
		if pod, err = e.refresh(ctx, pod); err != nil {
			return podpatchapply.Result{}, err
		}
	}
}

// Hold adds one writer.
func (e Editor) Hold(ctx context.Context, pod *corev1.Pod, gate corev1.PodConditionType, writer podreadiness.Writer) (podpatchapply.Result, error) {
	return e.Edit(ctx, pod, gate, []podreadiness.Writer{writer}, nil)
}

// Release removes one writer.
func (e Editor) Release(ctx context.Context, pod *corev1.Pod, gate corev1.PodConditionType, writer podreadiness.Writer) (podpatchapply.Result, error) {
	return e.Edit(ctx, pod, gate, nil, []podreadiness.Writer{writer})
}

// refresh reads the Pod again and refuses a successor.
func (e Editor) refresh(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	gone := reason.Reason{
		Code:   podpatchapply.Replaced,
		Object: reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Path:   "metadata.uid", Old: string(pod.UID),
	}
	fresh := &corev1.Pod{}
	err := e.Live.Get(ctx, client.ObjectKeyFromObject(pod), fresh)
	switch {
	case apierrors.IsNotFound(err):
		return nil, gone
	case err != nil:
		return nil, fmt.Errorf("reading Pod %s/%s after a conflict: %w", pod.Namespace, pod.Name, err)
	case fresh.UID != pod.UID:
		gone.New = string(fresh.UID)
		return nil, gone
	}
	return fresh, nil
}
