package podwebhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

func request(t testing.TB, raw string, edits ...func(*admission.Request)) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Namespace: "team", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: []byte(raw)},
	}}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func step(name string, mutate func(pod *corev1.Pod) error) podwebhook.Mutator {
	return podwebhook.Mutator{Name: name, Mutate: func(_ context.Context, pod *corev1.Pod, _ *admission.Request) error { return mutate(pod) }}
}

func handler(t testing.TB, steps ...podwebhook.Mutator) *podwebhook.Handler {
	t.Helper()
	h, err := podwebhook.New(steps...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const pod = `{"metadata":{"name":"web","labels":{"a/b":"1"},"futureMeta":1},"spec":{"futureSpec":2,"containers":[` +
	`{"name":"app","image":"app:v1","futureField":{"x":[1]},"env":[{"name":"A","value":"1","futureEnv":true}],"volumeMounts":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]}],` +
	`"nodeSelector":{"zone":"x"},"terminationGracePeriodSeconds":30}}`

// TestPatch: the patch makes the steps' changes in the JSON sent by the API server, and does not change unknown
// fields.
func TestPatch(t *testing.T) {
	for _, tc := range []struct {
		name   string
		mutate func(*corev1.Pod)
		want   []string // operations and paths
		have   string   // a part of the patched Pod
	}{
		{"WH-3 nothing", func(*corev1.Pod) {}, nil, `"futureSpec":2`},
		{"the namespace is filled in for the steps alone", func(pod *corev1.Pod) {
			if pod.Namespace != "team" {
				pod.Labels["wrong"] = pod.Namespace
			}
		}, nil, `"name":"web"`},
		{"a label and a first annotation", func(pod *corev1.Pod) {
			pod.Labels["c~d"], pod.Annotations = "2", map[string]string{"e": "3"}
		}, []string{"add /metadata/labels/c~0d", "add /metadata/annotations"}, `"c~d":"2"`},
		{
			"a label goes", func(pod *corev1.Pod) { delete(pod.Labels, "a/b"); pod.Labels["x"] = "y" },
			[]string{"remove /metadata/labels/a~1b", "add /metadata/labels/x"},
			`"futureMeta":1`,
		},
		{"containers around", func(pod *corev1.Pod) {
			pod.Spec.Containers = []corev1.Container{{Name: "before"}, pod.Spec.Containers[0], {Name: "after"}}
		}, []string{"add /spec/containers/0", "add /spec/containers/-"}, `"futureField":{"x":[1]}`},
		{"an env variable more", func(pod *corev1.Pod) {
			app := &pod.Spec.Containers[0]
			app.Env = append([]corev1.EnvVar{}, app.Env[0], corev1.EnvVar{Name: "B"})
			pod.Spec.Containers = append([]corev1.Container{{Name: "before"}}, *app)
		}, []string{"add /spec/containers/0", "add /spec/containers/1/env/-"}, `"futureEnv":true`},
		{
			"another env variable", func(pod *corev1.Pod) { pod.Spec.Containers[0].Env[0].Value = "2" },
			[]string{"add /spec/containers/0/env/0/value"},
			`"futureEnv":true`,
		},
		{"a mount of the same volume", func(pod *corev1.Pod) {
			app := &pod.Spec.Containers[0]
			app.VolumeMounts = append(app.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/c"})
		}, []string{"add /spec/containers/0/volumeMounts/-"}, `"mountPath":"/c"`},
		{
			"a container goes", func(pod *corev1.Pod) { pod.Spec.Containers = []corev1.Container{{Name: "other"}} },
			[]string{"add /spec/containers"},
			`"futureSpec":2`,
		},
		{"a field is removed, one changed, one added", func(pod *corev1.Pod) {
			pod.Spec.NodeSelector, pod.Spec.TerminationGracePeriodSeconds, pod.Spec.Affinity = nil, new(int64(5)), &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}, []string{"add /spec/terminationGracePeriodSeconds", "remove /spec/nodeSelector", "add /spec/affinity"}, `"terminationGracePeriodSeconds":5`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := handler(t, step("one", func(pod *corev1.Pod) error { tc.mutate(pod); return nil }))
			response := h.Handle(t.Context(), request(t, pod))
			if !response.Allowed {
				t.Fatalf("refused: %v", response.Result)
			}
			if got := paths(t, response.Patch); cmp.Diff(tc.want, got) != "" {
				t.Errorf("operations (-want +got):\n%s", cmp.Diff(tc.want, got))
			}
			after := apply(t, pod, response.Patch)
			want := decode(t, pod)
			want.Namespace = "team"
			tc.mutate(want)
			want.Namespace = ""
			if diff := cmp.Diff(want, decode(t, after)); diff != "" {
				t.Errorf("the patched Pod (-want +got):\n%s", diff)
			}
			if !strings.Contains(after, tc.have) {
				t.Errorf("%s lacks %s", after, tc.have)
			}
		})
	}
}

func paths(t testing.TB, patch []byte) (out []string) {
	t.Helper()
	var operations []struct{ Op, Path string }
	if len(patch) > 0 {
		if err := json.Unmarshal(patch, &operations); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range operations {
		out = append(out, o.Op+" "+o.Path)
	}
	return out
}

func apply(t testing.TB, raw string, patch []byte) string {
	t.Helper()
	if len(patch) == 0 {
		return raw
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := decoded.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	return string(after)
}

func decode(t testing.TB, raw string) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	if err := json.Unmarshal([]byte(raw), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefused: a failed step refuses the Pod, and later steps do not run.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  func() error
		code int32
		text string
	}{
		{"a reason", func() error { return reason.Reason{Code: "Odd", Path: "spec.x"} }, 403, "one: Odd: spec.x"},
		{"WH-3 an error", func() error { return errors.New("boom") }, 500, "one: boom"},
		{"an error of the API", func() error {
			return fmt.Errorf("reading: %w", apierrors.NewServiceUnavailable("later"))
		}, 503, "one: reading: later"},
		{"a panic", func() error { panic("ouch") }, 500, "one: it panicked; the log says where"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := handler(t, step("one", func(*corev1.Pod) error { return tc.err() }), step("two", func(*corev1.Pod) error {
				t.Error("the next step runs")
				return nil
			}))
			response := h.Handle(t.Context(), request(t, pod))
			if response.Allowed || response.Result.Code != tc.code || len(response.Patch) > 0 || !strings.Contains(response.Result.Message, tc.text) {
				t.Errorf("%v %+v, want %d %s", response.Allowed, response.Result, tc.code, tc.text)
			}
		})
	}
}

// TestLeftAlone: the Handler allows requests that do not create Pods.
func TestLeftAlone(t *testing.T) {
	fails := step("one", func(*corev1.Pod) error { return errors.New("ran") })
	for _, tc := range []struct {
		name string
		edit func(*admission.Request)
		want int32
	}{
		{"SC-10 an update", func(r *admission.Request) { r.Operation = admissionv1.Update }, 200},
		{"SC-10 a subresource", func(r *admission.Request) { r.SubResource = "eviction" }, 200},
		{"SC-10 another resource", func(r *admission.Request) { r.Resource.Resource = "services" }, 200},
		{"WH-3 no Pod", func(r *admission.Request) { r.Object.Raw = []byte(`{"spec":3}`) }, 400},
		{"a creation", func(*admission.Request) {}, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if response := handler(t, fails).Handle(t.Context(), request(t, pod, tc.edit)); response.Result.Code != tc.want {
				t.Errorf("code %d, want %d", response.Result.Code, tc.want)
			}
		})
	}
}

func TestNew(t *testing.T) {
	fine := step("one", func(*corev1.Pod) error { return nil })
	for want, steps := range map[string][]podwebhook.Mutator{
		"step 0 needs a name":                         {{Mutate: fine.Mutate}},
		`step 0 ("one") needs Mutate`:                 {{Name: "one"}},
		`step 1 ("one") has the name of another step`: {fine, fine},
	} {
		if _, err := podwebhook.New(steps...); err == nil || err.Error() != "podwebhook: "+want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := (podwebhook.Injection{}).Mutator("one"); err == nil {
		t.Error("no error for an injection without a control")
	}
	if diff := cmp.Diff([]string{"one"}, handler(t, fine).Steps()); diff != "" {
		t.Error(diff)
	}
}

// TestWarnings: the response has the warnings of the steps, with or without a patch. A Pod is admitted even if Warn
// panics.
func TestWarnings(t *testing.T) {
	named := step("one", func(pod *corev1.Pod) error { pod.Labels["a/b"] = "2"; return nil })
	named.Warn = func(before, after *corev1.Pod) []string {
		return []string{before.Labels["a/b"] + " is " + after.Labels["a/b"]}
	}
	silent, panics := step("two", func(*corev1.Pod) error { return nil }), step("three", func(*corev1.Pod) error { return nil })
	panics.Warn = func(*corev1.Pod, *corev1.Pod) []string { panic("no") }
	response := handler(t, silent, panics, named).Handle(t.Context(), request(t, pod))
	if diff := cmp.Diff([]string{"1 is 2"}, response.Warnings); diff != "" || !response.Allowed || len(response.Patch) == 0 {
		t.Errorf("allowed %t, patch %s, warnings (-want +got):\n%s", response.Allowed, response.Patch, diff)
	}
}

// TestUndecodable: the Handler refuses a request without a Pod, and a request that would take minutes to decode. The
// message names the field's path. API servers never send such requests, but other clients may.
func TestUndecodable(t *testing.T) {
	h := handler(t, step("any", func(*corev1.Pod) error { return nil }))
	for raw, want := range map[string]string{
		`[`:                                    "decoding the Pod",
		`{"spec":{"containers":[{"name":1}]}}`: "spec.containers[0].name: is 1, must be text",
		`{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1e-200000000"}}}]}}`: "spec.containers[0].resources.limits.cpu",
	} {
		response := h.Handle(t.Context(), request(t, raw))
		if response.Allowed || response.Result.Code != 400 || !strings.Contains(response.Result.Message, want) {
			t.Errorf("%s: allowed %v, %v, want %q", raw, response.Allowed, response.Result, want)
		}
	}
}

// TestMirrorPods: a mirror Pod is not changed, because the kubelet runs the Pod from a file.
func TestMirrorPods(t *testing.T) {
	h := handler(t, step("label", func(pod *corev1.Pod) error {
		pod.Labels = map[string]string{"a": "b"}
		return nil
	}))
	for raw, want := range map[string]bool{
		`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}}}`: false,
		`{"metadata":{"annotations":{"kubernetes.io/config.hash":"x"}}}`:   true,
	} {
		if response := h.Handle(t.Context(), request(t, raw)); !response.Allowed || (response.Patch != nil) != want {
			t.Errorf("%s: allowed %v, patch %s", raw, response.Allowed, response.Patch)
		}
	}
}
