// Package podwrite sends the patches computed by package podpatch.
//
// RBAC: patch on pods, pods/status, pods/resize and pods/ephemeralcontainers, as far as the changes need.
package podwrite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// Refused means that the API server, a quota or an admission policy or webhook did not accept a patch of the Pod
	// (403, 422, and every other code that an admission webhook or policy denies with, except 409 and 429), or this
	// API server has no such subresource (404 for its path, as for pods/resize before 1.32). If the client lacks a
	// right, the error is not Refused, because other clients may still patch the Pod. The same request would fail
	// again, so the caller must decide whether to wait, recreate the Pod or stop. See fanout.Backoff.
	//
	// Usually Result.Sent is 0 when Refused is returned, and the Pod is unchanged. Result.Sent is greater if an
	// earlier patch of the same sequence has succeeded: between the dry run and the resize, a quota was used up or
	// the node became full, or a webhook accepted the first patch and refused the next. Such a Pod may have its new
	// labels but not the changes that the labels announce, until later patches make the changes or the Pod is
	// recreated. Package inplaceupdate sends later patches, and reports the update as incomplete until then. A caller
	// that waits must retry from time to time, because no event will start a reconcile.
	Refused reason.Code = "Refused"
	// Replaced means that the Pod for which the change was decided was deleted, or another Pod has its name now.
	Replaced reason.Code = "Replaced"
)

// Client is the part of a controller-runtime client that sends patches.
type Client interface {
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
	SubResource(subResource string) client.SubResourceClient
}

// Result identifies the Pod as returned by the API server after the last successful patch. Its fields are empty if no
// patch has succeeded. Once the Pod's status.observedGeneration reaches Generation, the kubelet has observed the
// change.
type Result struct {
	ResourceVersion string
	Generation      int64
	// Sent is the number of successful patches, without dry runs. After an error, Sent says whether any patch has
	// changed the Pod.
	Sent int
}

// Send merges the changes for a Pod and sends the patches: podpatch.Merge and SendPatches in a single call. Send sends
// nothing if the Pod has all values already. For API servers before 1.32, call SendPatches with patches of a
// podpatch.Merger. The error is the error of podpatch.Merge or of SendPatches.
func Send(ctx context.Context, c Client, pod *corev1.Pod, now time.Time, changes ...podpatch.Change) (Result, error) {
	patches, err := podpatch.Merge(pod, now, changes...)
	if err != nil {
		return Result{}, err
	}
	return SendPatches(ctx, c, patches)
}

// SendPatches sends the patches in their order and stops at the first failure. The error wraps the API server's error,
// with the code Refused or Replaced if either applies. After a conflict (apierrors.IsConflict), the caller must read
// the Pod again and decide again. The result describes the writes before the failure, so that the caller can wait until
// its cache shows these writes.
//
// A resize comes last, and resizes are refused most often. If other patches come before the resize, SendPatches first
// sends a dry run of the resize, so that a refused resize leaves the Pod unchanged.
func SendPatches(ctx context.Context, c Client, patches podpatch.Patches) (Result, error) {
	for i, p := range patches.Requests {
		if i > 0 && p.Subresource == resize {
			if _, err := send(ctx, c, patches, p, client.DryRunAll); err != nil {
				return Result{}, err
			}
		}
	}
	var result Result
	for _, p := range patches.Requests {
		obj, err := send(ctx, c, patches, p)
		if err != nil {
			return result, err
		}
		result = Result{ResourceVersion: obj.ResourceVersion, Generation: obj.Generation, Sent: result.Sent + 1}
	}
	return result, nil
}

const resize = "resize"

// send sends a patch; options are used only for subresources. send asks the API server to return only metadata: the
// caller's cache will receive the Pod anyway, and decoding a whole Pod would be the largest part of a write's cost.
func send(ctx context.Context, c Client, patches podpatch.Patches, p podpatch.Patch, options ...client.SubResourcePatchOption) (*metav1.PartialObjectMetadata, error) {
	obj := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: patches.Pod.Namespace, Name: patches.Pod.Name},
	}
	patch := client.RawPatch(types.StrategicMergePatchType, p.Body)
	var err error
	if p.Subresource == "" {
		err = c.Patch(ctx, obj, patch)
	} else {
		err = c.SubResource(p.Subresource).Patch(ctx, obj, patch, options...)
	}
	if err != nil {
		return nil, classify(err, patches, p.Subresource)
	}
	return obj, nil
}

func classify(err error, patches podpatch.Patches, subresource string) error {
	path := "pods"
	if subresource != "" {
		path += "/" + subresource
	}
	why := reason.Reason{
		Object: reason.Object{Kind: "Pod", Namespace: patches.Pod.Namespace, Name: patches.Pod.Name, UID: patches.UID},
		Path:   path,
		Detail: err.Error(),
	}
	switch {
	case apierrors.IsNotFound(err) && !isUnknownPath(err), isOtherUID(err):
		why.Code = Replaced
	case apierrors.IsInvalid(err), isRefusal(err), isUnknownPath(err):
		why.Code = Refused
		if why.Remedy = "change the template or the refusing policy, or let the Pod be recreated"; subresource == "resize" {
			why.Remedy = "wait for room, change the template, or let the Pod be recreated"
		}
	default:
		return fmt.Errorf("patching %s of Pod %s: %w", path, patches.Pod, err)
	}
	return why.With(err)
}

// isUnknownPath recognises the error of an API server that lacks the subresource: NotFound then does not mean that the
// Pod is missing.
func isUnknownPath(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || lacksRight(status.Status()) {
		return false
	}
	code := status.Status().Code
	return code == http.StatusForbidden || code == http.StatusUnprocessableEntity || deniedByAdmission(status.Status())
}

// deniedByAdmission recognises, by the message, that an admission webhook or policy has denied a request. Webhooks and
// policies choose the status code themselves, and a webhook that chooses none gets 400. Otherwise 400 means a malformed
// request (k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go and
// plugin/policy/validating/dispatcher.go).
func deniedByAdmission(status metav1.Status) bool {
	return status.Code >= http.StatusBadRequest && status.Code < http.StatusInternalServerError &&
		status.Code != http.StatusConflict && status.Code != http.StatusTooManyRequests &&
		(strings.Contains(status.Message, "admission webhook ") && strings.Contains(status.Message, " denied the request") ||
			strings.Contains(status.Message, "ValidatingAdmissionPolicy ") && strings.Contains(status.Message, " denied request"))
}

// lacksRight recognises that the caller has no right to patch Pods at all. A missing right says nothing about the Pod,
// and must not lead to a recreation of the Pod: the administrator has to grant the right. The API server uses the same
// status code as for refusals by an admission plugin; only the message differs.
func lacksRight(status metav1.Status) bool {
	return status.Code == http.StatusForbidden && strings.Contains(status.Message, ` cannot patch resource "pods`)
}

// isOtherUID recognises the API server's error for a patch whose UID is not the stored object's UID.
func isOtherUID(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}
