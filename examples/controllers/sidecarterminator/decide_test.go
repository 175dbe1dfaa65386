package sidecarterminator

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// one describes a container: the environment as NAME, VALUE pairs, and the status.
type one struct {
	name string
	env  []string
	// exit is the exit code; -1 means that the container runs, and -2 that it waits for its first start, for the reason
	// waiting.
	exit    int32
	waiting string
	starts  int32 // number of restarts
	image   string
}

var (
	stops   = []string{apps.EnvTerminateSidecar, "true"}
	ignores = []string{apps.EnvTerminateSidecar, "True", apps.EnvIgnoreExitCode, "TRUE"}
	images  = []string{apps.EnvTerminateSidecarImage, "exit:v1"}
)

func mainOf(exit int32) one { return one{name: "main", exit: exit} }

func runs(name string, env []string) one { return one{name: name, env: env, exit: -1} }

func ended(name string, env []string, exit int32) one { return one{name: name, env: env, exit: exit} }

// job returns a Pod that runs to completion.
func job(policy corev1.RestartPolicy, containers ...one) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job-1", UID: "u1", ResourceVersion: "1"},
		Spec:       corev1.PodSpec{RestartPolicy: policy, NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range containers {
		spec := corev1.Container{Name: c.name, Image: "example.test/" + c.name + ":v1"}
		if c.image != "" {
			spec.Image = c.image
		}
		for pair := range slices.Chunk(c.env, 2) {
			spec.Env = append(spec.Env, corev1.EnvVar{Name: pair[0], Value: pair[1]})
		}
		status := corev1.ContainerStatus{Name: c.name, ContainerID: "containerd://" + c.name, RestartCount: c.starts}
		switch {
		case c.exit == -2:
			status.ContainerID, status.State.Waiting = "", &corev1.ContainerStateWaiting{Reason: c.waiting}
		case c.waiting != "":
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.waiting}
		case c.exit == -1:
			status.State.Running = &corev1.ContainerStateRunning{}
		default:
			status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: c.exit}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, spec)
		pod.Status.ContainerStatuses = append([]corev1.ContainerStatus{status}, pod.Status.ContainerStatuses...) // in another order
	}
	return pod
}

func with(pod *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
	edit(pod)
	return pod
}

func marked(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.Conditions = []corev1.PodCondition{{Type: apps.ConditionSidecarTerminated, Status: corev1.ConditionTrue}}
	}
}

const (
	never     = corev1.RestartPolicyNever
	onFailure = corev1.RestartPolicyOnFailure
	always    = corev1.RestartPolicyAlways
)

func TestConcerns(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"JT-1 the first env", job(never, mainOf(-1), runs("log", stops)), true},
		{"JT-1 in any case", job(never, mainOf(-1), runs("log", []string{apps.EnvTerminateSidecar, "tRuE"})), true},
		{"JT-1 another value", job(never, mainOf(-1), runs("log", []string{apps.EnvTerminateSidecar, "yes"})), false},
		{"JT-1 the second env", job(never, mainOf(-1), runs("log", images)), true},
		{"JT-1 an empty image", job(never, mainOf(-1), runs("log", []string{apps.EnvTerminateSidecarImage, ""})), false},
		{"JT-1 the third env alone", job(never, mainOf(-1), runs("log", []string{apps.EnvIgnoreExitCode, "true"})), false},
		{"JT-1 the last of a name counts", job(never, mainOf(-1), runs("log", []string{apps.EnvTerminateSidecar, "true", apps.EnvTerminateSidecar, "no"})), false},
		{"JT-12 a value from elsewhere is not seen", with(job(never, mainOf(-1), runs("log", stops)), func(pod *corev1.Pod) {
			pod.Spec.Containers[1].Env[0] = corev1.EnvVar{Name: apps.EnvTerminateSidecar, ValueFrom: &corev1.EnvVarSource{}}
		}), false},
		{"JT-1 init containers are not looked at", with(job(never, mainOf(-1)), func(pod *corev1.Pod) {
			pod.Spec.InitContainers = job(never, runs("log", stops)).Spec.Containers
		}), false},
		{"JT-2 restartPolicy Always", job(always, mainOf(-1), runs("log", stops)), false},
		{"JT-2 OnFailure", job(onFailure, mainOf(-1), runs("log", stops)), true},
		{"JT-2 terminating", with(job(never, mainOf(-1), runs("log", stops)), func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }), false},
		{"JT-2 Pending is kept for later", with(job(never, mainOf(-1), runs("log", stops)), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }), true},
		{"JT-2 ended", with(job(never, mainOf(0), ended("log", stops, 0)), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }), false},
		{"JT-7 marked by us", with(job(never, mainOf(0), runs("log", ignores)), marked(corev1.PodSucceeded)), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Concerns(tc.pod); got != tc.want {
				t.Errorf("Concerns() = %t, want %t", got, tc.want)
			}
		})
	}
}

// own returns a change that gives the first container a restart policy of its own.
func own(policy corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].RestartPolicy, pod.Spec.Containers[0].RestartPolicyRules = &policy, rules
	}
}

func TestIsDue(t *testing.T) {
	stuck := one{name: "main", exit: -2, waiting: "ImagePullBackOff"}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Phase = phase }
	}
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		want  bool
		waits []string
	}{
		{"JT-2 main runs", job(never, mainOf(-1), runs("log", stops)), false, nil},
		{"JT-2 Never, exit code 0", job(never, mainOf(0), runs("log", stops)), true, nil},
		{"JT-2 Never, exit code 1", job(never, mainOf(1), runs("log", stops)), true, nil},
		{"JT-2 OnFailure, exit code 0", job(onFailure, mainOf(0), runs("log", stops)), true, nil},
		{"JT-2 OnFailure, exit code 1", job(onFailure, mainOf(1), runs("log", stops)), false, nil},
		{"JT-2 one of two has ended", job(never, mainOf(0), one{name: "other", exit: -1}, runs("log", stops)), false, nil},
		{"JT-2 all sidecars have ended", job(never, mainOf(0), ended("log", stops, 0)), false, nil},
		{"JT-2 one of two sidecars has ended", job(never, mainOf(0), ended("log", stops, 0), runs("proxy", images)), true, nil},
		{"JT-2 Pending, because another container waits for its first start", with(job(never, mainOf(0), runs("log", stops)), phase(corev1.PodPending)), true, nil},
		{"JT-12 Pending, and stuck", with(job(never, stuck, runs("log", stops)), phase(corev1.PodPending)), false, []string{"MainContainerWaiting spec.containers[main] ImagePullBackOff"}},
		{"JT-2 nothing has started", with(job(never, one{name: "main", exit: -2, waiting: "PodInitializing"}, runs("log", stops)), phase(corev1.PodPending)), false, nil},
		{"OnFailure of the container, exit code 1", with(job(never, mainOf(1), runs("log", stops)), own(corev1.ContainerRestartPolicyOnFailure)), false, nil},
		{"Never of the container, exit code 1", with(job(onFailure, mainOf(1), runs("log", stops)), own(corev1.ContainerRestartPolicyNever)), true, nil},
		{"a rule starts main again", with(job(never, mainOf(1), runs("log", stops)), own(corev1.ContainerRestartPolicyNever, corev1.ContainerRestartRule{
			Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}},
		})), false, nil},
		{"JT-2 Always", job(always, mainOf(0), runs("log", stops)), false, nil},
		{"JT-2 a status is missing", with(job(never, mainOf(0), runs("log", stops)), func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1]
		}), false, nil},
		{"JT-2 a status of something else", with(job(never, mainOf(0), runs("log", stops)), func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].Name = "other"
		}), false, nil},
		{"JT-2 no sidecar", job(never, mainOf(0), one{name: "log", exit: -1}), false, nil},
		{"JT-12 main is stuck", job(never, stuck, runs("log", stops)), false, []string{"MainContainerWaiting spec.containers[main] ImagePullBackOff"}},
		{
			"JT-12 main is started again and again", job(onFailure, one{name: "main", exit: -1, waiting: "CrashLoopBackOff", starts: 4}, runs("log", stops)), false,
			[]string{"MainContainerWaiting spec.containers[main] CrashLoopBackOff"},
		},
		{"JT-12 main is about to start", job(never, one{name: "main", exit: -2, waiting: "ContainerCreating"}, runs("log", stops)), false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			due, waits := isDue(tc.pod)
			if due != tc.want {
				t.Errorf("due %t, want %t", due, tc.want)
			}
			if diff := cmp.Diff(tc.waits, said(waits)); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// said returns reasons as texts, for comparison.
func said(waits reason.List) (out []string) {
	for _, why := range waits {
		text := string(why.Code) + " " + why.Path
		if why.New != "" {
			text += " " + why.New
		}
		out = append(out, text)
	}
	return out
}

const first, second = "sidecar-termination-u1", "sidecar-termination-u1-2"

// asked returns a ContainerRecreateRequest for containers that have never been restarted.
func asked(names ...string) *v1beta1.ContainerRecreateRequest {
	request := &v1beta1.ContainerRecreateRequest{}
	for _, name := range names {
		request.Spec.Containers = append(request.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{
			Name: name, StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{},
		})
	}
	return request
}

func TestDecide(t *testing.T) {
	type requests = map[string]*v1beta1.ContainerRecreateRequest
	both := slices.Concat(stops, images)
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		virtual bool
		there   requests
		want    todo
		waits   []string
	}{
		{name: "JT-5 a request for those that run", pod: job(never, mainOf(0), runs("log", stops), ended("proxy", stops, 0), runs("mesh", both)), want: todo{
			request: first, stop: []string{"log", "mesh"},
		}},
		{name: "JT-5 it is there", pod: job(never, mainOf(0), runs("log", stops)), there: requests{first: asked("log")}},
		{name: "JT-4 an image alone does nothing on an ordinary Node", pod: job(never, mainOf(0), runs("log", images))},
		{name: "JT-4 an image on a virtual Node", virtual: true, pod: job(never, mainOf(0), runs("log", images), runs("mesh", both), runs("proxy", stops), ended("done", images, 0)), want: todo{
			images: map[string]string{"log": "exit:v1", "mesh": "exit:v1"},
		}},
		{name: "JT-4 it has the image", virtual: true, pod: job(never, mainOf(0), one{name: "log", env: images, exit: -1, image: "exit:v1"})},
		{name: "JT-4 the first env alone does nothing on a virtual Node", virtual: true, pod: job(never, mainOf(0), runs("log", stops))},
		{name: "JT-7 main succeeded", pod: job(never, mainOf(0), runs("log", ignores)), want: todo{
			phase: corev1.PodSucceeded, request: first, stop: []string{"log"},
		}},
		{name: "JT-7, JT-10 main failed", pod: job(never, mainOf(1), runs("log", ignores)), want: todo{phase: corev1.PodFailed, request: first, stop: []string{"log"}}},
		{name: "JT-7 marked already", pod: with(job(never, mainOf(0), runs("log", ignores)), marked(corev1.PodSucceeded)), want: todo{
			request: first, stop: []string{"log"},
		}},
		{name: "JT-7 all is done", pod: with(job(never, mainOf(0), runs("log", ignores)), marked(corev1.PodSucceeded)), there: requests{first: asked("log")}},
		{
			name: "JT-7, JT-11 others come first", pod: job(never, mainOf(0), runs("log", ignores), runs("proxy", stops)),
			want: todo{request: first, stop: []string{"proxy"}}, waits: []string{"SidecarRuns spec.containers[proxy]"},
		},
		{
			name: "JT-11 a second request", pod: job(never, mainOf(0), runs("log", ignores), ended("proxy", stops, 143)), there: requests{first: asked("proxy")},
			want: todo{phase: corev1.PodSucceeded, request: second, stop: []string{"log"}},
		},
		{
			name: "JT-11 both are there", pod: with(job(never, mainOf(0), runs("log", ignores), ended("proxy", stops, 143)), marked(corev1.PodSucceeded)),
			there: requests{first: asked("proxy"), second: asked("log")},
		},
		{
			name: "JT-11 the first name is free, because the others ended by themselves", pod: job(never, mainOf(0), runs("log", ignores), ended("proxy", stops, 0)),
			want: todo{phase: corev1.PodSucceeded, request: first, stop: []string{"log"}},
		},
		{
			name: "JT-7 an image alone is waited for, too", pod: job(never, mainOf(0), runs("log", ignores), runs("mesh", images)),
			waits: []string{"SidecarRuns spec.containers[mesh]"},
		},
		{
			name: "JT-12 a sidecar that has never started is not asked for", pod: job(never, mainOf(0), one{name: "log", env: stops, exit: -2, waiting: "ErrImagePull"}, runs("proxy", stops)),
			want: todo{request: first, stop: []string{"proxy"}}, waits: []string{"SidecarWaiting spec.containers[log] ErrImagePull"},
		},
		{name: "JT-12 it is about to start", pod: job(never, mainOf(0), one{name: "log", env: stops, exit: -2, waiting: "PodInitializing"})},
		{
			name: "JT-12 it has started since", pod: job(never, mainOf(0), runs("log", stops), ended("proxy", stops, 143)), there: requests{first: asked("proxy")},
			want: todo{request: second, stop: []string{"log"}},
		},
		{
			name: "JT-12 the kubelet has started it again", pod: job(onFailure, mainOf(0), one{name: "log", env: stops, exit: -1, starts: 1}), there: requests{first: asked("log")},
			waits: []string{"SidecarRestarted spec.containers[log]"},
		},
		{
			name: "JT-11 somebody else has the names", pod: job(never, mainOf(0), runs("log", stops)),
			there: requests{first: asked(), second: asked("x"), second[:len(second)-1] + "3": asked()}, waits: []string{"RequestNamesTaken "},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			untouched := tc.pod.DeepCopy()
			got := decide(tc.pod, tc.virtual, func(name string) *v1beta1.ContainerRecreateRequest { return tc.there[name] })
			if diff := cmp.Diff(tc.waits, said(got.waits)); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			got.waits = nil
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(todo{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched, tc.pod); diff != "" {
				t.Errorf("the Pod was changed:\n%s", diff)
			}
		})
	}
}

// FuzzDecide carries out decisions for a Pod until a decision contains no step; then no sidecar that should be
// stopped runs. No request contains a main container, or a container of an earlier request. The phase is set once, as
// the exit codes of the main containers require. The first request has the name that OpenKruise uses.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 3}, false)
	f.Add([]byte{1, 0, 14, 22, 7}, false)
	f.Add([]byte{0, 4, 9, 18, 27}, true)
	f.Add([]byte{1, 0, 1, 33, 65, 2, 250}, false)
	f.Fuzz(func(t *testing.T, data []byte, virtual bool) {
		pod := fuzzed(data)
		if due, _ := isDue(pod); !due {
			return
		}
		there, stopped, phases := map[string]*v1beta1.ContainerRecreateRequest{}, map[string]bool{}, 0
		for range 3*len(pod.Spec.Containers) + 3 {
			if due, _ := isDue(pod); !due {
				break
			}
			got := decide(pod, virtual, func(name string) *v1beta1.ContainerRecreateRequest { return there[name] })
			if len(there) == 0 && got.request != "" && got.request != first {
				t.Fatalf("the first request is %s", got.request)
			}
			if got.phase != "" {
				phases++
				marked(got.phase)(pod)
			}
			if got.request != "" {
				there[got.request] = asked(got.stop...)
			}
			for _, name := range got.stop {
				if stopped[name] {
					t.Fatalf("%s is stopped twice", name)
				}
				stopped[name] = true
				end(t, pod, name)
			}
			for name := range got.images {
				end(t, pod, name)
			}
		}
		if phases > 1 {
			t.Errorf("the phase is set %d times", phases)
		}
		due, _ := isDue(pod)
		if left := decide(pod, virtual, func(name string) *v1beta1.ContainerRecreateRequest { return there[name] }); due && (left.request != "" || left.phase != "" || left.images != nil) {
			raw, _ := json.Marshal(pod.Status)
			t.Errorf("there is no end to it: %+v for %s", left, raw)
		}
	})
}

// end ends a sidecar as if by a signal.
func end(t *testing.T, pod *corev1.Pod, name string) {
	t.Helper()
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name && !roleOf(c).isSidecar() {
			t.Fatalf("main container %s is stopped", name)
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == name {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
		}
	}
}

// fuzzed returns a Pod made from bytes: the first byte determines the restart policy, and the remaining bytes
// determine the containers.
func fuzzed(data []byte) *corev1.Pod {
	if len(data) == 0 {
		return job(never)
	}
	policy := []corev1.RestartPolicy{never, onFailure}[data[0]%2]
	var containers []one
	for i, b := range data[1:min(len(data), 7)] {
		c := one{name: "c" + string(rune('0'+i)), env: [][]string{nil, stops, ignores, images, slices.Concat(ignores, images)}[b%5]}
		c.exit = []int32{-1, 0, 1, -2, -1}[b/5%5]
		if c.exit == -2 {
			c.waiting = []string{"ContainerCreating", "ErrImagePull"}[b/25%2]
		}
		if c.env == nil && b%2 == 0 {
			c.exit = 0 // so that the main containers of some Pods have succeeded
		}
		containers = append(containers, c)
	}
	return job(policy, containers...)
}
