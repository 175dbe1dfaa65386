package runtimemeta

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/reason"
)

// Report is a node agent's report about the containers of a Pod. The zero value is an empty report.
type Report struct {
	// Containers are the containers and native sidecars that have started, each once.
	Containers []Container `json:"containers"`
}

// Container describes the newest instance of a container.
type Container struct {
	// Name is the name of the container in the Pod.
	Name string `json:"name"`
	// ContainerID is the ID of the instance as in the Pod's status, such as "containerd://ab12".
	ContainerID string `json:"containerID"`
	// RestartCount is the number of earlier instances, as counted by the kubelet.
	RestartCount int32 `json:"restartCount"`
	// CreatedAt is the time at which the instance was created, in seconds since 1970, if the agent has seen the instance
	// during an in-place update before the Pod's status showed it. Otherwise CreatedAt is 0. OpenKruise's agent does not
	// report the time.
	CreatedAt int64 `json:"createdAt,omitempty"`
	// Hashes show with which values the instance was started.
	Hashes Hashes `json:"hashes"`
}

// Hashes are the hashes of a container instance.
type Hashes struct {
	// PlainHash is the kubelet's hash of the container's spec when the instance was started, 0 if unknown. See
	// [PlainHashes].
	PlainHash uint64 `json:"plainHash"`
	// ExtractedEnvFromMetadataHash is the hash of the labels and annotations in the instance's environment, 0 if not
	// read. See [CurrentHash] and [ExpectedHash].
	ExtractedEnvFromMetadataHash uint64 `json:"extractedEnvFromMetadataHash,omitempty"`
}

// longest limits the length of a report in bytes, enough for 300 containers. Nodes write reports, and an attacker who
// controls a Node may write anything.
const longest = 64 << 10

// Decode parses an annotation as a report. The error has the code UnreadableReport or ReportTooLarge, and contains none
// of the annotation's values. Decode does not check the content of the report: the agent of a Node may claim anything
// about the Pods of its Node.
func Decode(annotation string) (Report, error) {
	if len(annotation) > longest {
		return Report{}, reason.Reason{
			Code: ReportTooLarge, Detail: fmt.Sprintf("%d bytes, of at most %d", len(annotation), longest),
			Remedy: "remove the annotation",
		}
	}
	var report Report
	if err := decode.Object([]byte(annotation), &report); err != nil {
		return Report{}, reason.Reason{
			Code: UnreadableReport, Detail: err.Error(), Remedy: "remove the annotation",
		}.With(err)
	}
	return report, nil
}

// Encode returns the report as text for the annotation. Equal reports have equal texts.
func (r Report) Encode() string {
	if r.Containers == nil {
		r.Containers = []Container{}
	}
	raw, _ := json.Marshal(r) // strings and numbers can always be encoded in JSON
	return string(raw)
}

// Equal reports whether two reports have equal entries in the same order.
func (r Report) Equal(other Report) bool { return slices.Equal(r.Containers, other.Containers) }

// Instance returns the entry for an instance of a container, nil if the report has none. The pointer refers to the
// entry inside the report.
func (r Report) Instance(name, id string) *Container {
	if c := r.container(name); c != nil && c.ContainerID == id {
		return c
	}
	return nil
}

// Ahead returns the entry for an instance that the agent has seen during an in-place update, and that is newer than
// the instance in the given status; nil if there is none. A kubelet creates an instance only after the previous
// instance has ended. Before a kubelet reports a Pod as Ready, it reads the state of the Pod's containers after the
// restart (pkg/kubelet/pod_workers.go). So a controller may open the readiness gate as soon as the entry exists: the
// Pod does not become Ready before the new instance is ready. The pointer refers to the entry inside the report.
func (r Report) Ahead(status *corev1.ContainerStatus) *Container {
	c := r.container(status.Name)
	if c == nil || c.CreatedAt == 0 || c.ContainerID == status.ContainerID || c.RestartCount <= status.RestartCount {
		return nil
	}
	// If a container runtime has lost all containers, the count of instances starts from 0 again. An old report may
	// then have a higher count than the status, so the times decide.
	if c.CreatedAt < lastKnown(status).Unix() {
		return nil
	}
	return c
}

// lastKnown returns the latest time (start or end of an instance) in a container's status.
func lastKnown(status *corev1.ContainerStatus) (last time.Time) {
	for _, state := range []*corev1.ContainerState{&status.State, &status.LastTerminationState} {
		if s := state.Running; s != nil && s.StartedAt.After(last) {
			last = s.StartedAt.Time
		}
		if s := state.Terminated; s != nil && s.FinishedAt.After(last) {
			last = s.FinishedAt.Time
		}
	}
	return last
}

// container returns the entry of a container.
func (r Report) container(name string) *Container {
	i := slices.IndexFunc(r.Containers, func(c Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Containers[i]
}
