// Package apply sends the patches that package podpatch computed.
//
// RBAC: patch on pods, pods/status and pods/resize, as far as the changes touch them.
package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// Refused means that the API server, a quota or an admission policy or webhook did not accept a patch of the Pod (403, 422, and
	// whatever else an admission webhook or policy denies with, but 409 and 429), or that this API server has no such subresource (404 for its
	// path, as for pods/resize before 1.32). A right that the client lacks says nothing about the Pod and is not Refused.
	// Trying the same again will not help; the caller's policy decides whether to wait, recreate or stop. See Refusals.
	//
	// Mostly Result.Sent is 0 then and the Pod is what it was. After the first of several patches it is not: a quota or a node may
	// have become full between the dry run and the resize, or a webhook may accept one patch and not the next. Such a Pod may
	// have its new labels and none of what they stand for, until the deciders send the rest again (package inplaceupdate does,
	// and does not call the update complete meanwhile) or the Pod is recreated. A caller that only waits has to try again now
	// and then, because nothing else will.
	Refused reason.Code = "Refused"
	// Replaced means that the Pod the decision was made on is gone, or that another one has its name by now.
	Replaced reason.Code = "Replaced"
)

// Client is what sending patches needs of a controller-runtime client.
type Client interface {
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
	SubResource(subResource string) client.SubResourceClient
}

// Result is the Pod's identity as the API server returned it after the last patch that succeeded. Its fields are empty
// when none did. Generation is what the Pod's observedGeneration must reach before its node has seen the change.
type Result struct {
	ResourceVersion string
	Generation      int64
	// Sent counts the patches that succeeded. Dry runs do not count. After an error it says whether the Pod was changed at all.
	Sent int
}

// Send merges the changes for a Pod and applies the patches that come out: podpatch.Merge and Apply in one call. Nothing is
// sent when the Pod already is as wanted.
func Send(ctx context.Context, c Client, pod *corev1.Pod, now metav1.Time, changes ...podpatch.Change) (Result, error) {
	patches, err := podpatch.Merge(pod, now, changes...)
	if err != nil {
		return Result{}, err
	}
	return Apply(ctx, c, patches)
}

// Apply sends the patches in their order and stops at the first that fails. The error wraps what the API server
// answered: a conflict (errors that apierrors.IsConflict matches) is for the caller to retry on a fresh Pod; Refused and
// Replaced say what they mean. The result holds what was written before the failure, so that it can be awaited.
//
// A resize is what API servers refuse most, and it comes last. Where something is to be written before it, it is sent as a
// dry run first, so that the Pod is left as it is where the resize cannot be done.
func Apply(ctx context.Context, c Client, patches podpatch.Patches) (Result, error) {
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

// send sends one patch; options are for subresources alone. The answer is asked for as metadata alone: the caller's cache will
// bring the rest, and decoding whole Pods is most of what a write costs a controller.
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
		why.Remedy = "wait for room, change the template, or let the Pod be recreated"
	default:
		return fmt.Errorf("patching %s of Pod %s: %w", path, patches.Pod, err)
	}
	return why.With(err)
}

// isUnknownPath recognises an API server that does not have the subresource: what is not found then is not the Pod.
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

// deniedByAdmission recognises the denial of an admission webhook or policy by its words: they choose the code, and a webhook
// that chooses none gets 400, which otherwise says that the request is malformed (k8s.io/apiserver,
// pkg/admission/plugin/webhook/errors/statuserror.go and plugin/policy/validating/dispatcher.go).
func deniedByAdmission(status metav1.Status) bool {
	return status.Code >= http.StatusBadRequest && status.Code < http.StatusInternalServerError &&
		status.Code != http.StatusConflict && status.Code != http.StatusTooManyRequests &&
		(strings.Contains(status.Message, "admission webhook ") && strings.Contains(status.Message, " denied the request") ||
			strings.Contains(status.Message, "ValidatingAdmissionPolicy ") && strings.Contains(status.Message, " denied request"))
}

// lacksRight recognises that the caller may not patch Pods at all. That says nothing about this Pod, and must not lead to its
// being recreated: it is for whoever grants the rights. The API server gives it the code of an admission plugin's refusal;
// only the words of its authorizers differ.
func lacksRight(status metav1.Status) bool {
	return status.Code == http.StatusForbidden && strings.Contains(status.Message, ` cannot patch resource "pods`)
}

// isOtherUID recognises the API server's answer to a patch that names another UID than the stored object's.
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
