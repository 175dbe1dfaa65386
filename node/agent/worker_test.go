package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// pods is a cache of Pods by name.
type pods map[string]*corev1.Pod

func (p pods) Pod(name types.NamespacedName) *corev1.Pod { return p[name.Name] }

// node is a container runtime whose containers take some time to stop.
type node struct {
	mu         sync.Mutex
	containers []cri.Container
	err        error
	takes      time.Duration
	calls      []string
}

func (n *node) notef(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, fmt.Sprintf(format, args...))
}

func (n *node) Containers(_ context.Context, pod types.UID, ids ...string) ([]cri.Container, error) {
	n.notef("list %s %v", pod, ids)
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.containers), n.err
}

func (n *node) Environment(_ context.Context, id string) ([]string, error) {
	return []string{"ID=" + id}, nil
}

func (n *node) Stop(ctx context.Context, id string, grace time.Duration) error {
	n.notef("stop %s within %s", id, grace)
	select {
	case <-time.After(n.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.containers {
		if n.containers[i].ID == id {
			n.containers[i].State, n.containers[i].ExitCode = containerrestart.Exited, 143
		}
	}
	return nil
}

func (n *node) Exec(_ context.Context, id string, command []string, _ time.Duration) (int32, error) {
	n.notef("exec %s %v", id, command)
	return 1, nil
}

func (n *node) Missing() reason.List { return nil }

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName: "n1",
			InitContainers: []corev1.Container{
				{Name: "setup"},
				{Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{{Name: "app"}}, RestartPolicy: corev1.RestartPolicyNever,
		},
		Status: corev1.PodStatus{
			PodIP:                 "10.0.0.1",
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "setup", ContainerID: "rt://s0"}, {Name: "mesh", ContainerID: "rt://m0", Ready: true}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", ContainerID: "rt://a0", Ready: true}},
		},
	}
}

func container(id, name string, state containerrestart.State) cri.Container {
	return cri.Container{Instance: containerrestart.Instance{ID: id, Name: name, State: state, Grace: ptr.To(30 * time.Second)}, PodUID: "u1"}
}

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// TestObserve: Observe finds the end of an instance in the runtime before the Pod's status shows the end, and knows
// that native sidecars start again whatever the Pod's restartPolicy.
func TestObserve(t *testing.T) {
	over, deleted := newPod(), newPod()
	over.Status.Phase = corev1.PodFailed
	deleted.DeletionTimestamp = &metav1.Time{}
	always := newPod()
	always.Spec.RestartPolicy = corev1.RestartPolicyAlways
	exited := []cri.Container{container("rt://a0", "app", containerrestart.Exited), container("rt://m0", "mesh", containerrestart.Exited)}
	running := []cri.Container{container("rt://a0", "app", containerrestart.Running), container("rt://m0", "mesh", containerrestart.Running)}
	for name, tt := range map[string]struct {
		pod        *corev1.Pod
		containers []cri.Container
		ended      string
	}{
		"all run":                        {newPod(), running, ""},
		"a Pod that runs once":           {newPod(), exited, "app"},
		"a Pod that runs always":         {always, exited, ""},
		"a Pod that is over":             {over, exited, "mesh app"},
		"a Pod being deleted":            {deleted, exited, "mesh app"},
		"an earlier instance has exited": {newPod(), []cri.Container{container("rt://a-1", "app", containerrestart.Exited)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got containerrestart.Observed
			n := &node{containers: tt.containers}
			w, err := agent.NewWorker("n1", pods{"web": tt.pod}, n, func(ctx context.Context, pod *agent.Pod) (_ time.Duration, err error) {
				if got, err = pod.Observe(ctx); err == nil {
					_, err = pod.Containers(ctx)
				}
				return 0, err
			}, agent.WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Do(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			var ended []string
			for _, v := range got.Views {
				if v.Ended {
					ended = append(ended, v.Name)
				}
			}
			if strings.Join(ended, " ") != tt.ended || len(got.Views) != 3 || len(got.Instances) != len(tt.containers) {
				t.Errorf("ended %v, want %s; observed %+v", ended, tt.ended, got)
			}
			if diff := cmp.Diff([]string{"list u1 [rt://s0 rt://m0 rt://a0]"}, n.calls); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStop: a reconcile does not wait until a container has stopped, the Pod is reconciled again after the stop, and a
// failed preStop hook is reported.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{takes: 10 * time.Second, containers: []cri.Container{container("rt://a0", "app", containerrestart.Running)}}
		n.containers[0].PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}
		var stopping bool
		w, err := agent.NewWorker("n1", pods{"web": newPod()}, n, func(ctx context.Context, pod *agent.Pod) (time.Duration, error) {
			observed, err := pod.Observe(ctx)
			step := containerrestart.Next(containerrestart.Request{Started: time.Now(), Containers: []containerrestart.Container{{Name: "app", Before: "rt://a0"}}}, observed, time.Now())
			err = errors.Join(err, pod.Begin(step, ptr.To(20*time.Second)))
			stopping = pod.IsStopping()
			return 7 * time.Second, err
		}, agent.WorkerOptions{
			Wake: func(pod types.NamespacedName) { n.notef("wake %s", pod) },
			HookFailed: func(_ context.Context, pod reason.Object, container string, _ error) {
				n.notef("%s %s %s: hook failed", pod, pod.UID, container)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		for range 2 { // the second call begins no second stop
			if again, err := w.Do(t.Context(), web); err != nil || again != 7*time.Second || !stopping {
				t.Fatal(again, err, stopping)
			}
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if diff := cmp.Diff([]string{
			"list u1 [rt://s0 rt://m0 rt://a0]", "exec rt://a0 [bye]", "stop rt://a0 within 20s",
			"list u1 [rt://s0 rt://m0 rt://a0]", "Pod shop/web u1 app: hook failed", "wake shop/web",
		}, n.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestForget: the stops of a Pod end when the Pod does not exist any more, when another Pod has its name, or when the
// Pod is on another Node.
func TestForget(t *testing.T) {
	replaced, moved := newPod(), newPod()
	replaced.UID, moved.Spec.NodeName = "u2", "n2"
	for name, after := range map[string]*corev1.Pod{"gone": nil, "replaced": replaced, "of another Node": moved} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{takes: time.Hour, containers: []cri.Container{container("rt://a0", "app", containerrestart.Running)}}
				cache := pods{"web": newPod()}
				w, err := agent.NewWorker("n1", cache, n, func(_ context.Context, pod *agent.Pod) (time.Duration, error) {
					if pod.UID == "u1" {
						return 0, pod.Stop("rt://a0", nil)
					}
					return 0, nil
				}, agent.WorkerOptions{Wake: func(pod types.NamespacedName) { n.notef("wake %s", pod) }})
				if err != nil {
					t.Fatal(err)
				}
				go func() { _ = w.Start(t.Context()) }()
				for _, pod := range []*corev1.Pod{cache["web"], after} {
					cache["web"] = pod
					if _, err := w.Do(t.Context(), web); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				n.mu.Lock()
				defer n.mu.Unlock()
				if diff := cmp.Diff([]string{"stop rt://a0 within 30s", "wake shop/web"}, n.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestUnwanted: a stop continues as long as each call of work keeps the stop or returns an error. A failed stop is
// remembered until a call of work does not keep the stop. If work asks for the stop again, the stop begins again.
func TestUnwanted(t *testing.T) {
	step := containerrestart.Step{Containers: []containerrestart.Container{{Name: "app", Phase: containerrestart.Restarting, StoppedID: "rt://a0"}}}
	for name, tt := range map[string]struct {
		second func(*agent.Pod) error
		want   bool
	}{
		"not named":          {func(*agent.Pod) error { return nil }, false},
		"awaited by a step":  {func(pod *agent.Pod) error { return pod.Begin(step, nil) }, true},
		"kept":               {func(pod *agent.Pod) error { pod.Keep("rt://a0"); return nil }, true},
		"another kept":       {func(pod *agent.Pod) error { pod.Keep("rt://b0"); return nil }, false},
		"all kept":           {func(pod *agent.Pod) error { pod.KeepAll(); return nil }, true},
		"asked for again":    {func(pod *agent.Pod) error { return pod.Stop("rt://a0", nil) }, true},
		"a pass that fails":  {func(*agent.Pod) error { return errors.New("no answer") }, true},
		"a pass that panics": {func(*agent.Pod) error { panic("of the work") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{takes: time.Hour, containers: []cri.Container{container("rt://a0", "app", containerrestart.Running)}}
				do := func(pod *agent.Pod) error { return pod.Stop("rt://a0", nil) }
				var goesOn bool
				w, err := agent.NewWorker("n1", pods{"web": newPod()}, n, func(_ context.Context, pod *agent.Pod) (time.Duration, error) {
					goesOn = pod.IsStopping()
					return 0, do(pod)
				}, agent.WorkerOptions{})
				if err != nil {
					t.Fatal(err)
				}
				go func() { _ = w.Start(t.Context()) }()
				for range 2 {
					_, _ = w.Do(t.Context(), web)
					synctest.Wait()
					do = tt.second
				}
				do = func(pod *agent.Pod) error { pod.KeepAll(); return nil }
				if _, err := w.Do(t.Context(), web); err != nil || goesOn != tt.want {
					t.Errorf("the stop goes on: %t, error %v", goesOn, err)
				}
			})
		})
	}
}

// TestPanic: a panic in work becomes an error, and the next call works as usual.
func TestPanic(t *testing.T) {
	calls := 0
	w, err := agent.NewWorker("n1", pods{"web": newPod()}, &node{}, func(context.Context, *agent.Pod) (time.Duration, error) {
		if calls++; calls == 1 {
			panic("of the work")
		}
		return -time.Second, nil
	}, agent.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Do(t.Context(), web); err == nil || !strings.Contains(err.Error(), "of the work") {
		t.Errorf("error %v", err)
	}
	if again, err := w.Do(t.Context(), web); again != 0 || err != nil {
		t.Errorf("again in %s, error %v", again, err)
	}
}

func TestNewWorker(t *testing.T) {
	work := func(context.Context, *agent.Pod) (time.Duration, error) { return 0, nil }
	for name, err := range map[string]error{
		"no node":     second(agent.NewWorker("", pods{}, &node{}, work, agent.WorkerOptions{})),
		"no reader":   second(agent.NewWorker("n1", nil, &node{}, work, agent.WorkerOptions{})),
		"no runtimes": second(agent.NewWorker("n1", pods{}, nil, work, agent.WorkerOptions{})),
		"no work":     second(agent.NewWorker("n1", pods{}, &node{}, nil, agent.WorkerOptions{})),
	} {
		if err == nil {
			t.Error(name + ": no error")
		}
	}
}

func second[T any](_ T, err error) error { return err }
