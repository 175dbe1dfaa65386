package cause_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
)

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return u
}

func decode[T any](t testing.TB, text string) (value T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return value
}

// pod returns a running, ready Pod of revision web-2. The arguments are YAML that replaces parts of the Pod.
func pod(t testing.TB, metadata, spec, status string) *corev1.Pod {
	t.Helper()
	p := decode[corev1.Pod](t, `{apiVersion: v1, kind: Pod, metadata: {name: web-a, namespace: default, labels: {app: web, controller-revision-hash: web-2}, creationTimestamp: "2026-03-01T10:00:00Z"},
spec: {nodeName: n1, containers: [{name: app, image: a:1}]},
status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: app, ready: true, image: a:1, imageID: "", restartCount: 0, state: {running: {}}}]}}`)
	merge := func(text string, into any) {
		if text != "" {
			if err := yaml.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
		}
	}
	merge(metadata, &p.ObjectMeta)
	merge(spec, &p.Spec)
	merge(status, &p.Status)
	return &p
}

// about returns the facts for a Pod.
func about(t testing.TB, p *corev1.Pod) cause.Facts {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		t.Fatal(err)
	}
	return cause.Facts{Object: &unstructured.Unstructured{Object: content}, Pods: []corev1.Pod{*p}, Now: now()}
}

// lines renders causes for comparison.
func lines(causes []cause.Cause) (list []string) {
	for _, c := range causes {
		list = append(list, fmt.Sprintf("%s %s: %s | %s", c.Layer, c.Code, c.Detail, c.Remedy))
	}
	return list
}

// waiting returns the status of a Pod whose container waits.
func waiting(reason, message string) string {
	return fmt.Sprintf(`{conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: app, image: a:1, imageID: "", restartCount: 4, ready: false, state: {waiting: {reason: %s, message: %q}},
lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`, reason, message)
}

func TestPods(t *testing.T) {
	const notReady = `{conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: app, image: a:1, imageID: "", restartCount: 0, ready: false, state: {running: {}}}]}`
	tests := []struct {
		name                   string
		metadata, spec, status string
		facts                  func(*cause.Facts)
		want                   []string
	}{
		{name: "healthy"},
		{
			name: "unschedulable", spec: `{nodeName: ""}`, status: `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/3 nodes}]}`,
			want: []string{"scheduler Unschedulable: 0/3 nodes | make room on a Node that fits, or change what the Pod demands"},
		},
		{
			name: "a claim that does not exist", spec: `{nodeName: "", volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}`,
			status: `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: '0/3 nodes are available: persistentvolumeclaim "data" not found. not found'}]}`,
			want:   []string{`scheduler Unschedulable: 0/3 nodes are available: persistentvolumeclaim "data" not found | create the PersistentVolumeClaim, or correct the claim's name in the template`},
		},
		{
			name: "a claim that is not bound", spec: `{nodeName: "", volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}`,
			status: `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: '0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found'}]}`,
			want:   []string{"scheduler Unschedulable: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims; the claims of the Pod: data | the claims are bound: see kubectl describe pvc"},
		},
		{
			name: "no resources", spec: `{nodeName: ""}`,
			status: `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.'}]}`,
			want:   []string{"scheduler Unschedulable: 0/3 nodes are available: 3 Insufficient cpu | Nodes with more free resources, or smaller requests"},
		},
		{
			name: "an image of an update", spec: `{containers: [{name: app, image: "a:2"}]}`, status: waiting("ImagePullBackOff", "Back-off pulling image a:2"),
			want: []string{"runtime ImagePullBackOff: container app: Back-off pulling image a:2 | an image that the Node can pull, or credentials for the registry"},
		},
		{
			name: "a crash", status: waiting("CrashLoopBackOff", "back-off"),
			want: []string{"runtime CrashLoopBackOff: container app keeps ending (restarts: 4), last with exit code 137 OOMKilled | see kubectl logs web-a -c app --previous"},
		},
		{
			name: "an image", status: waiting("ErrImagePull", "no such host"),
			want: []string{"runtime ErrImagePull: container app: no such host (image a:1) | an image that the Node can pull, or credentials for the registry"},
		},
		{
			name: "a missing Secret", status: waiting("CreateContainerConfigError", `secret "s" not found`),
			want: []string{`runtime CreateContainerConfigError: container app: secret "s" not found | the missing ConfigMap, Secret or key`},
		},
		{
			name: "launch priority", status: waiting("CreateContainerConfigError", "couldn't find key p_1 in ConfigMap default/web-a-barrier"),
			want: []string{"controller LaunchPriority: container app waits for containers that start before: couldn't find key p_1 in ConfigMap default/web-a-barrier | the start of the containers of higher launch priority, by the manager"},
		},
		{
			name: "a volume, by the newest event", status: waiting("ContainerCreating", ""),
			facts: func(f *cause.Facts) {
				f.Events = []corev1.Event{
					{InvolvedObject: corev1.ObjectReference{Name: "web-a"}, Type: "Warning", Reason: "FailedMount", Message: "no disk", LastTimestamp: metav1.NewTime(now())},
					{InvolvedObject: corev1.ObjectReference{Name: "web-a", UID: "former"}, Type: "Warning", Reason: "Former", Message: "x", LastTimestamp: metav1.NewTime(now().Add(time.Second))},
					{InvolvedObject: corev1.ObjectReference{Name: "web-a"}, Type: "Warning", Reason: "Old", Message: "x", LastTimestamp: metav1.NewTime(now().Add(-time.Hour))},
				}
			},
			want: []string{"node ContainerCreating: container app is being created: FailedMount: no disk | see the kubelet's events of the Pod"},
		},
		{
			name: "an init container", status: `{conditions: [{type: Ready, status: "False"}], initContainerStatuses: [{name: init, image: a, imageID: "", restartCount: 0, ready: false, state: {running: {}}}]}`,
			want: []string{"runtime PodInitializing: init container init runs, and the containers start after its end | the end of the init container"},
		},
		{name: "a readiness probe", status: notReady, want: []string{"runtime NotReady: container app runs and is not ready | see the readiness probe and the log of the container"}},
		{
			name: "a Node that is lost", status: notReady,
			facts: func(f *cause.Facts) { f.IsNodesRead = true },
			want: []string{
				"node NodeGone: the Node n1 does not exist | the Pod is removed by the controller for lost Nodes, or delete the Pod",
				"runtime NotReady: container app runs and is not ready | see the readiness probe and the log of the container",
			},
		},
		{
			name: "a gate of several writers", spec: "{readinessGates: [{conditionType: KruisePodReady}]}",
			status: `{conditions: [{type: Ready, status: "False"}, {type: KruisePodReady, status: "False", message: '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'}]}`,
			want:   []string{"hook GateHolds: readiness gate KruisePodReady: held by Lifecycle (preDeleteHook) | the holders of the gate set the condition"},
		},
		{
			name: "a hook before deletion", metadata: `{labels: {lifecycle.apps.kruise.io/state: PreparingDelete, hold: "yes"}}`,
			facts: func(f *cause.Facts) {
				f.Owner = &unstructured.Unstructured{Object: map[string]any{"kind": "CloneSet", "spec": map[string]any{"lifecycle": map[string]any{"preDelete": map[string]any{
					"labelsHandler": map[string]any{"hold": "yes"},
				}}}}}
			},
			want: []string{"hook HookHolds: the hook preDelete holds the Pod in the state PreparingDelete | the holder of the hook answers: label hold=yes is removed"},
		},
		{
			name: "a finalizer", metadata: `{deletionTimestamp: "2026-03-01T11:59:00Z", finalizers: [example.test/hold]}`,
			want: []string{"hook FinalizerHolds: the Pod is being deleted since 2026-03-01T11:59:00Z; finalizers: example.test/hold | the owners of the finalizers end their work and remove the finalizers"},
		},
		{
			name: "a kubelet that does not end", metadata: `{deletionTimestamp: "2026-03-01T11:59:00Z"}`,
			want: []string{"node Terminating: the grace period has ended 1m0s ago, and the kubelet has not removed the Pod | see the kubelet and the container runtime of Node n1"},
		},
		{
			name: "evicted", status: `{phase: Failed, reason: Evicted, message: low on disk}`,
			want: []string{"runtime Evicted: low on disk | the controller replaces the Pod, or delete the Pod"},
		},
		{
			name: "not updated: a partition", metadata: `{labels: {controller-revision-hash: web-1}}`, facts: owned(`{updateStrategy: {partition: 2}}`),
			want: []string{"user PartitionReached: the Pod is at revision web-1, CloneSet web is at web-2: the partition is 2 | lower the partition of CloneSet web"},
		},
		{name: "the revision in its short spelling", metadata: `{labels: {controller-revision-hash: "2"}}`, facts: owned(`{}`)},
		{
			name: "not injected: the SidecarSet is younger",
			facts: func(f *cause.Facts) {
				f.SidecarSets = []unstructured.Unstructured{{Object: map[string]any{
					"metadata": map[string]any{"name": "log", "creationTimestamp": "2026-03-01T11:00:00Z"},
					"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
				}}}
			},
			want: []string{"webhook NotInjected: the SidecarSet log is younger than the Pod | recreate the Pod"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := about(t, pod(t, tt.metadata, tt.spec, tt.status))
			if tt.facts != nil {
				tt.facts(&f)
			}
			if diff := cmp.Diff(tt.want, lines(cause.Of(f))); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}

// owned makes a CloneSet with the update revision web-2 the owner of the Pod.
func owned(spec string) func(*cause.Facts) {
	return func(f *cause.Facts) {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		if err := yaml.Unmarshal([]byte(`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: web}, status: {updateRevision: web-2}, spec: `+spec+`}`), &u.Object); err != nil {
			panic(err)
		}
		f.Owner = u
	}
}

func TestHealthyPodNamesBudgets(t *testing.T) {
	f := about(t, pod(t, "", "", ""))
	f.Disruptions = []policyv1.PodDisruptionBudget{decode[policyv1.PodDisruptionBudget](t, `{metadata: {name: pdb}, spec: {selector: {matchLabels: {app: web}}}, status: {currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0, expectedPods: 1}}`)}
	f.Budgets = []unstructured.Unstructured{*object(t, `{metadata: {name: pub}, spec: {selector: {matchLabels: {app: web}}}, status: {unavailableAllowed: 0, currentAvailable: 1, desiredAvailable: 1}}`)}
	if got := cause.Of(f); len(got) != 0 {
		t.Errorf("a healthy Pod has causes: %q", lines(got))
	}
	want := "Pod web-a is healthy: ready; an eviction would be refused: PodDisruptionBudget pdb allows no eviction: 1 Pods are healthy, 1 are required" +
		"; an eviction would be refused: PodUnavailableBudget pub allows no unavailable Pod: 1 are available, 1 are required"
	if diff := cmp.Diff(want, cause.Healthy(f)); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestWorkloads(t *testing.T) {
	failing := func(name string) corev1.Pod {
		p := pod(t, "{name: "+name+"}", "", waiting("CrashLoopBackOff", "x"))
		return *p
	}
	tests := []struct {
		name, object string
		pods         []corev1.Pod
		refusals     []cause.Refusal
		want         []string
	}{
		{
			name:   "healthy",
			object: "{spec: {replicas: 1, template: {spec: {containers: []}}}, status: {observedGeneration: 1, updatedReplicas: 1, updatedReadyReplicas: 1, readyReplicas: 1}}",
			pods:   []corev1.Pod{*pod(t, "", "", "")},
		},
		{
			name:   "no manager",
			object: "{spec: {replicas: 1, template: {spec: {containers: []}}}}",
			want:   []string{"controller SpecUnobserved: the controller has not seen the present spec | see whether the manager runs: kubectl kruise doctor"},
		},
		{
			name:   "the Pods say why, before the controller that waits for Pods",
			object: "{spec: {replicas: 2, template: {spec: {containers: []}}}, status: {observedGeneration: 1, updatedReplicas: 2, conditions: [{type: Waiting, status: 'True', reason: OrderedWait, message: waits for web-0}]}}",
			pods:   []corev1.Pod{failing("web-0"), failing("web-1")},
			want: []string{
				"runtime CrashLoopBackOff: container app keeps ending (restarts: 4), last with exit code 137 OOMKilled | see kubectl logs web-0 -c app --previous",
				"controller OrderedWait: waits for web-0 | the end of the other causes",
			},
		},
		{
			name: "a quota, by the condition and by a trial", object: "{spec: {replicas: 1, template: {spec: {containers: []}}}, status: {observedGeneration: 1, conditions: [{type: FailedScale, status: 'True', message: 'exceeded quota: q'}]}}",
			refusals: []cause.Refusal{{Operation: "create a Pod", Message: "exceeded quota: q"}},
			want:     []string{"quota QuotaExceeded: exceeded quota: q | raise the quota, or free some of the quota"},
		},
		{
			name: "a webhook that does not answer", object: "{spec: {replicas: 1, template: {spec: {containers: []}}}, status: {observedGeneration: 1}}",
			refusals: []cause.Refusal{{Operation: "create a Pod", Message: `failed calling webhook "m.kb.io": no endpoints`}},
			want:     []string{`webhook WebhookUnreachable: create a Pod: failed calling webhook "m.kb.io": no endpoints | repair the webhook's server, or its configuration`},
		},
		{
			name: "paused before all else that Pods say", object: "{spec: {replicas: 1, updateStrategy: {rollingUpdate: {paused: true}}, template: {spec: {containers: []}}}, status: {observedGeneration: 1}}",
			pods: []corev1.Pod{failing("web-0")},
			want: []string{
				`user Paused: CloneSet "web" is paused: 0 out of 1 new pods have been updated | kubectl kruise rollout resume cloneset/web`,
				"runtime CrashLoopBackOff: container app keeps ending (restarts: 4), last with exit code 137 OOMKilled | see kubectl logs web-0 -c app --previous",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := object(t, tt.object)
			u.SetAPIVersion("apps.kruise.io/v1beta1")
			u.SetKind("CloneSet")
			u.SetName("web")
			u.SetGeneration(1)
			got := cause.Of(cause.Facts{Object: u, Pods: tt.pods, Refusals: tt.refusals, Now: now()})
			if diff := cmp.Diff(tt.want, lines(got)); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyPodHeldByHook(t *testing.T) {
	u := object(t, "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: web}, spec: {replicas: 1, lifecycle: {inPlaceUpdate: {finalizersHandler: [example.test/drain]}}}}")
	p := pod(t, "{labels: {lifecycle.apps.kruise.io/state: PreparingUpdate}, finalizers: [example.test/drain]}", "", "")
	want := []string{"hook HookHolds: the hook inPlaceUpdate holds the Pod in the state PreparingUpdate | the holder of the hook answers: finalizer example.test/drain is removed"}
	if diff := cmp.Diff(want, lines(cause.Of(cause.Facts{Object: u, Pods: []corev1.Pod{*p}, Now: now()}))); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

func TestEqualCausesAreOne(t *testing.T) {
	u := object(t, "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: web}, spec: {replicas: 2}}")
	var pods []corev1.Pod
	for _, name := range []string{"web-a", "web-b"} {
		pods = append(pods, *pod(t, "{name: "+name+"}", "", waiting("ErrImagePull", "no such host")))
	}
	got := cause.Of(cause.Facts{Object: u, Pods: pods, Now: now()})
	if len(got) != 1 || strings.Join(got[0].Pods, " ") != "web-a web-b" {
		t.Errorf("causes are %+v", got)
	}
}

// FuzzOf: for any Pod, each cause has a layer, a code and a remedy. Without a cause, Healthy returns a line.
func FuzzOf(f *testing.F) {
	f.Add(`{"metadata":{"name":"a"},"status":{"phase":"Pending"}}`, `{}`)
	f.Add(`{"metadata":{"name":"a","finalizers":["x"],"deletionTimestamp":"2026-03-01T11:59:00Z"}}`, `{"spec":{"lifecycle":{}}}`)
	f.Add(`{"spec":{"nodeName":"n","readinessGates":[{"conditionType":"KruisePodReady"}]},"status":{"conditions":[{"type":"KruisePodReady","message":"["}],"containerStatuses":[{"name":"a"}]}}`, `{}`)
	f.Fuzz(func(t *testing.T, podText, ownerText string) {
		p, owner := corev1.Pod{}, map[string]any{}
		if yaml.Unmarshal([]byte(podText), &p) != nil || yaml.Unmarshal([]byte(ownerText), &owner) != nil {
			return
		}
		p.APIVersion, p.Kind, p.Name = "v1", "Pod", "a"
		facts := about(t, &p)
		facts.Owner, facts.IsNodesRead = &unstructured.Unstructured{Object: owner}, true
		causes := cause.Of(facts)
		for _, c := range causes {
			if c.Layer == "" || c.Code == "" || c.Remedy == "" {
				t.Errorf("an incomplete cause: %+v", c)
			}
		}
		if cause.Healthy(facts) == "" || cause.Summary(facts) == "" {
			t.Error("no line")
		}
	})
}
