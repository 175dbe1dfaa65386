package persistentpodstate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// changes returns the operations that change the status from before to after. The operations contain only the records
// that have changed, out of possibly thousands.
func changes(before, after *v1beta1.PersistentPodStateStatus) (operations []operation) {
	const path = "/status/podStates"
	names := changed(before.PodStates, after.PodStates)
	if before.ObservedGeneration == after.ObservedGeneration && len(names) == 0 {
		return nil
	}
	if before.ObservedGeneration == 0 && len(before.PodStates) == 0 {
		return []operation{{"add", "/status", after}} // the object may have no status yet
	}
	if before.ObservedGeneration != after.ObservedGeneration {
		operations = append(operations, operation{"add", "/status/observedGeneration", after.ObservedGeneration})
	}
	switch {
	case len(names) == 0:
		return operations
	case len(after.PodStates) == 0:
		return append(operations, operation{Op: "remove", Path: path})
	case len(before.PodStates) == 0:
		return append(operations, operation{"add", path, after.PodStates})
	}
	for _, name := range names {
		if state, ok := after.PodStates[name]; ok {
			operations = append(operations, operation{"add", path + "/" + escape(name), state})
		} else {
			operations = append(operations, operation{Op: "remove", Path: path + "/" + escape(name)})
		}
	}
	return operations
}

// changed returns the sorted names of the records that differ.
func changed(before, after records) []string {
	var names []string
	for name, state := range after {
		if was, ok := before[name]; !ok || !equal(was, state) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// escape encodes a key for a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// patch returns a patch that changes the status of state to the given status; nil if both are equal.
func patch(state *v1beta1.PersistentPodState, status *v1beta1.PersistentPodStateStatus) (client.Patch, error) {
	operations := changes(&state.Status, status)
	if len(operations) == 0 {
		return nil, nil
	}
	// A JSON patch can test the UID. In a merge patch of a status, the API server ignores the UID, so a new object of
	// the same name would get the records of the old object.
	body, err := json.Marshal(append([]operation{{"test", "/metadata/uid", state.UID}}, operations...))
	if err != nil {
		return nil, fmt.Errorf("encoding the records of %s/%s: %w", state.Namespace, state.Name, err)
	}
	return client.RawPatch(types.JSONPatchType, body), nil
}

// count returns how many records were written, and how many were removed.
func count(before, after map[string]v1beta1.PodState) (recorded, dropped int) {
	for _, name := range changed(before, after) {
		if _, ok := after[name]; ok {
			recorded++
		} else {
			dropped++
		}
	}
	return recorded, dropped
}

// Patch returns the patch with which the found PersistentPodState is changed. The patch sets the spec, and for the
// action adopt also the controller reference.
func (g *generation) Patch(found *v1beta1.PersistentPodState) (client.Patch, error) {
	metadata := map[string]any{"uid": found.UID, "resourceVersion": found.ResourceVersion}
	if g.Action == adopt {
		metadata["ownerReferences"] = append(slices.Clone(found.OwnerReferences), g.owner())
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata, "spec": wholeSpec(g.Spec)})
	return client.RawPatch(types.MergePatchType, body), err
}
