package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controlplane"
	"github.com/workloadkit/workloadkit/podstate"
)

const (
	namespace = "default"
	name      = "bench"
	deadline  = 20 * time.Minute
)

// figure is what one rollout cost.
type figure struct {
	Rollout  string             `json:"rollout"`
	Seconds  float64            `json:"seconds"`
	CPU      float64            `json:"cpuSeconds"`
	Requests map[string]float64 `json:"requestsPerPod"`
	// Unready are the seconds that Pods were out of service.
	Unready window `json:"unreadySeconds"`
}

// window summarises durations, in seconds.
type window struct {
	Pods   int     `json:"pods"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// measure creates the CloneSet and takes it through its rollouts.
func measure(ctx context.Context, o options, c client.Client, config *rest.Config, auditLog string, m *process) ([]figure, error) {
	w, err := follow(ctx, config)
	if err != nil {
		return nil, err
	}
	rollouts := []struct {
		title  string
		change func(*v1beta1.CloneSet)
	}{
		{"scale up", nil},
		{"image, in place", func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Image = "example.test/app:v2" }},
		{"env, recreate", func(cs *v1beta1.CloneSet) {
			cs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
		}},
	}
	var out []figure
	var offset int64
	for _, r := range rollouts {
		w.reset()
		cpu, began := m.cpu(), time.Now()
		if err := roll(ctx, o, c, r.change); err != nil {
			return nil, fmt.Errorf("%s: %w", r.title, err)
		}
		f := figure{Rollout: r.title, Seconds: time.Since(began).Seconds(), CPU: m.cpu() - cpu, Unready: w.summary()}
		if f.Requests, offset, err = requests(auditLog, offset, o.agent, o.pods); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func roll(ctx context.Context, o options, c client.Client, change func(*v1beta1.CloneSet)) error {
	cs := &v1beta1.CloneSet{}
	if change == nil {
		cs = cloneSet(o)
		if err := c.Create(ctx, cs); err != nil {
			return err
		}
	} else {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cs); err != nil {
			return err
		}
		before := cs.DeepCopy()
		change(cs)
		if err := c.Patch(ctx, cs, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	generation := cs.Generation
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, deadline, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cs), cs); err != nil {
			return false, err
		}
		s := &cs.Status
		want := int32(o.pods)
		return s.ObservedGeneration >= generation && s.Replicas == want && s.UpdatedAvailableReplicas == want && s.AvailableReplicas == want, nil
	})
}

func cloneSet(o options) *v1beta1.CloneSet {
	labels := map[string]string{"app": name}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(int32(o.pods)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers:                    []corev1.Container{{Name: "app", Image: "example.test/app:v1"}, {Name: "log", Image: "example.test/log:v1"}},
				},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.Parse(o.maxUnavailable)),
				},
			},
		},
	}
	if o.startDelay > 0 {
		cs.Spec.Template.Annotations = map[string]string{controlplane.StartDelay: o.startDelay.String()}
	}
	return cs
}

// follower measures how long each Pod is out of service, from every event of a watch.
type follower struct {
	mu      sync.Mutex
	since   map[types.UID]time.Time
	ready   map[types.UID]bool
	windows []float64
}

// follow uses an informer, because a plain watch of thousands of Pods is ended by the API server now and then.
func follow(ctx context.Context, config *rest.Config) (*follower, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	f := &follower{since: map[types.UID]time.Time{}, ready: map[types.UID]bool{}}
	informer := informers.NewSharedInformerFactory(clients, 0).Core().V1().Pods().Informer()
	see := func(event watch.EventType, obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			f.see(event, pod, time.Now())
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { see(watch.Added, obj) },
		UpdateFunc: func(_, obj any) { see(watch.Modified, obj) },
		DeleteFunc: func(obj any) { see(watch.Deleted, obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("following Pods: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("following Pods: no first list")
	}
	return f, nil
}

func (f *follower) see(event watch.EventType, pod *corev1.Pod, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ready := podstate.IsReady(pod)
	switch {
	case event == watch.Deleted || pod.DeletionTimestamp != nil:
		delete(f.since, pod.UID)
		delete(f.ready, pod.UID)
		return
	case f.ready[pod.UID] && !ready:
		f.since[pod.UID] = now
	case ready && !f.since[pod.UID].IsZero():
		f.windows = append(f.windows, now.Sub(f.since[pod.UID]).Seconds())
		delete(f.since, pod.UID)
	}
	f.ready[pod.UID] = ready
}

func (f *follower) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.windows = nil
}

func (f *follower) summary() window {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.windows) == 0 {
		return window{}
	}
	slices.Sort(f.windows)
	at := func(q float64) float64 { return f.windows[min(int(q*float64(len(f.windows))), len(f.windows)-1)] }
	return window{Pods: len(f.windows), Median: at(0.5), P95: at(0.95), Max: f.windows[len(f.windows)-1]}
}

func printTable(o options, figures []figure, m *process) {
	fmt.Printf("%d Pods, maxUnavailable %s, manager %s\n\n", o.pods, o.maxUnavailable, o.manager)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rollout\tseconds\tCPU s\tunready median\tp95\tmax\trequests per Pod")
	for _, f := range figures {
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(f.Requests)) {
			parts = append(parts, fmt.Sprintf("%s %.3g", key, f.Requests[key]))
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.3f\t%.3f\t%.3f\t%s\n", f.Rollout, f.Seconds, f.CPU, f.Unready.Median, f.Unready.P95, f.Unready.Max, strings.Join(parts, ", "))
	}
	_ = w.Flush()
	total := m.total()
	fmt.Printf("\nmanager in all: %.2f CPU seconds, %.0f MiB at its peak\n", total.CPUSeconds, total.PeakMebibytes)
}
