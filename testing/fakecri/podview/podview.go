// Package podview answers the question: how do I run node agents on simulated Nodes? [View] shows the Pods of a
// simulated cluster as containers. A View has a fakecri.Machine for each Node, and uses one watch for all Nodes. The
// containers are derived from the Pods' status. Stop writes the annotation controlplane.Stopped, and the simulated
// kubelet starts the next instance. Package program runs the programs of Exec.
//
//	view, err := podview.Start(ctx, client)
//	...
//	server, err := fakecri.Start(fakecri.Options{Machine: view.Node("sim-01"), Name: podview.Runtime, Socket: path})
//
// # What differs from a Node
//
// A stopped container ends at once, whatever the grace period is. The exit code is 0, or 143 in a Pod with
// restartPolicy Never. The View knows ended containers only if the Pod's status shows the containers. The environment
// of an instance older than the View is computed from the first version of the Pod that the View has read.
package podview

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/containerconfig"
	"github.com/workloadkit/workloadkit/testing/fakecri/program"
)

// Runtime is the name of the runtime, with which the IDs of simulated containers begin. An agent finds the runtime of a
// container by this name.
const Runtime = "sim"

// View shows the containers of all Nodes. The methods are safe for concurrent use.
type View struct {
	client kubernetes.Interface

	mu      sync.Mutex
	nodes   map[string]map[types.UID]*entry
	changed chan struct{} // closed at the next change
}

// entry is a Pod with the instances of its containers, by ID.
type entry struct {
	pod       *corev1.Pod
	instances map[string]fakecri.Container
}

// Start watches the Pods until ctx ends, and returns once all Pods are known.
func Start(ctx context.Context, client kubernetes.Interface) (*View, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	v, synced, err := newView(client, informer)
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return nil, fmt.Errorf("watch the pods: %w", context.Cause(ctx))
	}
	return v, nil
}

// New returns a View of the Pods of a shared informer; the client writes the annotation for stops.
func New(client kubernetes.Interface, pods cache.SharedIndexInformer) (*View, error) {
	v, _, err := newView(client, pods)
	return v, err
}

func newView(client kubernetes.Interface, pods cache.SharedIndexInformer) (*View, cache.InformerSynced, error) {
	v := &View{client: client, nodes: map[string]map[types.UID]*entry{}, changed: make(chan struct{})}
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { v.observe(obj) },
		UpdateFunc: func(_, obj any) { v.observe(obj) },
		DeleteFunc: v.forget,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch the pods: %w", err)
	}
	return v, handler.HasSynced, nil
}

func (v *View) observe(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	pods := v.nodes[pod.Spec.NodeName]
	if pods == nil {
		pods = map[types.UID]*entry{}
		v.nodes[pod.Spec.NodeName] = pods
	}
	var before map[string]fakecri.Container
	if old := pods[pod.UID]; old != nil {
		before = old.instances
	}
	pods[pod.UID] = &entry{pod: pod, instances: instances(pod, before)}
	v.announce()
}

func (v *View) forget(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.nodes[pod.Spec.NodeName], pod.UID)
	v.announce()
}

func (v *View) announce() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Node returns the Machine of a Node.
func (v *View) Node(name string) fakecri.Machine { return &node{view: v, name: name} }

// node shows the containers of a single Node, and implements fakecri.Machine.
type node struct {
	view *View
	name string
}

func (n *node) Sandboxes() []fakecri.Sandbox {
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	var out []fakecri.Sandbox
	for _, e := range n.view.nodes[n.name] {
		out = append(out, containerconfig.Sandbox(e.pod))
	}
	return out
}

func (n *node) Containers() []fakecri.Container {
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	var out []fakecri.Container
	for _, e := range n.view.nodes[n.name] {
		for _, c := range e.instances {
			out = append(out, c)
		}
	}
	return out
}

// find returns an instance and its Pod, if the instance exists, and a channel that is closed at the next change.
func (n *node) find(id string) (*corev1.Pod, fakecri.Container, <-chan struct{}) {
	n.view.mu.Lock()
	defer n.view.mu.Unlock()
	for _, e := range n.view.nodes[n.name] {
		if c, ok := e.instances[id]; ok {
			return e.pod, c, n.view.changed
		}
	}
	return nil, fakecri.Container{}, n.view.changed
}

func (n *node) Exec(ctx context.Context, id string, argv []string) (out, errOut []byte, code int32, err error) {
	pod, c, _ := n.find(id)
	if pod == nil {
		return nil, nil, 0, fmt.Errorf("container %q: %w", id, fakecri.ErrNotFound)
	}
	result, err := program.Run(ctx, argv, c.Env)
	return result.Out, result.ErrOut, result.Code, err
}

func (n *node) Stop(ctx context.Context, id string, _ time.Duration) error {
	pod, c, _ := n.find(id)
	if pod == nil {
		return nil
	}
	if err := n.view.ask(ctx, pod, c); err != nil {
		return err
	}
	for {
		pod, c, changed := n.find(id)
		if pod == nil || !c.Finished.IsZero() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask requests the end of an instance from the simulated kubelet, through the annotation. ask also removes requests
// for instances that no longer exist from the annotation.
func (v *View) ask(ctx context.Context, pod *corev1.Pod, c fakecri.Container) error {
	pods := v.client.CoreV1().Pods(pod.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		fresh, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if fresh.UID != pod.UID {
			return nil
		}
		var asked map[string]string
		if err := json.Unmarshal([]byte(fresh.Annotations[controlplane.Stopped]), &asked); err != nil || asked == nil {
			asked = map[string]string{} // the annotation could not be parsed
		}
		alive := map[string]bool{}
		for id := range instances(fresh, nil) {
			alive[Runtime+"://"+id] = true
		}
		maps.DeleteFunc(asked, func(_, id string) bool { return !alive[id] })
		asked[c.Name] = Runtime + "://" + c.ID
		text, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": fresh.ResourceVersion, "annotations": map[string]string{controlplane.Stopped: string(text)},
		}})
		if err != nil {
			return err
		}
		_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for the end of container %s of pod %s: %w", c.Name, pod.Name, err)
	}
	return nil
}

// instances returns the instances in a Pod's status, by ID without the runtime's name. For an instance in before,
// only the state is updated, and the configuration stays.
func instances(pod *corev1.Pod, before map[string]fakecri.Container) map[string]fakecri.Container {
	out := map[string]fakecri.Container{}
	for _, list := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			for _, c := range reported(pod, &list[i]) {
				if old, known := before[c.ID]; known {
					old.Finished, old.ExitCode, old.Reason, old.Message = c.Finished, c.ExitCode, c.Reason, c.Message
					c = old
				}
				if _, seen := out[c.ID]; !seen {
					out[c.ID] = c
				}
			}
		}
	}
	return out
}

// reported returns the instances in the status of a container, the present instance first.
func reported(pod *corev1.Pod, s *corev1.ContainerStatus) []fakecri.Container {
	var out []fakecri.Container
	add := func(fullID string, attempt int32, started metav1.Time, end *corev1.ContainerStateTerminated) {
		spec := containerconfig.SpecOf(pod, s.Name)
		_, id, _ := strings.Cut(fullID, "://")
		if id == "" || spec == nil {
			return
		}
		c := containerconfig.New(pod, spec, uint32(max(attempt, 0)))
		c.ID, c.ImageID = id, s.ImageID[strings.LastIndexByte(s.ImageID, '@')+1:]
		c.Created, c.Started = started.Time, started.Time
		if end != nil {
			c.Finished, c.ExitCode, c.Reason, c.Message = end.FinishedAt.Time, end.ExitCode, end.Reason, end.Message
		}
		out = append(out, c)
	}
	if run := s.State.Running; run != nil {
		add(s.ContainerID, s.RestartCount, run.StartedAt, nil)
	}
	if end := s.State.Terminated; end != nil {
		add(s.ContainerID, s.RestartCount, end.StartedAt, end)
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		attempt := s.RestartCount
		if last.ContainerID != s.ContainerID {
			attempt--
		}
		add(last.ContainerID, attempt, last.StartedAt, last)
	}
	return out
}
