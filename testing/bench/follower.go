package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/podstate"
)

// follower records the states of all Pods of the workload over time (type life), as seen by an informer. The time of
// an observation is the time at which the event arrived.
type follower struct {
	mu       sync.Mutex
	began    time.Time
	template *corev1.PodTemplateSpec
	records  map[types.UID]*record
	past     []life // lives of Pods deleted in this phase
}

// record is an existing Pod, together with the observations of the Pod in this phase.
type record struct {
	life
	pod *corev1.Pod
}

// follow returns a follower with an informer. A plain watch would not suffice, because the API server sometimes
// closes a plain watch of thousands of Pods.
func follow(ctx context.Context, config *rest.Config) (*follower, error) {
	config = rest.CopyConfig(config)
	// The components of the control plane use protobuf. The API server encodes each event only once for all watches that
	// use the same encoding.
	config.ContentType = runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the watch: %w", err)
	}
	f := &follower{records: map[types.UID]*record{}, began: time.Now(), template: &corev1.PodTemplateSpec{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0,
		informers.WithNamespace(Namespace), informers.WithTransform(stripManagedFields))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { f.see(obj, time.Now()) },
		UpdateFunc: func(_, obj any) { f.see(obj, time.Now()) },
		DeleteFunc: func(obj any) { f.lose(obj, time.Now()) },
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

func stripManagedFields(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return obj, nil
}

// begin begins the records of a phase in which Pods get the template.
func (f *follower) begin(template *corev1.PodTemplateSpec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began, f.template, f.past = time.Now(), template.DeepCopy(), nil
	for uid, r := range f.records {
		if r.gone > 0 {
			delete(f.records, uid) // the Pod has been terminating since an earlier phase
			continue
		}
		r.life = life{pod: r.life.pod, object: r.object, existed: true, moments: []moment{f.stateOf(r.pod, 0)}}
	}
}

func (f *follower) stateOf(pod *corev1.Pod, at time.Duration) moment {
	updated := carries(pod, f.template)
	return moment{at: at, updated: updated, ready: podstate.IsReady(pod) && (!updated || runs(pod)), closed: hasClosedGate(pod)}
}

func hasClosedGate(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return !podstate.IsTrue(pod, g.ConditionType) })
}

// see records the state of a Pod in an event.
func (f *follower) see(obj any, now time.Time) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Labels[objectLabel] == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := now.Sub(f.began)
	r := f.records[pod.UID]
	switch {
	case r == nil && pod.DeletionTimestamp != nil:
		return // the Pod is known to be deleted already
	case r == nil:
		r = &record{life: life{pod: pod.Name, object: pod.Labels[objectLabel], moments: []moment{f.stateOf(pod, at)}}}
		f.records[pod.UID] = r
	}
	r.pod, r.touched = pod, true
	if pod.DeletionTimestamp != nil || !podstate.IsActive(pod) {
		if r.gone == 0 {
			r.gone = at
		}
		return
	}
	next := f.stateOf(pod, at)
	if next.sameAs(r.moments[len(r.moments)-1]) {
		return
	}
	r.moments = append(r.moments, next)
}

// lose records the deletion of a Pod.
func (f *follower) lose(obj any, now time.Time) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.records[pod.UID]
	if r == nil {
		return
	}
	if r.gone == 0 {
		r.gone = now.Sub(f.began)
	}
	r.touched = true
	f.past = append(f.past, r.life)
	delete(f.records, pod.UID)
}

// lives returns the observations since the phase began.
func (f *follower) lives() []life {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.past)
	for _, r := range f.records {
		out = append(out, r.life)
	}
	for i := range out {
		out[i].moments = slices.Clone(out[i].moments)
	}
	return out
}

// census has, for each object, the number of Pods that are not terminating (pods), and the number of these Pods that
// are ready with the phase's template (done).
type census struct{ pods, done map[string]int }

func (f *follower) count() census {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := census{pods: map[string]int{}, done: map[string]int{}}
	for _, r := range f.records {
		if r.gone > 0 {
			continue
		}
		c.pods[r.object]++
		if last := r.moments[len(r.moments)-1]; last.updated && last.ready {
			c.done[r.object]++
		}
	}
	return c
}

// live returns the names of the Pods that are not terminating.
func (f *follower) live() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, r := range f.records {
		if r.gone == 0 {
			names = append(names, r.life.pod)
		}
	}
	return names
}
