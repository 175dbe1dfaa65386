package podpatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

const gate corev1.PodConditionType = "example.com/Ready"

var (
	before = metav1.NewTime(time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC))
	now    = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
)

// newPod returns a Pod in service, with a container, a native sidecar, a plain init container and an open gate.
func newPod() *corev1.Pod {
	status := func(t corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: before}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-0", UID: "u1", ResourceVersion: "7", Finalizers: []string{"example.com/keep"},
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "a"},
		},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}},
			InitContainers: []corev1.Container{
				{Name: "setup", Image: "setup:v1"},
				{Name: "proxy", Image: "proxy:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{{Name: "app", Image: "app:v1", Resources: corev1.ResourceRequirements{
				Requests: quantities("cpu", "100m", "memory", "64Mi"), Limits: quantities("cpu", "1"),
			}}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{status(gate), status(corev1.ContainersReady), status(corev1.PodReady)}},
	}
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func closed(reason string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: reason}}
}

func opened() []corev1.PodCondition {
	return []corev1.PodCondition{{Type: gate, Status: corev1.ConditionTrue}}
}

func labels(pairs ...string) map[string]*string {
	m := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &pairs[i+1]
	}
	return m
}

// merge returns the patches in order, each as "subresource body".
func merge(t *testing.T, pod *corev1.Pod, changes ...podpatch.Change) []string {
	t.Helper()
	original := pod.DeepCopy()
	patches, err := podpatch.Merge(pod, now, changes...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(original, pod); diff != "" {
		t.Errorf("the Pod was modified:\n%s", diff)
	}
	var out []string
	for _, p := range patches.Requests {
		out = append(out, strings.TrimLeft(p.Subresource+" "+string(p.Body), " "))
	}
	if patches.IsEmpty() != (len(out) == 0) {
		t.Errorf("IsEmpty = %v with %d requests", patches.IsEmpty(), len(out))
	}
	return out
}

func Example() {
	pod := newPod()
	image := podpatch.Change{ // the in-place updater
		UID:        pod.UID,
		Conditions: []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: "Updating"}},
		Images:     map[string]string{"app": "app:v2"},
	}
	state := podpatch.Change{Labels: map[string]*string{"state": ptr.To("Updating")}} // the lifecycle machine
	label := podpatch.Change{Labels: map[string]*string{"revision": ptr.To("web-2")}} // the workload

	patches, err := podpatch.Merge(pod, now, image, state, label)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range patches.Requests {
		var body struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct{ Name, Image string }
			}
			Status struct {
				Conditions []struct{ Type, Status, Reason string }
			}
		}
		if err := json.Unmarshal(p.Body, &body); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("pods/%s\n", p.Subresource)
		for _, c := range body.Status.Conditions {
			fmt.Println("  ", c.Type, c.Status, c.Reason)
		}
		for _, c := range body.Spec.Containers {
			fmt.Println("  ", c.Name, c.Image, body.Metadata.Labels)
		}
	}
	// Output:
	// pods/status
	//    example.com/Ready False Updating
	//    Ready False ReadinessGatesNotReady
	// pods/
	//    app app:v2 map[revision:web-2 state:Updating]
}

func TestRequests(t *testing.T) {
	const (
		image   = `"spec":{"containers":[{"name":"app","image":"app:v2"}]}`
		cpu     = `"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}`
		sidecar = `"spec":{"initContainers":[{"name":"proxy","image":"proxy:v2"}]}`
		off     = `"status":{"conditions":[{"type":"example.com/Ready","status":"False","lastTransitionTime":"2026-07-01T12:00:00Z","reason":"R","message":null},` +
			`{"type":"Ready","status":"False","lastTransitionTime":"2026-07-01T12:00:00Z","reason":"ReadinessGatesNotReady",` +
			`"message":"the status of pod readiness gate \"example.com/Ready\" is not \"True\", but False"}]}`
	)
	newImage := podpatch.Change{Images: map[string]string{"app": "app:v2"}}
	newCPU := podpatch.Change{Resources: map[string]corev1.ResourceRequirements{"app": {
		Requests: quantities("cpu", "200m", "memory", "64Mi"), Limits: quantities("cpu", "1000m"),
	}}}
	label := podpatch.Change{Labels: labels("x", "1")}
	gateOff := podpatch.Change{Conditions: closed("R")}
	versioned := gateOff
	versioned.ResourceVersion = "7"
	for _, tc := range []struct {
		name    string
		changes []podpatch.Change
		want    []string
	}{
		{"nothing wanted", []podpatch.Change{{}, {UID: "u1"}}, nil},
		{"the Pod has all of it", []podpatch.Change{
			{Labels: map[string]*string{"app": ptr.To("web"), "gone": nil}, Annotations: labels("note", "a")},
			{Conditions: opened(), Images: map[string]string{"app": "app:v1", "proxy": "proxy:v1"}},
			{AddFinalizers: []string{"example.com/keep"}, RemoveFinalizers: []string{"example.com/none"}},
			{Resources: map[string]corev1.ResourceRequirements{"app": {Limits: quantities("cpu", "1000m")}}},
		}, nil},
		{"metadata alone", []podpatch.Change{label}, []string{`{"metadata":{"uid":"u1","labels":{"x":"1"}}}`}},
		{"metadata with a status change", []podpatch.Change{label, gateOff}, []string{`status {"metadata":{"uid":"u1","labels":{"x":"1"}},` + off + `}`}},
		{"metadata with a spec change", []podpatch.Change{label, newImage}, []string{`{"metadata":{"uid":"u1","labels":{"x":"1"}},` + image + `}`}},
		{
			"metadata goes with the spec when there is a status change as well",
			[]podpatch.Change{gateOff, label, newImage},
			[]string{`status {"metadata":{"uid":"u1"},` + off + `}`, `{"metadata":{"uid":"u1","labels":{"x":"1"}},` + image + `}`},
		},
		{
			"metadata never goes with a resize, which drops it",
			[]podpatch.Change{label, newCPU},
			[]string{`{"metadata":{"uid":"u1","labels":{"x":"1"}}}`, `resize {"metadata":{"uid":"u1"},` + cpu + `}`},
		},
		{
			"metadata goes with the status rather than a request of its own before a resize",
			[]podpatch.Change{label, newCPU, gateOff},
			[]string{`status {"metadata":{"uid":"u1","labels":{"x":"1"}},` + off + `}`, `resize {"metadata":{"uid":"u1"},` + cpu + `}`},
		},
		{"U-12 only changed quantities", []podpatch.Change{newCPU}, []string{`resize {"metadata":{"uid":"u1"},` + cpu + `}`}},
		{"native sidecars are init containers", []podpatch.Change{{Images: map[string]string{"proxy": "proxy:v2"}}}, []string{`{"metadata":{"uid":"u1"},` + sidecar + `}`}},
		{
			"all three, resourceVersion in the first only",
			[]podpatch.Change{versioned, newImage, newCPU},
			[]string{`status {"metadata":{"uid":"u1","resourceVersion":"7"},` + off + `}`, `{"metadata":{"uid":"u1"},` + image + `}`, `resize {"metadata":{"uid":"u1"},` + cpu + `}`},
		},
		{"finalizers one by one, twice is once", []podpatch.Change{
			{AddFinalizers: []string{"b", "b"}, RemoveFinalizers: []string{"example.com/keep", "example.com/keep"}}, {AddFinalizers: []string{"b", "c"}},
		}, []string{`{"metadata":{"uid":"u1","finalizers":["b","c"],"$deleteFromPrimitiveList/finalizers":["example.com/keep"]}}`}},
		{
			"removed keys are null",
			[]podpatch.Change{{Labels: map[string]*string{"app": nil}, Annotations: labels("note", "")}},
			[]string{`{"metadata":{"uid":"u1","labels":{"app":null},"annotations":{"note":""}}}`},
		},
		{
			"deciders that agree",
			[]podpatch.Change{label, label, newImage, newImage, gateOff, gateOff, newCPU, newCPU},
			[]string{`status {"metadata":{"uid":"u1"},` + off + `}`, `{"metadata":{"uid":"u1","labels":{"x":"1"}},` + image + `}`, `resize {"metadata":{"uid":"u1"},` + cpu + `}`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, merge(t, newPod(), tc.changes...)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResizeInSpec: for API servers before 1.32, the resources are in the patch of the spec, and each container has a
// single entry in the patch.
func TestResizeInSpec(t *testing.T) {
	image := podpatch.Change{Images: map[string]string{"app": "app:v2"}}
	cpu := podpatch.Change{Resources: map[string]corev1.ResourceRequirements{"app": {Limits: quantities("cpu", "2")}}}
	sidecar := podpatch.Change{
		Images:    map[string]string{"proxy": "proxy:v2"},
		Resources: map[string]corev1.ResourceRequirements{"proxy": {Limits: quantities("cpu", "1")}},
	}
	const uid = `{"metadata":{"uid":"u1"},"spec":`
	for _, tc := range []struct {
		name    string
		changes []podpatch.Change
		want    string
	}{
		{"U-12 resources alone", []podpatch.Change{cpu}, `{"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}]}}`},
		{"U-12 one entry for each container", []podpatch.Change{cpu, image}, `{"containers":[{"name":"app","image":"app:v2","resources":{"limits":{"cpu":"2"}}}]}}`},
		{
			"U-12 native sidecars",
			[]podpatch.Change{cpu, sidecar},
			`{"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}],` +
				`"initContainers":[{"name":"proxy","image":"proxy:v2","resources":{"limits":{"cpu":"1"}}}]}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patches, err := podpatch.Merger{ResizeInSpec: true}.Merge(newPod(), now, tc.changes...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]podpatch.Patch{{Body: []byte(uid + tc.want)}}, patches.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatchesKeepTheOrderOfContainers: the API server takes the order of a patch's entries as the wanted order, and
// answers 422 if a patch would reorder the containers of a live Pod.
func TestPatchesKeepTheOrderOfContainers(t *testing.T) {
	pod := newPod()
	app := pod.Spec.Containers[0]
	app.Name = "web"
	pod.Spec.Containers = []corev1.Container{app, pod.Spec.Containers[0]}
	cpu := corev1.ResourceRequirements{Limits: quantities("cpu", "2")}
	patches, err := podpatch.Merge(pod, now, podpatch.Change{
		Images:    map[string]string{"app": "app:v2", "web": "web:v2"},
		Resources: map[string]corev1.ResourceRequirements{"app": cpu, "web": cpu},
	})
	if err != nil || len(patches.Requests) != 2 {
		t.Fatalf("Merge = %s, %v", patches.Requests, err)
	}
	var got []string
	for _, c := range applied(t, pod, patches).Spec.Containers {
		got = append(got, c.Name+" "+c.Image+" "+c.Resources.Limits.Cpu().String())
	}
	if diff := cmp.Diff([]string{"web web:v2 2", "app app:v2 2"}, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

func TestConditions(t *testing.T) {
	readyFalse := `{"type":"Ready","status":"False","lastTransitionTime":"2026-07-01T12:00:00Z","reason":"ReadinessGatesNotReady",` +
		`"message":"the status of pod readiness gate \"example.com/Ready\" is not \"True\", but False"}`
	is := func(t corev1.PodConditionType, status, at, reason, message string) string {
		return fmt.Sprintf(`{"type":%q,"status":%q,"lastTransitionTime":%q,"reason":%s,"message":%s}`, t, status, at, reason, message)
	}
	const old, fresh = "2026-07-01T10:00:00Z", "2026-07-01T12:00:00Z"
	forced := func(c []corev1.PodCondition) podpatch.Change {
		return podpatch.Change{Conditions: c, ForceConditions: true}
	}
	plain := func(c []corev1.PodCondition) podpatch.Change { return podpatch.Change{Conditions: c} }
	foreign := []corev1.PodCondition{{Type: "other", Status: corev1.ConditionFalse, Reason: "R", Message: "m"}}
	for _, tc := range []struct {
		name    string
		edit    func(*corev1.Pod)
		changes []podpatch.Change
		want    []string
	}{
		{"no change", nil, []podpatch.Change{plain(opened())}, nil},
		{
			"U-11 forced, though the Pod shows it already", nil,
			[]podpatch.Change{forced(opened())},
			[]string{is(gate, "True", old, "null", "null")},
		},
		{
			"U-11 force concerns its own conditions only", func(pod *corev1.Pod) { pod.Status.Conditions = append(pod.Status.Conditions, foreign...) },
			[]podpatch.Change{plain(foreign), forced(opened())},
			[]string{is(gate, "True", old, "null", "null")},
		},
		{
			"status keeps its time when only the reason changes", func(pod *corev1.Pod) { pod.Status.Conditions[0] = closed("A")[0] },
			[]podpatch.Change{plain(closed("B"))},
			[]string{is(gate, "False", fresh, `"B"`, "null"), readyFalse},
		},
		{"status keeps its time when it has one", func(pod *corev1.Pod) {
			pod.Status.Conditions[0] = closed("A")[0]
			pod.Status.Conditions[0].LastTransitionTime = before
		}, []podpatch.Change{plain(closed("B"))}, []string{is(gate, "False", old, `"B"`, "null"), readyFalse}},
		{"a reason that goes is sent as null", func(pod *corev1.Pod) {
			pod.Status.Conditions[0].Reason, pod.Status.Conditions[0].Message = "R", "m"
		}, []podpatch.Change{plain(opened())}, []string{is(gate, "True", old, "null", "null")}},
		{"a condition that is no gate leaves Ready alone", nil, []podpatch.Change{plain(foreign)}, []string{is("other", "False", fresh, `"R"`, `"m"`)}},
		{
			"containers not ready: Ready is the kubelet's", func(pod *corev1.Pod) { pod.Status.Conditions[1].Status = corev1.ConditionFalse },
			[]podpatch.Change{plain(closed("R"))},
			[]string{is(gate, "False", fresh, `"R"`, "null")},
		},
		{"U-26 the gate opens again, and Ready is the kubelet's to give back", func(pod *corev1.Pod) {
			pod.Status.Conditions[0] = closed("R")[0]
			pod.Status.Conditions[2] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "x", LastTransitionTime: before}
		}, []podpatch.Change{plain(opened())}, []string{is(gate, "True", fresh, "null", "null")}},
		{"Ready that is False already keeps its reason", func(pod *corev1.Pod) {
			pod.Status.Conditions[2] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "x", LastTransitionTime: before}
		}, []podpatch.Change{plain(closed("R"))}, []string{is(gate, "False", fresh, `"R"`, "null")}},
		{"U-11 forced, Ready goes along", func(pod *corev1.Pod) {
			pod.Status.Conditions[0] = closed("R")[0]
			pod.Status.Conditions[2] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "x"}
		}, []podpatch.Change{forced(closed("R"))}, []string{is(gate, "False", fresh, `"R"`, "null"), readyFalse}},
		{
			"Ready is not there yet", func(pod *corev1.Pod) { pod.Status.Conditions = pod.Status.Conditions[:2] },
			[]podpatch.Change{plain(closed("R"))},
			[]string{is(gate, "False", fresh, `"R"`, "null"), readyFalse},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod()
			if tc.edit != nil {
				tc.edit(pod)
			}
			var want []string
			if tc.want != nil {
				want = []string{`status {"metadata":{"uid":"u1"},"status":{"conditions":[` + strings.Join(tc.want, ",") + `]}}`}
			}
			if diff := cmp.Diff(want, merge(t, pod, tc.changes...)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReady compares with the conditions written by pkg/kubelet/status of Kubernetes 1.36 for the same Pods.
func TestReady(t *testing.T) {
	const a, b = "a.example/x", "b.example/y"
	at := func(t corev1.PodConditionType, s corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: s}
	}
	containersReady := at(corev1.ContainersReady, corev1.ConditionTrue)
	notReady := func(message string) *corev1.PodCondition {
		return &corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", Message: message}
	}
	ready := &corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	for _, tc := range []struct {
		name  string
		gates []corev1.PodConditionType
		have  []corev1.PodCondition
		given []corev1.PodCondition
		want  *corev1.PodCondition // nil if known is false
	}{
		{"no gates", nil, []corev1.PodCondition{containersReady}, nil, ready},
		{
			"gate missing",
			[]corev1.PodConditionType{a},
			[]corev1.PodCondition{containersReady},
			nil,
			notReady(`corresponding condition of pod readiness gate "a.example/x" does not exist.`),
		},
		{
			"gate False",
			[]corev1.PodConditionType{a},
			[]corev1.PodCondition{containersReady, at(a, "False")},
			nil,
			notReady(`the status of pod readiness gate "a.example/x" is not "True", but False`),
		},
		{
			"gate Unknown",
			[]corev1.PodConditionType{a},
			[]corev1.PodCondition{containersReady, at(a, "Unknown")},
			nil,
			notReady(`the status of pod readiness gate "a.example/x" is not "True", but Unknown`),
		},
		{
			"several gates, in the order of the spec",
			[]corev1.PodConditionType{b, a},
			[]corev1.PodCondition{at(a, "False"), containersReady},
			nil,
			notReady(`corresponding condition of pod readiness gate "b.example/y" does not exist., the status of pod readiness gate "a.example/x" is not "True", but False`),
		},
		{
			"one of two open",
			[]corev1.PodConditionType{b, a},
			[]corev1.PodCondition{at(a, "False"), at(b, "True"), containersReady},
			nil,
			notReady(`the status of pod readiness gate "a.example/x" is not "True", but False`),
		},
		{
			"given conditions win",
			[]corev1.PodConditionType{b, a},
			[]corev1.PodCondition{at(a, "False"), containersReady},
			[]corev1.PodCondition{at(b, "True"), at(a, "True")},
			ready,
		},
		{"containers not ready", []corev1.PodConditionType{a}, []corev1.PodCondition{at(corev1.ContainersReady, "False"), at(a, "False")}, nil, nil},
		{"containers not reported", []corev1.PodConditionType{a}, nil, []corev1.PodCondition{at(a, "True")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: tc.have}}
			for _, g := range tc.gates {
				pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: g})
			}
			got, known := podpatch.Ready(pod, tc.given)
			if known != (tc.want != nil) {
				t.Fatalf("known = %v", known)
			}
			if known {
				if diff := cmp.Diff(*tc.want, got); diff != "" {
					t.Errorf("Ready (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	cpu := func(n string) map[string]corev1.ResourceRequirements {
		return map[string]corev1.ResourceRequirements{"app": {Limits: quantities("cpu", n)}}
	}
	remove := map[string]*string{"x": nil}
	for _, tc := range []struct {
		name    string
		code    reason.Code
		path    string
		changes []podpatch.Change
	}{
		{"another Pod", podpatch.StaleDecision, "metadata.uid", []podpatch.Change{{UID: "u0", Labels: labels("x", "1")}}},
		{"another version", podpatch.StaleDecision, "metadata.resourceVersion", []podpatch.Change{{UID: "u1", ResourceVersion: "6"}}},
		{"labels", podpatch.ConflictingChange, "metadata.labels[x]", []podpatch.Change{{Labels: labels("x", "1")}, {Labels: labels("x", "2")}}},
		{"label set and removed", podpatch.ConflictingChange, "metadata.labels[x]", []podpatch.Change{{Labels: labels("x", "1")}, {Labels: remove}}},
		{"annotations", podpatch.ConflictingChange, "metadata.annotations[x]", []podpatch.Change{{Annotations: remove}, {Annotations: labels("x", "")}}},
		{"finalizer added, then removed", podpatch.ConflictingChange, "metadata.finalizers[f]", []podpatch.Change{{AddFinalizers: []string{"f"}}, {RemoveFinalizers: []string{"f"}}}},
		{"finalizer removed, then added", podpatch.ConflictingChange, "metadata.finalizers[f]", []podpatch.Change{{RemoveFinalizers: []string{"f"}}, {AddFinalizers: []string{"f"}}}},
		{"finalizer both in one", podpatch.ConflictingChange, "metadata.finalizers[f]", []podpatch.Change{{AddFinalizers: []string{"f"}, RemoveFinalizers: []string{"f"}}}},
		{"conditions", podpatch.ConflictingChange, "status.conditions[example.com/Ready]", []podpatch.Change{{Conditions: closed("A")}, {Conditions: closed("B")}}},
		{"images", podpatch.ConflictingChange, "spec.containers[app].image", []podpatch.Change{{Images: map[string]string{"app": "a"}}, {Images: map[string]string{"app": "b"}}}},
		{"resources", podpatch.ConflictingChange, "spec.containers[app].resources", []podpatch.Change{{Resources: cpu("1")}, {Resources: cpu("2")}}},
		{"no such container for an image", podpatch.NoSuchContainer, "spec.containers[none].image", []podpatch.Change{{Images: map[string]string{"none": "a"}}}},
		{"a plain init container is not live", podpatch.NoSuchContainer, "spec.containers[setup].image", []podpatch.Change{{Images: map[string]string{"setup": "a"}}}},
		{"no such container for resources", podpatch.NoSuchContainer, "spec.containers[none].resources", []podpatch.Change{{Resources: map[string]corev1.ResourceRequirements{"none": {}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patches, err := podpatch.Merge(newPod(), now, tc.changes...)
			if !errors.Is(err, tc.code) || !patches.IsEmpty() {
				t.Fatalf("Merge = %v, %v; want %s and nothing to send", patches, err, tc.code)
			}
			want := reason.Object{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "u1"}
			if why := reason.From(err)[0]; why.Path != tc.path || why.Object != want || (why.Old == "" && why.New == "") {
				t.Errorf("reason %+v, want path %s, the Pod and the values", why, tc.path)
			}
		})
	}
	if _, err := podpatch.Merge(newPod(), now, podpatch.Change{Resources: cpu("1")}, podpatch.Change{Resources: cpu("1000m")}); err != nil {
		t.Errorf("quantities that are equal conflict: %v", err)
	}
}

// TestErrorsNameEverything: the error names every fault, and the same changes always give the same error.
func TestErrorsNameEverything(t *testing.T) {
	for _, tc := range disagreements() {
		t.Run(tc.name, func(t *testing.T) {
			patches, err := podpatch.Merge(newPod(), now, tc.changes...)
			for i := range tc.want {
				tc.want[i].Object = reason.Object{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "u1"}
			}
			if diff := cmp.Diff(tc.want, reason.From(err)); diff != "" || !patches.IsEmpty() {
				t.Errorf("problems (-want +got), to send %s:\n%s", patches.Requests, diff)
			}
		})
	}
}

// disagreement has conflicting changes of several deciders, and the expected reasons.
type disagreement struct {
	name    string
	changes []podpatch.Change
	want    reason.List
}

func limit(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: quantities("cpu", cpu)}
}

func limitBoth(app, proxy string) map[string]corev1.ResourceRequirements {
	return map[string]corev1.ResourceRequirements{"app": limit(app), "proxy": limit(proxy)}
}

func closedWith(message string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: "R", Message: message}}
}

const (
	conflict = podpatch.ConflictingChange
	stale    = podpatch.StaleDecision
	none     = podpatch.NoSuchContainer
	invalid  = podpatch.InvalidChange
)

func disagreements() []disagreement {
	return []disagreement{
		{
			"keys of one map",
			[]podpatch.Change{{Labels: labels("e", "1", "c", "1", "a", "1", "d", "1", "b", "1")}, {Labels: labels("a", "2", "b", "2", "c", "2", "d", "2", "e", "1")}},
			reason.List{
				{Code: conflict, Path: "metadata.labels[a]", Old: `"1"`, New: `"2"`},
				{Code: conflict, Path: "metadata.labels[b]", Old: `"1"`, New: `"2"`},
				{Code: conflict, Path: "metadata.labels[c]", Old: `"1"`, New: `"2"`},
				{Code: conflict, Path: "metadata.labels[d]", Old: `"1"`, New: `"2"`},
			},
		},
		{
			"each part of a Pod",
			[]podpatch.Change{
				{
					Labels: labels("x", "1"), Annotations: labels("x", "1"), AddFinalizers: []string{"f"}, RemoveFinalizers: []string{"g"}, Conditions: closedWith("a"),
					Images: map[string]string{"app": "app:v2", "proxy": "proxy:v2"}, Resources: limitBoth("1", "1"),
				},
				{
					Labels: map[string]*string{"x": nil}, Annotations: labels("x", ""), AddFinalizers: []string{"g"}, RemoveFinalizers: []string{"f"}, Conditions: closedWith("b"),
					Images: map[string]string{"app": "app:v3", "proxy": "proxy:v2"}, Resources: limitBoth("2", "1000m"),
				},
			},
			reason.List{
				{Code: conflict, Path: "metadata.annotations[x]", Old: `"1"`, New: `""`},
				{Code: conflict, Path: "metadata.finalizers[f]", Old: "(added)", New: "(removed)"},
				{Code: conflict, Path: "metadata.finalizers[g]", Old: "(removed)", New: "(added)"},
				{Code: conflict, Path: "metadata.labels[x]", Old: `"1"`, New: "(removed)"},
				{Code: conflict, Path: "spec.containers[app].image", Old: "app:v2", New: "app:v3"},
				{Code: conflict, Path: "spec.containers[app].resources", Old: `{"limits":{"cpu":"1"}}`, New: `{"limits":{"cpu":"2"}}`},
				{Code: conflict, Path: "status.conditions[example.com/Ready]", Old: "False R a", New: "False R b"},
			},
		},
		{
			"three opinions: the first against each other one, each once",
			[]podpatch.Change{{Labels: labels("x", "1")}, {Labels: labels("x", "3")}, {Labels: labels("x", "2")}, {Labels: labels("x", "3")}},
			reason.List{
				{Code: conflict, Path: "metadata.labels[x]", Old: `"1"`, New: `"3"`}, {Code: conflict, Path: "metadata.labels[x]", Old: `"1"`, New: `"2"`},
			},
		},
		{
			"of stale changes nothing else counts",
			[]podpatch.Change{
				{Labels: labels("x", "1")}, {UID: "u0", Labels: labels("x", "2")}, {ResourceVersion: "6", Images: map[string]string{"none": "a"}}, {Labels: labels("x", "1")},
			},
			reason.List{{Code: stale, Path: "metadata.resourceVersion", Old: "6", New: "7"}, {Code: stale, Path: "metadata.uid", Old: "u0", New: "u1"}},
		},
		{
			"containers that are not there",
			[]podpatch.Change{{
				Images: map[string]string{"none": "a", "setup": "b"}, Resources: map[string]corev1.ResourceRequirements{"none": limit("200m")},
			}},
			reason.List{
				{Code: none, Path: "spec.containers[none].image", New: "a"},
				{Code: none, Path: "spec.containers[none].resources", New: `{"limits":{"cpu":"200m"}}`},
				{Code: none, Path: "spec.containers[setup].image", New: "b"},
			},
		},
		{
			"what no Pod should have",
			[]podpatch.Change{{
				Conditions: []corev1.PodCondition{{Type: gate}, {Status: corev1.ConditionTrue}}, Images: map[string]string{"app": ""},
			}},
			reason.List{
				{Code: invalid, Path: "spec.containers[app].image", Detail: "must not be empty"},
				{Code: invalid, Path: "status.conditions[].type", Detail: "must not be empty"},
				{Code: invalid, Path: "status.conditions[example.com/Ready].status", Detail: "must not be empty"},
			},
		},
	}
}

// TestZeroTime: the transition time of a condition must not be zero. Changes without a condition need no time.
func TestZeroTime(t *testing.T) {
	if patches, err := podpatch.Merge(newPod(), time.Time{}, podpatch.Change{Conditions: closed("R")}); !errors.Is(err, podpatch.InvalidChange) || !patches.IsEmpty() {
		t.Errorf("Merge of a condition = %s, %v", patches.Requests, err)
	}
	if patches, err := podpatch.Merge(newPod(), time.Time{}, podpatch.Change{Labels: labels("x", "1")}); err != nil || patches.IsEmpty() {
		t.Errorf("Merge of a label = %s, %v", patches.Requests, err)
	}
}

func TestChangeIsEmpty(t *testing.T) {
	for name, c := range map[string]podpatch.Change{
		"labels": {Labels: labels("a", "b")}, "annotations": {Annotations: labels("a", "b")}, "add": {AddFinalizers: []string{"f"}},
		"remove": {RemoveFinalizers: []string{"f"}}, "conditions": {Conditions: opened()}, "images": {Images: map[string]string{"app": "a"}},
		"resources": {Resources: map[string]corev1.ResourceRequirements{"app": {}}},
	} {
		if c.IsEmpty() {
			t.Errorf("a change of %s is empty", name)
		}
	}
	if c := (podpatch.Change{UID: "u", ResourceVersion: "1", ForceConditions: true}); !c.IsEmpty() {
		t.Error("preconditions and options alone are a change")
	}
}

// TestOtherFieldsOfAConditionStay shows that a patch does not change fields of a condition that the patch does not
// contain.
func TestOtherFieldsOfAConditionStay(t *testing.T) {
	pod := newPod()
	pod.Status.Conditions[0].LastProbeTime, pod.Status.Conditions[0].ObservedGeneration = before, 3
	patches, err := podpatch.Merge(pod, now, podpatch.Change{Conditions: closed("R")})
	if err != nil {
		t.Fatal(err)
	}
	got := applied(t, pod, patches).Status.Conditions[0]
	want := closed("R")[0]
	want.LastProbeTime, want.ObservedGeneration, want.LastTransitionTime = before, 3, metav1.NewTime(now)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

// applied returns the Pod as stored by an API server after the patches. Each request changes only the fields that its
// subresource may change.
func applied(t testing.TB, pod *corev1.Pod, patches podpatch.Patches) *corev1.Pod {
	t.Helper()
	for _, p := range patches.Requests {
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := strategicpatch.StrategicMergePatch(raw, p.Body, &corev1.Pod{})
		if err != nil {
			t.Fatalf("%s patch %s: %v", p.Subresource, p.Body, err)
		}
		next := &corev1.Pod{}
		if err := json.Unmarshal(merged, next); err != nil {
			t.Fatal(err)
		}
		switch p.Subresource {
		case "status":
			next.Spec = pod.Spec
		case "resize":
			next.ObjectMeta, next.Status = pod.ObjectMeta, pod.Status
		default:
			next.Status = pod.Status
		}
		pod = next
	}
	return pod
}

func BenchmarkMerge(b *testing.B) {
	pod := newPod()
	changes := []podpatch.Change{
		{UID: "u1", Conditions: closed("Updating"), ForceConditions: true, Images: map[string]string{"app": "app:v2"}, Annotations: labels("state", "{}")},
		{Labels: labels("revision", "web-2")},
	}
	b.ReportAllocs()
	for b.Loop() {
		if patches, err := podpatch.Merge(pod, now, changes...); err != nil || len(patches.Requests) != 2 {
			b.Fatal(patches, err)
		}
	}
}
