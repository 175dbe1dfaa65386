package onnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/expectations"
)

// A Cached reads requests from a client-go store. The store contains the Node's requests that have the label for
// agents. A Cached is safe for concurrent use. NewCached makes a Cached.
type Cached struct {
	requests cache.Indexer
	store    expectations.Store
	writes   *expectations.Tracker // resourceVersions after this agent's writes of statuses, by Pod
	patch    Patch
}

// Patch writes a merge patch to the status of a request, and returns the request's new version.
type Patch func(ctx context.Context, request types.NamespacedName, patch []byte) (version string, err error)

// byPod is the name of the index of requests by namespace and name of their Pod.
const byPod = "workloadkit/pod"

// NewCached returns a Cached for a store, and adds an index to the store. Objects of other types are ignored.
func NewCached(requests cache.Indexer, resource schema.GroupResource, patch Patch) (*Cached, error) {
	if err := requests.AddIndexers(cache.Indexers{byPod: podOf}); err != nil {
		return nil, fmt.Errorf("requests of the agent: %w", err)
	}
	progress, ok := requests.(expectations.Progress)
	if !ok {
		return nil, errors.New("requests of the agent: the store does not report its version")
	}
	store := expectations.Store{GroupResource: resource}
	return &Cached{
		requests: requests, store: store, patch: patch,
		// Writes of an earlier agent process are not awaited, because each write of this process fails with a
		// conflict if the request has changed since it was read.
		writes: expectations.New(map[expectations.Store]expectations.Progress{store: progress}, expectations.Options{NoBarrier: true}),
	}, nil
}

func podOf(object any) ([]string, error) {
	request, ok := object.(*v1beta1.ContainerRecreateRequest)
	if !ok {
		return nil, nil
	}
	return []string{types.NamespacedName{Namespace: request.Namespace, Name: request.Spec.PodName}.String()}, nil
}

// Of implements Requests.
func (c *Cached) Of(pod types.NamespacedName) (out []*v1beta1.ContainerRecreateRequest, wait time.Duration) {
	owner := types.UID(pod.String())
	found, err := c.requests.ByIndex(byPod, pod.String())
	if err != nil || len(found) == 0 {
		c.writes.Forget(owner)
		return nil, 0
	}
	for _, one := range found {
		if request, ok := one.(*v1beta1.ContainerRecreateRequest); ok {
			out = append(out, request)
		}
	}
	// A stale cache only delays the next step; no wrong write is possible, because each write requires the version that
	// was read.
	if pending, err := c.writes.Check(owner, nil); err == nil && pending != nil && !pending.Late {
		wait = pending.RequeueAfter
	}
	return out, wait
}

// PatchStatus writes the agent's part of a status: the phase, the completion time and the states of containers. The
// controller writes all other fields.
func (c *Cached) PatchStatus(ctx context.Context, request *v1beta1.ContainerRecreateRequest, status v1beta1.ContainerRecreateRequestStatus) error {
	own := map[string]any{"phase": status.Phase, "message": orNull(status.Message), "completionTime": status.CompletionTime}
	own["containerRecreateStates"] = status.ContainerRecreateStates
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": request.ResourceVersion}, "status": own,
	})
	if err != nil {
		return fmt.Errorf("write the status of request %s/%s: %w", request.Namespace, request.Name, err)
	}
	version, err := c.patch(ctx, types.NamespacedName{Namespace: request.Namespace, Name: request.Name}, patch)
	if err != nil {
		return err
	}
	owner := types.UID(types.NamespacedName{Namespace: request.Namespace, Name: request.Spec.PodName}.String())
	return c.writes.Wrote(owner, c.store, version)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
