// Package gatewriter adds and removes holders of a Pod's readiness gate through the API server.
//
// Controllers that write more than the gate to the same Pod should not use gatewriter, but merge the change from
// package podreadiness into their own patch, with package podpatch.
//
// RBAC: get on pods, patch on pods/status.
package gatewriter

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/reason"
)

// attempts is the largest number of times that a call sends its patch. Each conflict means that another client has
// written the Pod.
const attempts = 5

// Writer changes readiness gates. Make a Writer with New; the zero value only returns errors. Writer is safe for
// concurrent use.
type Writer struct {
	client podwrite.Client
	live   client.Reader
	clock  clock.PassiveClock
}

// New returns a Writer that sends patches with c. live reads Pods after a conflict: if live reads from the API server,
// a single further attempt is usually enough; if live reads from a cache, several may be needed. All arguments are
// required; the error names a missing argument.
func New(c podwrite.Client, live client.Reader, now clock.PassiveClock) (*Writer, error) {
	switch {
	case c == nil:
		return nil, errors.New("gatewriter: a client is required")
	case live == nil:
		return nil, errors.New("gatewriter: a reader of the API server is required")
	case now == nil:
		return nil, errors.New("gatewriter: a clock is required")
	}
	return &Writer{client: c, live: live, clock: now}, nil
}

// Edit carries out an edit with at most a single patch of pods/status, and with no patch if nothing changes. A patch
// that closes the gate also sets the Pod's Ready condition to False (see package podpatch). After a conflict, Edit
// reads the Pod again and starts anew, at most four times. Edit returns the result of the patch, or the zero Result if
// no patch was sent.
//
// The error carries a code of podreadiness, or podwrite.Replaced if the Pod was deleted or another Pod has its name, or
// wraps the API server's error. If the last attempt ended in a conflict, apierrors.IsConflict recognises the error.
func (w *Writer) Edit(ctx context.Context, pod *corev1.Pod, gate corev1.PodConditionType, edit podreadiness.Edit) (podwrite.Result, error) {
	if w == nil || w.client == nil {
		return podwrite.Result{}, errors.New("gatewriter: the Writer was not made by New")
	}
	for attempt := 1; ; attempt++ {
		change, err := edit.Change(pod, gate)
		if err != nil {
			return podwrite.Result{}, err
		}
		patches, err := podpatch.Merge(pod, w.clock.Now(), change)
		if err != nil {
			return podwrite.Result{}, err
		}
		result, err := podwrite.SendPatches(ctx, w.client, patches)
		if !apierrors.IsConflict(err) || attempt == attempts {
			return result, err
		}
		if pod, err = w.refresh(ctx, pod); err != nil {
			return podwrite.Result{}, err
		}
	}
}

// Hold adds a holder, as Edit does.
func (w *Writer) Hold(ctx context.Context, pod *corev1.Pod, gate corev1.PodConditionType, holder podreadiness.Holder) (podwrite.Result, error) {
	return w.Edit(ctx, pod, gate, podreadiness.Edit{Hold: []podreadiness.Holder{holder}})
}

// Release removes a holder, as Edit does.
func (w *Writer) Release(ctx context.Context, pod *corev1.Pod, gate corev1.PodConditionType, holder podreadiness.Holder) (podwrite.Result, error) {
	return w.Edit(ctx, pod, gate, podreadiness.Edit{Release: []podreadiness.Holder{holder}})
}

// refresh reads the Pod again, and returns an error if another Pod has its name.
func (w *Writer) refresh(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	gone := reason.Reason{
		Code:   podwrite.Replaced,
		Object: reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Path:   "metadata.uid", Old: string(pod.UID),
	}
	fresh := &corev1.Pod{}
	err := w.live.Get(ctx, client.ObjectKeyFromObject(pod), fresh)
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
