package admission

import (
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// These are the messages of refused writes of node agents. The ValidatingAdmissionPolicies in examples/config/daemon
// have the same messages.
const (
	unbound        = "the token is not bound to a Pod on a Node"
	foreignRequest = "the request is not of the agent's Node"
	endedRequest   = "the request has ended"
	foreignPart    = "conditions and snapshot are the manager's"
	longStatus     = "the status is too long"
	foreignPod     = "the Pod is not on the agent's Node"
	foreignStatus  = "the status is the kubelet's"
	notANote       = "the agent writes an annotation alone"
	foreignNote    = "the agent writes " + apps.AnnotationRuntimeContainersMeta + " alone"
	longNote       = apps.AnnotationRuntimeContainersMeta + " is too long"
	foreignSource  = "the source of the event is not the agent's Node"
	foreignKind    = "the agent writes events of Pods, NodeImages and ImagePullJobs alone"
	foreignImage   = "the NodeImage is not of the agent's Node"
	foreignProbes  = "the probes are not of the agent's Node"
	foreignSpec    = "the spec is the manager's"
	foreignWrite   = "the agent writes nothing of this kind"
)

const (
	// longestNote is the largest length of the annotation with an agent's report that package
	// inplaceupdate/runtimemeta reads.
	longestNote = 64 << 10
	// longestWords is the largest length of a message in the status of a ContainerRecreateRequest, and
	// longestContainer is the largest length of a container's name.
	longestWords, longestContainer = 4096, 63
	// longestResult is the largest length of the message of a probe, and mostProbes the largest number of probes of a
	// Pod.
	longestResult, mostProbes = 1024, 100
)

// refusedToAgent returns the reason why the agent of a Node may not make a write, or "".
func refusedToAgent(node string, req *admissionv1.AdmissionRequest) (why string, err error) {
	switch (schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}) {
	case schema.GroupResource{Group: apps.Group, Resource: "containerrecreaterequests"}:
		before, after, err := bothOf[requestWritten](req)
		return requestRefused(node, before, after), err
	case schema.GroupResource{Group: apps.Group, Resource: "nodeimages"}:
		before, after, err := bothOf[imageWritten](req)
		if before == nil || after == nil || before.Metadata.Name != node {
			return foreignImage, err
		}
		return "", err
	case schema.GroupResource{Group: apps.Group, Resource: "nodepodprobes"}:
		before, after, err := bothOf[probesWritten](req)
		return probesRefused(node, before, after), err
	case schema.GroupResource{Resource: "pods"}:
		before, after, err := bothOf[podWritten](req)
		return podRefused(node, before, after), err
	case schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		before, after, err := bothOf[eventWritten](req)
		return eventRefused(node, before, after), err
	}
	return foreignWrite, nil
}

// bothOf decodes the relevant parts of an object before and after a write; nil if there is no object.
func bothOf[T any](req *admissionv1.AdmissionRequest) (before, after *T, err error) {
	if before, err = partOf[T](req.OldObject.Raw); err != nil {
		return nil, nil, err
	}
	after, err = partOf[T](req.Object.Raw)
	return before, after, err
}

func partOf[T any](raw []byte) (*T, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // no object
	}
	part := new(T)
	return part, decode.Object(raw, part)
}

// requestWritten contains the fields of a ContainerRecreateRequest, in any version, that are checked.
type requestWritten struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct{} `json:"containers"`
	} `json:"spec"`
	Status map[string]any `json:"status"`
}

func requestRefused(node string, before, after *requestWritten) string {
	switch {
	case before == nil || after == nil || before.Metadata.Labels[apps.LabelRequestNodeName] != node:
		return foreignRequest
	case before.Status["completionTime"] != nil && !reflect.DeepEqual(before.Status, after.Status):
		return endedRequest
	case !reflect.DeepEqual(before.Status["conditions"], after.Status["conditions"]),
		!reflect.DeepEqual(before.Status["containerStatusSnapshot"], after.Status["containerStatusSnapshot"]):
		return foreignPart
	}
	states, _ := after.Status["containerRecreateStates"].([]any)
	if len(states) > len(after.Spec.Containers) || isLong(after.Status, "message", longestWords) {
		return longStatus
	}
	for _, one := range states {
		if state, _ := one.(map[string]any); isLong(state, "message", longestWords) || isLong(state, "name", longestContainer) {
			return longStatus
		}
	}
	return ""
}

func isLong(object map[string]any, key string, most int) bool {
	text, _ := object[key].(string)
	return len(text) > most
}

// probesWritten contains the fields of a NodePodProbe that are checked.
type probesWritten struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec"`
	Status struct {
		PodProbeStatuses []struct {
			ProbeStates []map[string]any `json:"probeStates"`
		} `json:"podProbeStatuses"`
	} `json:"status"`
}

func probesRefused(node string, before, after *probesWritten) string {
	switch {
	case before == nil || after == nil || before.Metadata.Name != node:
		return foreignProbes
	case !reflect.DeepEqual(before.Spec, after.Spec):
		return foreignSpec
	}
	asked, _ := after.Spec["podProbes"].([]any)
	if len(after.Status.PodProbeStatuses) > len(asked) {
		return longStatus
	}
	for _, pod := range after.Status.PodProbeStatuses {
		if len(pod.ProbeStates) > mostProbes {
			return longStatus
		}
		for _, state := range pod.ProbeStates {
			if isLong(state, "message", longestResult) {
				return longStatus
			}
		}
	}
	return ""
}

// podWritten contains the fields of a Pod that are checked.
type podWritten struct {
	Metadata struct {
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		Finalizers      []string          `json:"finalizers"`
		OwnerReferences []any             `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status map[string]any `json:"status"`
}

func podRefused(node string, before, after *podWritten) string {
	if before == nil || after == nil || before.Spec.NodeName != node {
		return foreignPod
	}
	was, is := before.Metadata, after.Metadata
	switch {
	case !reflect.DeepEqual(before.Status, after.Status):
		return foreignStatus
	case !reflect.DeepEqual(was.Labels, is.Labels), !reflect.DeepEqual(was.Finalizers, is.Finalizers),
		!reflect.DeepEqual(was.OwnerReferences, is.OwnerReferences):
		return notANote
	case !sameNotes(was.Annotations, is.Annotations), !sameNotes(is.Annotations, was.Annotations):
		return foreignNote
	case len(is.Annotations[apps.AnnotationRuntimeContainersMeta]) > longestNote:
		return longNote
	}
	return ""
}

// sameNotes reports whether others contains all of the given annotations, with the same values, except the
// annotations that agents write.
func sameNotes(annotations, others map[string]string) bool {
	for key, value := range annotations {
		if other, ok := others[key]; key != apps.AnnotationRuntimeContainersMeta && (!ok || other != value) {
			return false
		}
	}
	return true
}

// imageWritten contains the fields of a NodeImage, in any version, that are checked.
type imageWritten struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// eventWritten contains the fields of a core/v1 Event that are checked. Events of events.k8s.io do not have the field
// source.
type eventWritten struct {
	Source struct {
		Host string `json:"host"`
	} `json:"source"`
	InvolvedObject struct {
		Kind string `json:"kind"`
	} `json:"involvedObject"`
}

func eventRefused(node string, before, after *eventWritten) string {
	switch {
	case after == nil || after.Source.Host != node || before != nil && before.Source.Host != node:
		return foreignSource
	case !slices.Contains([]string{"Pod", "NodeImage", "ImagePullJob"}, after.InvolvedObject.Kind):
		return foreignKind
	}
	return ""
}
