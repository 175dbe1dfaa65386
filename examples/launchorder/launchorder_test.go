package launchorder_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/launchorder"
	"github.com/workloadkit/workloadkit/reason"
)

func keys() launchorder.Keys {
	return launchorder.Keys{
		OrderedAnnotation: "example.com/launch", OrderedValue: "Ordered", CompletedAnnotation: "example.com/launched",
		PriorityEnv: "PRIORITY", BarrierEnv: "BARRIER", KeyPrefix: "p_", NameSuffix: "-barrier",
	}
}

func newOrder(t testing.TB) *launchorder.Order {
	t.Helper()
	order, err := launchorder.New(keys())
	if err != nil {
		t.Fatal(err)
	}
	return order
}

// container returns a container with the variables given as NAME=value. The value of a barrier has the form
// <ConfigMap>/<key>; the value "from" stands for a reference to a field of the Pod.
func container(name string, variables ...string) corev1.Container {
	c := corev1.Container{Name: name, Image: name}
	for _, v := range variables {
		key, value, _ := strings.Cut(v, "=")
		env := corev1.EnvVar{Name: key, Value: value}
		configMap, barrier, ref := strings.Cut(value, "/")
		switch {
		case value == "from":
			env = corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
		case ref:
			env = corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Key: barrier,
			}}}
		}
		c.Env = append(c.Env, env)
	}
	return c
}

// variables returns the variables of each container of a Pod, in the notation of the function container.
func variables(pod *corev1.Pod) map[string][]string {
	out := map[string][]string{}
	for _, c := range pod.Spec.Containers {
		out[c.Name] = []string{}
		for _, env := range c.Env {
			value := env.Value
			if env.ValueFrom != nil {
				value = "from"
				if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
					value = ref.Name + "/" + ref.Key
				}
			}
			out[c.Name] = append(out[c.Name], env.Name+"="+value)
		}
	}
	return out
}

func newPod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{Containers: containers}}
}

func ordered(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = map[string]string{"example.com/launch": "Ordered"}
	return pod
}

func generated(pod *corev1.Pod) *corev1.Pod {
	pod.Name, pod.GenerateName = "", "web-"
	return pod
}

func Example() {
	order, err := launchorder.New(launchorder.Keys{
		OrderedAnnotation: "example.com/launch", OrderedValue: "Ordered", CompletedAnnotation: "example.com/launched",
		PriorityEnv: "PRIORITY", BarrierEnv: "BARRIER", KeyPrefix: "p_", NameSuffix: "-barrier",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := newPod(
		corev1.Container{Name: "app"},
		corev1.Container{Name: "proxy", Env: []corev1.EnvVar{{Name: "PRIORITY", Value: "1"}}},
	)
	if _, err := order.Inject(pod, ""); err != nil { // at admission
		fmt.Println(err)
		return
	}
	step := order.Next(pod, nil)
	fmt.Println(step.Open, step.Complete, step.Waiting)

	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", Ready: true}}
	step = order.Next(pod, map[string]string{"p_1": launchorder.True})
	fmt.Println(step.Open, step.Complete)
	// Output:
	// [p_1] false LaunchNotReady: Pod default/web: spec.containers[proxy]: containers below priority 1 wait until it is ready
	// [p_0] true
}

func TestInject(t *testing.T) {
	type found = map[string][]string
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength-len("-barrier"))
	named := func(name string, pod *corev1.Pod) *corev1.Pod { pod.Name = name; return pod }
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		want     found  // nil if the Pod is unchanged
		wantName string // empty: "web"
	}{
		{name: "LP-2 one container, annotated", pod: ordered(newPod(container("a")))},
		{name: "LP-2 one container, with a number", pod: newPod(container("a", "PRIORITY=5"))},
		{
			name: "LP-3 A-9 in the order of the list", pod: ordered(newPod(container("a"), container("b"), container("c"))),
			want: found{"a": {"BARRIER=web-barrier/p_0"}, "b": {"BARRIER=web-barrier/p_-1"}, "c": {"BARRIER=web-barrier/p_-2"}},
		},
		{
			name: "LP-3 numbers are ignored, even bad ones", pod: ordered(newPod(container("a", "PRIORITY=1"), container("b", "PRIORITY=x"))),
			want: found{"a": {"PRIORITY=1", "BARRIER=web-barrier/p_0"}, "b": {"PRIORITY=x", "BARRIER=web-barrier/p_-1"}},
		},
		{
			name: "LP-3 another value says nothing",
			pod: func() *corev1.Pod {
				pod := newPod(container("a"), container("b"))
				pod.Annotations = map[string]string{"example.com/launch": "ordered"}
				return pod
			}(),
		},
		{
			name: "LP-4 A-10 numbers; none is 0", pod: newPod(container("a"), container("b", "PRIORITY=1"), container("c", "PRIORITY=-3")),
			want: found{
				"a": {"BARRIER=web-barrier/p_0"}, "b": {"PRIORITY=1", "BARRIER=web-barrier/p_1"}, "c": {"PRIORITY=-3", "BARRIER=web-barrier/p_-3"},
			},
		},
		{
			name: "LP-4 the last of several counts", pod: newPod(container("a", "PRIORITY=x", "PRIORITY=2"), container("b")),
			want: found{"a": {"PRIORITY=x", "PRIORITY=2", "BARRIER=web-barrier/p_2"}, "b": {"BARRIER=web-barrier/p_0"}},
		},
		{name: "LP-4 all equal", pod: newPod(container("a", "PRIORITY=7"), container("b", "PRIORITY=7"))},
		{name: "LP-4 none but 0", pod: newPod(container("a", "PRIORITY=0"), container("b"))},
		{
			name: "A-10 the ends of the range", pod: newPod(container("a", "PRIORITY=-2147483647"), container("b", "PRIORITY=2147483647")),
			want: found{
				"a": {"PRIORITY=-2147483647", "BARRIER=web-barrier/p_-2147483647"}, "b": {"PRIORITY=2147483647", "BARRIER=web-barrier/p_2147483647"},
			},
		},
		{
			name: "LP-6 a generated name is fixed", pod: generated(ordered(newPod(container("a"), container("b")))), wantName: "web-x2x4z",
			want: found{"a": {"BARRIER=web-x2x4z-barrier/p_0"}, "b": {"BARRIER=web-x2x4z-barrier/p_-1"}},
		},
		{
			name: "LP-6 a name is kept, whatever generateName says", wantName: "mine",
			pod:  named("mine", generated(ordered(newPod(container("a"), container("b"))))),
			want: found{"a": {"BARRIER=mine-barrier/p_0"}, "b": {"BARRIER=mine-barrier/p_-1"}},
		},
		{
			name: "the longest name", pod: named(long, ordered(newPod(container("a"), container("b")))), wantName: long,
			want: found{"a": {"BARRIER=" + long + "-barrier/p_0"}, "b": {"BARRIER=" + long + "-barrier/p_-1"}},
		},
		{
			name: "LP-16 no second barrier",
			pod:  ordered(newPod(container("a", "BARRIER=web-barrier/p_0", "X=1"), container("b", "BARRIER=web-barrier/p_-1"))),
		},
		{
			name: "LP-16 of two barriers one stays",
			pod:  ordered(newPod(container("a", "BARRIER=web-barrier/p_0", "X=1", "BARRIER=web-barrier/p_3"), container("b"))),
			want: found{"a": {"BARRIER=web-barrier/p_0", "X=1"}, "b": {"BARRIER=web-barrier/p_-1"}},
		},
		{
			name: "LP-16 a copy of another Pod, with a container before",
			pod:  ordered(newPod(container("new"), container("a", "BARRIER=old-barrier/p_0"), container("b", "BARRIER=old-barrier/p_-1"))),
			want: found{"new": {"BARRIER=web-barrier/p_0"}, "a": {"BARRIER=web-barrier/p_-1"}, "b": {"BARRIER=web-barrier/p_-2"}},
		},
		{name: "a barrier of the user's own, where no order is asked for", pod: newPod(container("a", "BARRIER=mine/p_1"), container("b"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			order, before := newOrder(t), tc.pod.DeepCopy()
			shared := tc.pod.Spec.Containers
			changed, err := order.Inject(tc.pod, "web-x2x4z")
			if err != nil {
				t.Fatal(err)
			}
			want := before.DeepCopy()
			if tc.want == nil {
				tc.want = variables(before)
			}
			if diff := cmp.Diff(tc.want, variables(tc.pod)); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
			if tc.wantName != "" {
				want.Name = tc.wantName
			}
			if differs := !cmp.Equal(before, tc.pod); differs != changed {
				t.Errorf("changed = %v, and the Pod differs: %v", changed, differs)
			}
			if want.Spec = tc.pod.Spec; !cmp.Equal(want, tc.pod) {
				t.Errorf("Pod (-want +got):\n%s", cmp.Diff(want, tc.pod))
			}
			if diff := cmp.Diff(before.Spec.Containers, shared); diff != "" {
				t.Errorf("what others may share was written into:\n%s", diff)
			}
			if again, err := order.Inject(tc.pod, "other"); again || err != nil {
				t.Errorf("LP-16 admitted again: changed %v, error %v", again, err)
			}
		})
	}
}

// TestInjectSpareCapacity: Inject does not write into the spare capacity of an env slice, because Pods may share the
// slice's array.
func TestInjectSpareCapacity(t *testing.T) {
	env := append(make([]corev1.EnvVar, 0, 2), corev1.EnvVar{Name: "A"})
	one, two := newPod(container("a"), container("b")), newPod(container("a"), container("b"))
	two.Name = "two"
	one.Spec.Containers[0].Env, two.Spec.Containers[0].Env = env, env
	for _, pod := range []*corev1.Pod{ordered(one), ordered(two)} {
		if _, err := newOrder(t).Inject(pod, ""); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"A=", "BARRIER=web-barrier/p_0"}, variables(one)["a"]); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestInjectRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		code reason.Code
		want string
	}{
		{
			"LP-5 no number", newPod(container("a", "PRIORITY=high"), container("b")), launchorder.InvalidLaunchPriority,
			`InvalidLaunchPriority: spec.containers[a].env[PRIORITY]: "high": want a whole number from -2147483647 to 2147483647`,
		},
		{
			"LP-5 a fraction", newPod(container("a"), container("b", "PRIORITY=1.5")), launchorder.InvalidLaunchPriority,
			`InvalidLaunchPriority: spec.containers[b].env[PRIORITY]: "1.5": want a whole number from -2147483647 to 2147483647`,
		},
		{
			"LP-5 empty", newPod(container("a", "PRIORITY="), container("b")), launchorder.InvalidLaunchPriority,
			`InvalidLaunchPriority: spec.containers[a].env[PRIORITY]: "": want a whole number from -2147483647 to 2147483647`,
		},
		{
			"LP-5 from elsewhere", newPod(container("a", "PRIORITY=from"), container("b")), launchorder.InvalidLaunchPriority,
			"InvalidLaunchPriority: spec.containers[a].env[PRIORITY]: valueFrom: want a value: the order is fixed when the Pod is created",
		},
		{
			"A-10 above the range", newPod(container("a", "PRIORITY=2147483648"), container("b")), launchorder.InvalidLaunchPriority,
			`InvalidLaunchPriority: spec.containers[a].env[PRIORITY]: "2147483648": want a whole number from -2147483647 to 2147483647`,
		},
		{
			"A-10 below the range", newPod(container("a", "PRIORITY=-2147483648"), container("b")), launchorder.InvalidLaunchPriority,
			`InvalidLaunchPriority: spec.containers[a].env[PRIORITY]: "-2147483648": want a whole number from -2147483647 to 2147483647`,
		},
		{
			"LP-5 all problems at once", newPod(container("a", "PRIORITY=x"), container("b", "PRIORITY=y")), launchorder.InvalidLaunchPriority,
			`InvalidLaunchPriority: spec.containers[a].env[PRIORITY]: "x": want a whole number from -2147483647 to 2147483647; ` +
				`InvalidLaunchPriority: spec.containers[b].env[PRIORITY]: "y": want a whole number from -2147483647 to 2147483647`,
		},
		{
			"LP-16 a literal barrier", ordered(newPod(container("a", "BARRIER=p_1"), container("b"))), launchorder.InvalidLaunchBarrier,
			`InvalidLaunchBarrier: spec.containers[a].env[BARRIER]: "p_1": want valueFrom.configMapKeyRef with key p_<priority>; ` +
				"leave this variable out: it is added where an order is asked for",
		},
		{
			"LP-16 a barrier from elsewhere, where no order is asked for", newPod(container("a", "BARRIER=from"), container("b")),
			launchorder.InvalidLaunchBarrier,
			"InvalidLaunchBarrier: spec.containers[a].env[BARRIER]: valueFrom: want valueFrom.configMapKeyRef with key p_<priority>; " +
				"leave this variable out: it is added where an order is asked for",
		},
		{
			"LP-16 a short key", ordered(newPod(container("a"), container("b", "BARRIER=web-barrier/p"))), launchorder.InvalidLaunchBarrier,
			`InvalidLaunchBarrier: spec.containers[b].env[BARRIER]: key "p": want valueFrom.configMapKeyRef with key p_<priority>; ` +
				"leave this variable out: it is added where an order is asked for",
		},
		{
			"LP-16 a key without number", ordered(newPod(container("a"), container("b", "BARRIER=web-barrier/p_"))), launchorder.InvalidLaunchBarrier,
			`InvalidLaunchBarrier: spec.containers[b].env[BARRIER]: key "p_": want valueFrom.configMapKeyRef with key p_<priority>; ` +
				"leave this variable out: it is added where an order is asked for",
		},
		{
			"no ConfigMap can have the name", func() *corev1.Pod {
				pod := ordered(newPod(container("a"), container("b")))
				pod.Name = strings.Repeat("a", 246)
				return pod
			}(), launchorder.InvalidBarrierName,
			"InvalidBarrierName: metadata.name: " + strings.Repeat("a", 80) + "...: with -barrier it has to name a ConfigMap: " +
				"must be no more than 253 characters; give the Pod a name of at most 245 characters",
		},
		{
			"LP-6 no name at all", func() *corev1.Pod {
				pod := ordered(newPod(container("a"), container("b")))
				pod.Name = ""
				return pod
			}(), launchorder.InvalidBarrierName,
			"InvalidBarrierName: metadata.name: with -barrier it has to name a ConfigMap: the Pod has no name; " +
				"give the Pod a name of at most 245 characters",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			changed, err := newOrder(t).Inject(tc.pod, "web-x2x4z")
			if err == nil || changed {
				t.Fatalf("changed %v, error %v; want a refusal", changed, err)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if !errors.Is(err, tc.code) {
				t.Errorf("error %v is no %s", err, tc.code)
			}
			if diff := cmp.Diff(before, tc.pod); diff != "" {
				t.Errorf("the Pod was changed:\n%s", diff)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*launchorder.Keys)
		want   []string // paths
	}{
		{"complete", func(*launchorder.Keys) {}, nil},
		{"nothing", func(k *launchorder.Keys) { *k = launchorder.Keys{} }, []string{
			"Keys.OrderedAnnotation", "Keys.OrderedValue", "Keys.CompletedAnnotation", "Keys.PriorityEnv", "Keys.BarrierEnv", "Keys.KeyPrefix", "Keys.NameSuffix",
		}},
		{"illegal annotations", func(k *launchorder.Keys) { k.OrderedAnnotation, k.CompletedAnnotation = "a b", "-" }, []string{
			"Keys.OrderedAnnotation", "Keys.CompletedAnnotation",
		}},
		{"illegal variables", func(k *launchorder.Keys) { k.PriorityEnv, k.BarrierEnv = "a=b", "c=d" }, []string{"Keys.PriorityEnv", "Keys.BarrierEnv"}},
		{"illegal key and name", func(k *launchorder.Keys) { k.KeyPrefix, k.NameSuffix = "p/", "_" }, []string{"Keys.KeyPrefix", "Keys.NameSuffix"}},
		{"one annotation for two", func(k *launchorder.Keys) { k.CompletedAnnotation = k.OrderedAnnotation }, []string{"Keys.CompletedAnnotation"}},
		{"one variable for two", func(k *launchorder.Keys) { k.BarrierEnv = k.PriorityEnv }, []string{"Keys.BarrierEnv"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := keys()
			tc.change(&k)
			_, err := launchorder.New(k)
			var list reason.List
			if err != nil && (!errors.As(err, &list) || !errors.Is(err, launchorder.InvalidKeys)) {
				t.Fatalf("error %v is no list of %s", err, launchorder.InvalidKeys)
			}
			var got []string
			for _, r := range list {
				got = append(got, r.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	type answer struct {
		Priority int
		OK       bool
	}
	for _, tc := range []struct {
		name string
		in   corev1.Container
		want answer
	}{
		{"U-18 positive", container("a", "OTHER=1", "BARRIER=x/p_10"), answer{10, true}},
		{"U-18 zero", container("a", "BARRIER=x/p_0"), answer{0, true}},
		{"A-10 negative", container("a", "BARRIER=x/p_-2147483647"), answer{-2147483647, true}},
		{"LP-16 another key", container("a", "BARRIER=x/p"), answer{}},
		{"LP-16 no number", container("a", "BARRIER=x/p_high"), answer{}},
		{"LP-16 a literal is no barrier", container("a", "BARRIER=p_1"), answer{}},
		{"LP-16 nor is a field", container("a", "BARRIER=from"), answer{}},
		{"the priority alone is no barrier", container("a", "PRIORITY=1"), answer{}},
		{"none", container("a"), answer{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			priority, ok := newOrder(t).Priority(&tc.in)
			if !ok {
				priority = 0
			}
			if diff := cmp.Diff(tc.want, answer{priority, ok}); diff != "" {
				t.Errorf("Priority (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzWholeStart admits Pods with random priorities, and starts their containers as a Node does. No function may
// panic, all containers must start, and a container must not start before all containers of higher priority are
// ready.
func FuzzWholeStart(f *testing.F) {
	f.Add([]byte{0, 1, 2}, false)
	f.Add([]byte{3, 3, 1, 0}, false)
	f.Add([]byte{255, 0, 128}, false)
	f.Add([]byte{0, 0}, true)
	f.Add([]byte{1, 9, 1, 9, 1}, true)
	f.Fuzz(func(t *testing.T, numbers []byte, byList bool) {
		order, pod := newOrder(t), newPod()
		for i, n := range numbers {
			pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("c%d", i), fmt.Sprintf("PRIORITY=%d", int8(n))))
		}
		if byList {
			ordered(pod)
		}
		changed, err := order.Inject(pod, "")
		if err != nil {
			t.Fatal(err)
		}
		if needed := order.Needed(pod); needed != changed {
			t.Fatalf("injected %v, needed %v", changed, needed)
		}
		opened := map[string]string{}
		for range len(numbers) + 1 {
			step := order.Next(pod, opened)
			if !step.Complete && len(step.Open)+len(step.Waiting) == 0 {
				t.Fatal("nothing to do, nothing to wait for, and not complete")
			}
			for _, key := range step.Open {
				opened[key] = launchorder.True
			}
			started := startAll(t, order, pod, opened)
			if step.Complete {
				if started != len(numbers) {
					t.Fatalf("complete with %d of %d containers started", started, len(numbers))
				}
				return
			}
		}
		t.Fatal("not complete after as many passes as there are containers")
	})
}

// startAll makes all containers ready that need not wait for a key, and returns the number of ready containers.
func startAll(t *testing.T, order *launchorder.Order, pod *corev1.Pod, opened map[string]string) int {
	t.Helper()
	ready := map[string]bool{}
	for _, s := range pod.Status.ContainerStatuses {
		ready[s.Name] = true
	}
	before := len(ready)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		priority, gated := order.Priority(c)
		if _, open := opened[fmt.Sprintf("p_%d", priority)]; gated && !open || ready[c.Name] {
			continue
		}
		for j := range pod.Spec.Containers {
			other := &pod.Spec.Containers[j]
			if higher, ok := order.Priority(other); ok && higher > priority && !slices.ContainsFunc(
				pod.Status.ContainerStatuses[:before], func(s corev1.ContainerStatus) bool { return s.Name == other.Name }) {
				t.Fatalf("%s (%d) starts before %s (%d) is ready", c.Name, priority, other.Name, higher)
			}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true})
	}
	return len(pod.Status.ContainerStatuses)
}
