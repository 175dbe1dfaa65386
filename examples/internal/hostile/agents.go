package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// Write is a request to the API server by the ServiceAccount of a node agent.
type Write struct {
	// Name says what the request tries to do.
	Name string
	// Method, Path and Type are the HTTP method, path and content type; Type is empty for a request without a body.
	Method, Path, Type string
	Body               []byte
	// Passes is true if an agent may send the request.
	Passes bool
}

// Places contains the names that the requests of an attacking agent use: a ContainerRecreateRequest and a Pod of the
// agent's own Node, and a ContainerRecreateRequest and a Pod of another Node. Both Nodes have a NodeImage and a
// NodePodProbe.
type Places struct {
	Node                               string
	Namespace, Request, Pod            string
	ForeignNode                        string
	ForeignNamespace, ForeignRequest   string
	ForeignPod, ForeignUID, SystemName string
}

const (
	crrs  = "/apis/apps.kruise.io/v1beta1/namespaces/"
	merge = "application/merge-patch+json"
)

// AgentWrites returns the requests that an attacker with a node agent's token sends; each call returns the same
// requests.
func AgentWrites(at Places) []Write {
	return slices.Concat(requestWrites(at), podWrites(at), imageWrites(at), probeWrites(at), otherWrites(at))
}

func requestWrites(at Places) []Write {
	own := crrs + at.Namespace + "/containerrecreaterequests/" + at.Request
	foreign := at.ForeignNamespace + "/containerrecreaterequests/" + at.ForeignRequest + "/status"
	status := func(name, path string, passes bool, status tree) Write {
		return Write{name, http.MethodPatch, path, merge, encode(tree{"status": status}), passes}
	}
	with := func(key string, value any) tree { return tree{"phase": "Recreating", key: value} }
	state := func(name, phase, message string) tree { return tree{"name": name, "phase": phase, "message": message} }
	return []Write{
		status("a request under way", own+"/status", true, tree{"phase": "Recreating"}),
		status("a request back in line", own+"/status", true, tree{"phase": "Pending"}),
		status("states of a foreign container", own+"/status", true, with("containerRecreateStates", []any{state("stranger", "Failed", "x")})),
		status("2,000 states", own+"/status", false, with("containerRecreateStates", repeated(2_000, func(int) any { return state("app", "Pending", "") }))),
		status("a state of a megabyte", own+"/status", false, with("containerRecreateStates", []any{state("app", "Pending", strings.Repeat("x", 1<<20))})),
		status("a name of a megabyte", own+"/status", false, with("containerRecreateStates", []any{state(strings.Repeat("x", 1<<20), "Pending", "")})),
		status("a message of a megabyte", own+"/status", false, with("message", strings.Repeat("x", 1<<20))),
		status("a phase that is none", own+"/status", false, tree{"phase": "Exploded"}),
		status("a time that is none", own+"/status", false, with("completionTime", "soon")),
		status("states that are none", own+"/status", false, with("containerRecreateStates", "all")),
		status("no status", own+"/status", false, tree{"phase": nil}),
		status("the time of the manager", own+"/status", false, with("conditions", []any{tree{
			"type": apps.ConditionPreRecreateGrace, "status": "True", "reason": "x", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z",
		}})),
		status("instances of the manager", own+"/status", false, with("containerStatusSnapshot", repeated(2_000, func(i int) any {
			return tree{"name": fmt.Sprint(i), "ready": true, "restartCount": i}
		}))),
		status("a foreign request", crrs+foreign, false, tree{"phase": "Recreating"}),
		status("a foreign request in the old version", strings.Replace(crrs, "v1beta1", "v1alpha1", 1)+foreign, false, tree{"phase": "Recreating"}),
		{"a foreign request as a dry run", http.MethodPatch, crrs + foreign + "?dryRun=All", merge, encode(tree{"status": tree{"phase": "Recreating"}}), false},
		{"labels of a request", http.MethodPatch, own, merge, encode(tree{"metadata": tree{"labels": tree{apps.LabelRequestNodeName: at.ForeignNode}}}), false},
		{"the end of a request", http.MethodDelete, own, "", nil, false},
	}
}

func podWrites(at Places) []Write {
	path := func(namespace, pod string) string { return "/api/v1/namespaces/" + namespace + "/pods/" + pod }
	own, foreign := path(at.Namespace, at.Pod)+"/status", path(at.ForeignNamespace, at.ForeignPod)+"/status"
	note := func(name, path string, passes bool, note string) Write {
		return Write{name, http.MethodPatch, path, merge, encode(tree{"metadata": tree{"annotations": tree{apps.AnnotationRuntimeContainersMeta: note}}}), passes}
	}
	change := func(name string, change tree) Write {
		return Write{name, http.MethodPatch, own, merge, encode(change), false}
	}
	entries := func(n int) string {
		return `{"containers":[` + strings.TrimSuffix(strings.Repeat(`{"name":"app","hashes":{"plainHash":1}},`, n), ",") + `]}`
	}
	return []Write{
		note("a note with foreign hashes", own, true, `{"containers":[{"name":"app","containerID":"sim://x","hashes":{"plainHash":1,"extractedEnvFromMetadataHash":2}}]}`),
		note("a note that is none", own, true, "{"),
		note("a note of 1,500 entries", own, true, entries(1_500)),
		note("a note of 30,000 brackets", own, true, strings.Repeat("[", 30_000)),
		note("a note with a number of 60,000 digits", own, true, `{"containers":[{"restartCount":1e`+strings.Repeat("9", 60_000)+`}]}`),
		note("a note of 5,000 entries", own, false, entries(5_000)),
		note("a note of a million entries", own, false, strings.Repeat("{},", 1_000_000)),
		note("a foreign note", foreign, false, "{}"),
		change("the readiness of a Pod", tree{"status": tree{"conditions": []any{}}}),
		change("the phase of a Pod", tree{"status": tree{"phase": "Failed"}}),
		change("the labels of a Pod", tree{"metadata": tree{"labels": tree{"app": "mine"}}}),
		change("the owner of a Pod", tree{"metadata": tree{"ownerReferences": nil, "finalizers": []any{"example.test/held"}}}),
		change("another annotation", tree{"metadata": tree{"annotations": tree{apps.AnnotationInPlaceUpdateState: "{}"}}}),
		change("the UID of another Pod", tree{"metadata": tree{"uid": at.ForeignUID, "annotations": tree{apps.AnnotationRuntimeContainersMeta: "{}"}}}),
		{"the end of a Pod", http.MethodDelete, path(at.Namespace, at.Pod), "", nil, false},
		{"an eviction", http.MethodPost, path(at.Namespace, at.Pod) + "/eviction", "application/json", encode(tree{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": tree{"name": at.Pod, "namespace": at.Namespace},
		}), false},
	}
}

func otherWrites(at Places) []Write {
	event := func(name, host, kind string, passes bool) Write {
		return Write{name, http.MethodPost, "/api/v1/namespaces/" + at.Namespace + "/events", "application/json", encode(tree{
			"apiVersion": "v1", "kind": "Event", "metadata": tree{"generateName": "agent-"}, "source": tree{"component": "kruise-daemon-crr", "host": host},
			"involvedObject": tree{"kind": kind, "namespace": at.Namespace, "name": at.Pod}, "reason": "Killing",
		}), passes}
	}
	return []Write{
		event("an event", at.Node, "Pod", true),
		event("an event of another Node", at.ForeignNode, "Pod", false),
		event("an event about another kind", at.Node, "CloneSet", false),
		{"Secrets", http.MethodGet, "/api/v1/namespaces/" + at.SystemName + "/secrets", "", nil, false},
		{"a token of the manager", http.MethodPost, "/api/v1/namespaces/" + at.SystemName + "/serviceaccounts/kruise-manager/token", "application/json", encode(tree{
			"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": tree{},
		}), false},
		{"the policies", http.MethodDelete, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/kruise-daemon-pods", "", nil, false},
		{"the configuration of webhooks", http.MethodDelete, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kruise-validating-webhook-configuration", "", nil, false},
	}
}

// encode returns an object as JSON.
func encode(object tree) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err) // maps and strings can always be encoded
	}
	return raw
}
