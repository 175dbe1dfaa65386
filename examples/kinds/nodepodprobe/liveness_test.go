package nodepodprobe

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/node/probing"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// live returns a Pod of a CloneSet with a running container.
func live(edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "x", UID: "ax", Annotations: map[string]string{apps.AnnotationUsingEnhancedLiveness: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Controller: ptr.To(true)}},
	}}
	pod.Spec.NodeName = "n"
	pod.Spec.Containers = []corev1.Container{{Name: "app", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}}}}, {Name: "log"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "app", ContainerID: "c://1", Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}},
	}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func TestMove(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*corev1.Pod)
		want string
	}{
		"EL-1 a Pod of a workload of the group": {nil, `[{"name":"app","livenessProbe":{"exec":{"command":["a"]}}}]`},
		"EL-1 not asked for":                    {func(pod *corev1.Pod) { pod.Annotations = nil }, ""},
		"EL-1 a Pod of another workload":        {func(pod *corev1.Pod) { pod.OwnerReferences[0].APIVersion = "apps/v1" }, ""},
		"EL-1 no liveness probe":                {func(pod *corev1.Pod) { pod.Spec.Containers[0].LivenessProbe = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := live(tt.edit)
			before := pod.DeepCopy()
			if err := move(pod); err != nil {
				t.Fatal(err)
			}
			if got := pod.Annotations[apps.AnnotationContainerProbeContext]; got != tt.want {
				t.Errorf("annotation %s", got)
			}
			if tt.want == "" {
				if diff := cmp.Diff(before, pod); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			} else if pod.Spec.Containers[0].LivenessProbe != nil {
				t.Error("the kubelet still has the probe")
			}
		})
	}
}

func TestLivenessOf(t *testing.T) {
	note := func(text string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations[apps.AnnotationContainerProbeContext] = text }
	}
	command := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}}
	for name, tt := range map[string]struct {
		note    string
		want    []probing.Assigned
		refused int
	}{
		"EL-3 the defaults of the kubelet": {
			`[{"name":"app","livenessProbe":{"exec":{"command":["a"]}}}]`,
			[]probing.Assigned{{Name: "x-app", Container: "app", Probe: corev1.Probe{ProbeHandler: command, PeriodSeconds: 10, FailureThreshold: 3}}},
			0,
		},
		"EL-3 own numbers": {
			`[{"name":"app","livenessProbe":{"exec":{"command":["a"]},"periodSeconds":1,"failureThreshold":2}}]`,
			[]probing.Assigned{{Name: "x-app", Container: "app", Probe: corev1.Probe{ProbeHandler: command, PeriodSeconds: 1, FailureThreshold: 2}}},
			0,
		},
		"a container that does not exist": {`[{"name":"other","livenessProbe":{"exec":{"command":["a"]}}}]`, nil, 0},
		"no probe":                        {`[{"name":"app"}]`, nil, 0},
		"a damaged annotation":            {`[{`, nil, 1},
		"an unknown port":                 {`[{"name":"app","livenessProbe":{"tcpSocket":{"port":"web"}}}]`, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			entries, refused := livenessOf([]*corev1.Pod{live(note(tt.note))})
			var got []probing.Assigned
			for _, e := range entries {
				got = append(got, e.Probes...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || len(refused) != tt.refused {
				t.Errorf("refused %v (-want +got):\n%s", refused, diff)
			}
		})
	}
}

func TestFailing(t *testing.T) {
	state := func(name string, is probing.State, after time.Duration) probing.ProbeState {
		return probing.ProbeState{Name: name, State: is, Message: "m", Probed: began.Add(after)}
	}
	for name, tt := range map[string]struct {
		edit  func(*corev1.Pod)
		state probing.ProbeState
		want  string
	}{
		"EL-2 a failure":                           {nil, state("x-app", probing.Failed, time.Minute), "app"},
		"EL-2 a success":                           {nil, state("x-app", probing.Succeeded, time.Minute), ""},
		"EL-2 unknown":                             {nil, state("x-app", probing.Unknown, time.Minute), ""},
		"a failure of a former instance":           {nil, state("x-app", probing.Failed, -time.Minute), ""},
		"a failure of a PodProbeMarker's probe":    {nil, state("m#app", probing.Failed, time.Minute), ""},
		"a container that has not started":         {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Started = ptr.To(false) }, state("x-app", probing.Failed, time.Minute), ""},
		"a container that the kubelet restarts":    {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].State.Running = nil }, state("x-app", probing.Failed, time.Minute), ""},
		"a container that nobody has reported":     {func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }, state("x-app", probing.Failed, time.Minute), ""},
		"a hostile report about no such container": {nil, state("x-other", probing.Failed, time.Minute), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := failing(live(tt.edit), []probing.ProbeState{tt.state}); got != tt.want {
				t.Errorf("container %q, want %q", got, tt.want)
			}
		})
	}
}

// TestVariables: a moved probe runs the command that the kubelet would run.
func TestVariables(t *testing.T) {
	pod := live(func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{
			{Name: "PORT", Value: "80"},
			{Name: "TWICE", Value: "$(PORT)"},
			{Name: "PORT", Value: "81"},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		}
	})
	for name, tt := range map[string]struct{ command, want string }{
		"EL-1 a value, the last of the name":       {"at $(PORT)!", "at 81!"},
		"EL-1 values are not looked into":          {"$(TWICE)", "$(PORT)"},
		"EL-1 a value known to the Node alone":     {"-$(IP)-", "--"},
		"EL-1 no such variable":                    {"$(NONE) $(cat /x)", "$(NONE) $(cat /x)"},
		"EL-1 escaped":                             {"$$(PORT) $$$(PORT) $$", "$(PORT) $81 $"},
		"EL-1 other uses of the sign":              {"$PORT $( $", "$PORT $( $"},
		"EL-1 a sign before a letter of two bytes": {"$ä$(PORT)", "$ä81"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal([]moved{{"app", &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{tt.command}}}}}})
			if err != nil {
				t.Fatal(err)
			}
			pod.Annotations[apps.AnnotationContainerProbeContext] = string(raw)
			entries, refused := livenessOf([]*corev1.Pod{pod})
			if len(refused) > 0 || len(entries) != 1 {
				t.Fatalf("%v, refused %v", entries, refused)
			}
			if diff := cmp.Diff([]string{tt.want}, entries[0].Probes[0].Probe.Exec.Command); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequest: all restart requests for a container instance have the same name, and requests for different instances
// have different names.
func TestRequest(t *testing.T) {
	one, again := requestOf(live(nil), "app"), requestOf(live(nil), "app")
	other := requestOf(live(func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].ContainerID = "c://2" }), "app")
	if one.Name != again.Name || one.Name == other.Name {
		t.Errorf("names %s, %s and %s", one.Name, again.Name, other.Name)
	}
	if one.Labels[apps.LabelRequestPodName] != "x" || *one.Spec.Strategy.TerminationGracePeriodSeconds != 1 || one.Spec.Strategy.FailurePolicy != "Fail" {
		t.Errorf("EL-3 %+v", one)
	}
}

// FuzzLiveness: any text in the annotation causes no panic, and only containers of the Pod are probed.
func FuzzLiveness(f *testing.F) {
	f.Add(`[{"name":"app","livenessProbe":{"exec":{"command":["a"]}}}]`)
	f.Add(`[{"name":"app","livenessProbe":{"httpGet":{"port":"web","host":"10.0.0.1"}}}]`)
	f.Add(`[{"name":"log"},null,{"name":"x"}]`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, text string) {
		entries, _ := livenessOf([]*corev1.Pod{live(func(pod *corev1.Pod) { pod.Annotations[apps.AnnotationContainerProbeContext] = text })})
		for _, e := range entries {
			for _, p := range e.Probes {
				if p.Container != "app" && p.Container != "log" {
					t.Errorf("probe %+v", p)
				}
				if get := p.Probe.HTTPGet; get != nil && get.Host != "" {
					t.Errorf("host %s", get.Host)
				}
			}
		}
	})
}
