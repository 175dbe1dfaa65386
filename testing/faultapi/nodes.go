package faultapi

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/internal/imagename"
)

// Nodes simulates the scheduler and the kubelets of a Server. A kubelet learns of a Pod's changes (Observe), starts
// and stops containers (Run), and reports their state (Report). Observe, Run and Report are separate steps, so that
// other events can happen in between. Nodes is not safe for concurrent use. Get Nodes from Server.Nodes.
//
// A kubelet starts, restarts and resizes a Pod's containers at once and in no particular order. Init containers run
// first, one after the other: an ordinary init container succeeds as soon as it is started, and is never restarted. A
// native sidecar keeps running while the main containers run, and is restarted like a main container. A container
// that exits (Exit) is restarted if its restartPolicy and restart rules say so. When all containers of a Pod have
// ended for good, the Pod has succeeded or failed. If another client sets a Pod's phase to Failed or Succeeded, the
// kubelet stops the Pod. A terminating Pod does not change its phase. An ephemeral container starts without waiting
// for any container, and is never restarted.
//
// A kubelet restarts a container when the spec names a new image, even if the new name means the same image. If the new
// image is broken, the running container is stopped and no new instance starts. A broken image in a volume also keeps
// the containers with the volume from starting. A container also does not start while
// one of its variables refers to a missing key of a ConfigMap, if the server has ConfigMaps.
type Nodes struct {
	// Images are the images that containers can run. A test may change the Images during a schedule.
	Images *Images

	server *Server
	pods   map[types.UID]*node
}

// killed is the exit code after SIGKILL.
const killed = 137

// node contains a kubelet's state of one Pod.
type node struct {
	view       *corev1.Pod
	containers map[string]*container
	failed     bool
	unreported bool // set by Observe and Run, until the next report
	images     int  // value of Images.changes at the last report
}

// container is the last started instance of a container. If id is empty, none was started.
type container struct {
	image     string // image as named in the spec
	digest    string
	id        string
	restarts  int32
	runs      bool // false if the next instance cannot start, or the container is done
	waits     *corev1.ContainerStateWaiting
	exit      *int32 // exit code of the last instance, if no instance was started since
	done      bool   // a plain init container that has succeeded
	ready     bool
	started   metav1.Time
	env       []corev1.EnvVar // variables read from labels and annotations
	resources corev1.ResourceRequirements
	kept      *corev1.ContainerStatus // status of an adopted instance, until another instance starts or the instance stops
	stuck     bool                    // an adopted container that cannot start with its image
}

// Nodes returns the Nodes of the server; every call returns the same Nodes.
func (s *Server) Nodes() *Nodes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		s.nodes = &Nodes{Images: newImages(), server: s, pods: map[types.UID]*node{}}
	}
	return s.nodes
}

// Pod returns the server's Pod, or nil if the Pod was deleted or replaced. Do not modify the Pod.
func (n *Nodes) Pod(key types.NamespacedName, uid types.UID) *corev1.Pod {
	var current *corev1.Pod
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	if k, err := n.server.kindOf(&corev1.Pod{}); err == nil {
		current, _ = k.objects[key].(*corev1.Pod)
	}
	if current == nil || (uid != "" && current.UID != uid) {
		return nil
	}
	return current
}

// write changes a Pod as the node or the scheduler does.
func (n *Nodes) write(pod *corev1.Pod, sub string, change func(*corev1.Pod)) error {
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	k, err := n.server.kindOf(pod)
	if err != nil {
		return err
	}
	_, err = n.server.update(k, client.ObjectKeyFromObject(pod), sub, func(old client.Object) (client.Object, error) {
		if old.GetUID() != pod.UID {
			return nil, fmt.Errorf("Pod %s was replaced", pod.Name)
		}
		fresh := clone(old).(*corev1.Pod)
		change(fresh)
		return fresh, nil
	})
	return err
}

// Schedule binds a Pod to a node. A Pod whose affinity names a Node is bound to this Node, whatever Node the argument
// name names. If the server has Nodes, the Node must exist, and the Pod must tolerate its taints; until then the Pod
// stays pending. Schedule reports whether anything has changed.
func (n *Nodes) Schedule(pod *corev1.Pod, name string) bool {
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	k, err := n.server.kindOf(pod)
	if err != nil {
		return false
	}
	old, _ := k.objects[client.ObjectKeyFromObject(pod)].(*corev1.Pod)
	if old == nil || old.UID != pod.UID || old.Spec.NodeName != "" || old.DeletionTimestamp != nil {
		return false
	}
	if pinned, err := nodefit.NodeOf(old); err == nil {
		if name = pinned; !n.server.mayRun(old, name) {
			return false
		}
	}
	if !n.server.hasClaims(old) {
		return false
	}
	// A binding is not an update: it sets fields that updates cannot change.
	bound := old.DeepCopy()
	bound.Spec.NodeName = name
	setCondition(bound, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, n.server.time())
	n.server.store(k, "MODIFIED", bound)
	return true
}

// mayRun reports whether a Pod may run on the Node. If the server has no Nodes, every Pod may.
func (s *Server) mayRun(pod *corev1.Pod, name string) bool {
	k, err := s.kindOf(&corev1.Node{})
	if err != nil {
		return true
	}
	node, there := k.objects[client.ObjectKey{Name: name}].(*corev1.Node)
	requirements, err := nodefit.New(&pod.Spec)
	return there && err == nil && requirements.Fits(node).Run
}

// hasClaims reports whether all claims of a Pod exist, as the scheduler's plugin VolumeBinding requires. If the server
// has no claims, hasClaims returns true.
func (s *Server) hasClaims(pod *corev1.Pod) bool {
	k, err := s.kindOf(&corev1.PersistentVolumeClaim{})
	if err != nil {
		return true
	}
	for i := range pod.Spec.Volumes {
		of := pod.Spec.Volumes[i].PersistentVolumeClaim
		if of == nil {
			continue
		}
		claim, there := k.objects[client.ObjectKey{Namespace: pod.Namespace, Name: of.ClaimName}].(*corev1.PersistentVolumeClaim)
		if !there || claim.DeletionTimestamp != nil {
			return false
		}
	}
	return true
}

// Observe lets the Pod's kubelet see the newest version of the Pod, and reports whether the version is new. The kubelet
// forgets a deleted Pod.
func (n *Nodes) Observe(key types.NamespacedName, uid types.UID) bool {
	current := n.Pod(key, uid)
	if current == nil || current.Spec.NodeName == "" {
		_, had := n.pods[uid]
		delete(n.pods, uid)
		return had
	}
	uid = current.UID
	p := n.pods[uid]
	if p == nil {
		p = &node{containers: map[string]*container{}}
		n.pods[uid] = p
	}
	changed := p.view == nil || p.view.ResourceVersion != current.ResourceVersion
	p.view, p.unreported = current, p.unreported || changed
	return changed
}

// Known returns the UIDs of the Pods that kubelets know, in a fixed order.
func (n *Nodes) Known() []types.UID {
	uids := make([]types.UID, 0, len(n.pods))
	for uid := range n.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}

// Run starts, restarts and resizes containers as required by the version of the Pod that the kubelet knows. A started
// container is not ready. Run reports whether anything has changed.
func (n *Nodes) Run(uid types.UID) bool {
	p := n.pods[uid]
	if p == nil || p.failed || p.view.DeletionTimestamp != nil {
		return false
	}
	changed := n.runEphemeral(p, p.stopAll())
	for spec := range p.specs() {
		c := p.containers[spec.Name]
		if c == nil {
			if p.hasEnded() || !p.isNext(spec) {
				continue
			}
			c = &container{}
			p.containers[spec.Name] = c
		}
		if !c.done && !p.hasEnded() && !c.hasEnded(p.view, spec) {
			changed = n.run(c, p.view, spec) || changed
		}
		if c.runs && p.isInit(spec) && !podstate.IsNativeSidecar(spec) {
			c.runs, c.done = false, true
		}
	}
	p.unreported = p.unreported || changed
	return changed
}

// runEphemeral starts the ephemeral containers that never ran. The result is true if a container was started, or if
// the argument changed is true.
func (n *Nodes) runEphemeral(p *node, changed bool) bool {
	if p.hasEnded() {
		return changed
	}
	for spec := range p.ephemeral() {
		c := p.containers[spec.Name]
		if c == nil {
			c = &container{}
			p.containers[spec.Name] = c
		}
		if c.id == "" {
			changed = n.run(c, p.view, spec) || changed
		}
	}
	return changed
}

// hasEnded reports whether the Pod's phase is Failed or Succeeded, whichever client has set the phase.
func (p *node) hasEnded() bool {
	return p.view.Status.Phase == corev1.PodSucceeded || p.view.Status.Phase == corev1.PodFailed
}

// stopAll stops the running containers of an ended Pod (syncPod in pkg/kubelet/kubelet.go), and reports whether any
// container was running.
func (p *node) stopAll() (changed bool) {
	if !p.hasEnded() {
		return false
	}
	for _, c := range p.containers {
		if c.runs {
			c.runs, c.ready, c.exit, c.kept, changed = false, false, new(int32(killed)), nil, true
		}
	}
	return changed
}

// specs iterates over the containers known to the kubelet, init containers first.
func (p *node) specs() iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{p.view.Spec.InitContainers, p.view.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// ephemeral iterates over the ephemeral containers known to the kubelet.
func (p *node) ephemeral() iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range p.view.Spec.EphemeralContainers {
			if !yield((*corev1.Container)(&p.view.Spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

func (p *node) isInit(spec *corev1.Container) bool {
	return slices.ContainsFunc(p.view.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == spec.Name })
}

// isNext reports whether all init containers that precede the container in the spec have been started.
func (p *node) isNext(spec *corev1.Container) bool {
	for i := range p.view.Spec.InitContainers {
		before := p.view.Spec.InitContainers[i].Name
		if before == spec.Name {
			return true
		}
		if !p.hasStarted(before) {
			return false
		}
	}
	return true
}

// isInitialized reports whether all init containers have been started.
func (p *node) isInitialized() bool {
	return !slices.ContainsFunc(p.view.Spec.InitContainers, func(c corev1.Container) bool { return !p.hasStarted(c.Name) })
}

func (p *node) hasStarted(name string) bool {
	return p.containers[name] != nil && p.containers[name].id != ""
}

// run starts, restarts or stops a container as its spec requires, and reports whether anything has changed.
func (n *Nodes) run(c *container, pod *corev1.Pod, spec *corev1.Container) bool {
	changed := !equality.Semantic.DeepEqual(c.resources, spec.Resources)
	c.resources = spec.Resources
	if c.runs && c.image == spec.Image {
		return changed
	}
	if c.stuck = c.stuck && c.image == spec.Image; c.stuck {
		return changed
	}
	if c.waits = n.cannotStart(pod, spec); c.waits != nil {
		changed = changed || c.runs
		c.runs, c.ready, c.kept = false, false, nil
		return changed
	}
	if c.id == "" {
		c.restarts--
	}
	n.Images.Pull(spec.Image)
	c.image, c.digest = spec.Image, n.Images.Digest(spec.Image)
	c.start(pod, spec, n.server.time())
	return true
}

// cannotStart returns the waiting state of a container that cannot start, or nil.
func (n *Nodes) cannotStart(pod *corev1.Pod, spec *corev1.Container) *corev1.ContainerStateWaiting {
	for _, mount := range spec.VolumeMounts {
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; v.Name == mount.Name && v.Image != nil && n.Images.broken[imagename.Full(v.Image.Reference)] {
				return &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "failed to pull image volume \"" + v.Image.Reference + "\""}
			}
		}
	}
	if n.Images.broken[imagename.Full(spec.Image)] {
		return &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image \"" + spec.Image + "\""}
	}
	return n.lacksKey(pod, spec)
}

// lacksKey returns the waiting state of a container that cannot start because a ConfigMap or key of its env is
// missing, or nil.
func (n *Nodes) lacksKey(pod *corev1.Pod, spec *corev1.Container) *corev1.ContainerStateWaiting {
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	k, err := n.server.kindOf(&corev1.ConfigMap{})
	if err != nil {
		return nil
	}
	for i := range spec.Env {
		from := spec.Env[i].ValueFrom
		if from == nil || from.ConfigMapKeyRef == nil || from.ConfigMapKeyRef.Optional != nil && *from.ConfigMapKeyRef.Optional {
			continue
		}
		ref := from.ConfigMapKeyRef
		found, _ := k.objects[types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}].(*corev1.ConfigMap)
		message := fmt.Sprintf("configmap %q not found", ref.Name)
		if found != nil {
			if _, has := found.Data[ref.Key]; has {
				continue
			}
			message = fmt.Sprintf("couldn't find key %s in ConfigMap %s/%s", ref.Key, pod.Namespace, ref.Name)
		}
		return &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: message}
	}
	return nil
}

// RunAll calls Run for all Pods, and reports whether anything has changed.
func (n *Nodes) RunAll() bool {
	changed := false
	for _, uid := range n.Known() {
		changed = n.Run(uid) || changed
	}
	return changed
}

// start starts a new instance of the container, by the version of the Pod that the kubelet has.
func (c *container) start(pod *corev1.Pod, spec *corev1.Container, now metav1.Time) {
	c.restarts++
	c.started = now
	c.id = fmt.Sprintf("%s/%s/%d", pod.UID, spec.Name, c.restarts)
	c.env = envFromMetadata(pod, spec)
	c.runs, c.ready, c.exit, c.kept = true, false, nil, nil
}

// hasEnded reports whether the container has exited and will not be restarted.
func (c *container) hasEnded(pod *corev1.Pod, spec *corev1.Container) bool {
	return c != nil && c.exit != nil && !podstate.IsRestarted(pod, spec, *c.exit)
}

// Exit ends a running container with an exit code. Run decides whether to restart the container. Exit reports whether
// the container was running.
func (n *Nodes) Exit(uid types.UID, name string, code int32) bool {
	c := n.running(uid, name)
	if c == nil {
		return false
	}
	c.runs, c.ready, c.exit, c.kept = false, false, &code, nil
	n.pods[uid].unreported = true
	return true
}

// SetReady makes a container pass or fail its readiness probe, and reports whether anything has changed.
func (n *Nodes) SetReady(uid types.UID, name string, ready bool) bool {
	c := n.running(uid, name)
	if c == nil || c.ready == ready || (ready && n.Images.sick[imagename.Full(c.image)]) {
		return false
	}
	c.ready, n.pods[uid].unreported = ready, true
	return true
}

// Crash restarts a running container, and reports whether the container was running.
func (n *Nodes) Crash(uid types.UID, name string) bool {
	c := n.running(uid, name)
	if c == nil {
		return false
	}
	p := n.pods[uid]
	for spec := range p.specs() {
		if spec.Name != name {
			continue
		}
		if c.waits = n.lacksKey(p.view, spec); c.waits != nil {
			c.runs, c.ready, c.kept = false, false, nil
		} else {
			c.start(p.view, spec, n.server.time())
		}
	}
	p.unreported = true
	return true
}

// running returns a running container, or nil.
func (n *Nodes) running(uid types.UID, name string) *container {
	p := n.pods[uid]
	if p == nil || p.failed || p.containers[name] == nil || !p.containers[name].runs {
		return nil
	}
	return p.containers[name]
}

// Evict makes the Pod fail; the next Report writes the phase Failed.
func (n *Nodes) Evict(uid types.UID) bool {
	p := n.pods[uid]
	if p == nil || p.failed {
		return false
	}
	p.failed, p.unreported = true, true
	for _, c := range p.containers {
		c.ready = false
	}
	return true
}

// Image returns the image that a running container was started with, by its name in the spec then, whether reported or
// not; "" for a stopped container.
func (n *Nodes) Image(uid types.UID, name string) string {
	if c := n.running(uid, name); c != nil {
		return c.image
	}
	return ""
}

// Env returns the ID of the running container, as its status will show it, and the variables from labels and
// annotations with which the container was started. The id is "" for a stopped container.
func (n *Nodes) Env(uid types.UID, name string) (id string, env []corev1.EnvVar) {
	if c := n.running(uid, name); c != nil {
		return c.reportedID(), c.env
	}
	return "", nil
}

// envFromMetadata returns the variables from the Pod's labels and annotations that a container would get if started
// now.
func envFromMetadata(pod *corev1.Pod, spec *corev1.Container) (out []corev1.EnvVar) {
	for _, e := range spec.Env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		for kind, values := range map[string]map[string]string{"labels": pod.Labels, "annotations": pod.Annotations} {
			if key, ok := strings.CutPrefix(e.ValueFrom.FieldRef.FieldPath, "metadata."+kind+"['"); ok {
				out = append(out, corev1.EnvVar{Name: e.Name, Value: values[strings.TrimSuffix(key, "']")]})
			}
		}
	}
	return out
}

// Report writes the Pod's status as its kubelet knows it. The kubelet evaluates readiness gates in the version of the
// Pod that the kubelet knows, which may be old, and keeps conditions set by other writers. Report reports whether
// anything has changed.
func (n *Nodes) Report(uid types.UID) bool {
	p := n.pods[uid]
	if p == nil {
		return false
	}
	p.unreported, p.images = false, n.Images.changes
	before := n.server.Version()
	now := n.server.time()
	// The write fails if the Pod was deleted. The error is ignored, because the next Observe notices the deletion.
	_ = n.write(p.view, statusSubresource, func(pod *corev1.Pod) { p.report(pod, n.Images, now) })
	return n.server.Version() != before
}

// Acknowledge writes observedGeneration for the version of the Pod that the kubelet knows, and leaves containers and
// conditions as reported last. A real kubelet does the same, because its list of containers may be a second old when
// it reports a new generation. Acknowledge reports whether anything has changed.
func (n *Nodes) Acknowledge(uid types.UID) bool {
	p := n.pods[uid]
	if p == nil {
		return false
	}
	before := n.server.Version()
	_ = n.write(p.view, statusSubresource, func(pod *corev1.Pod) { pod.Status.ObservedGeneration = p.view.Generation })
	return n.server.Version() != before
}

func (p *node) report(pod *corev1.Pod, images *Images, now metav1.Time) {
	s := &pod.Status
	s.ObservedGeneration = p.view.Generation
	s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
	ready, begun, ended := true, len(p.containers) > 0, p.end()
	for spec := range p.specs() {
		status := p.containers[spec.Name].status(spec, images, p.failed)
		begun = begun && p.hasStarted(spec.Name)
		ready = ready && status.Ready
		if p.isInit(spec) { // init containers are listed in the order of their start
			s.InitContainerStatuses = append(s.InitContainerStatuses, status)
		} else {
			s.ContainerStatuses = append(s.ContainerStatuses, status)
		}
	}
	for spec := range p.ephemeral() {
		status := p.containers[spec.Name].status(spec, images, p.failed)
		status.Ready = false
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, status)
	}
	slices.SortFunc(s.ContainerStatuses, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	initialized := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if !p.isInitialized() {
		initialized.Status, initialized.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
	}
	containersReady := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	if !ready {
		containersReady.Status, containersReady.Reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	switch {
	case p.failed:
		s.Phase, s.Reason = corev1.PodFailed, "Evicted"
		containersReady.Reason = "PodFailed"
	case s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed: // the phase never changes again
	case ended != "":
		s.Phase, containersReady.Reason = ended, "PodCompleted"
	case begun:
		s.Phase = corev1.PodRunning
		if s.StartTime == nil {
			s.StartTime = &now
		}
	}
	setCondition(pod, initialized, now)
	setCondition(pod, containersReady, now)
	setCondition(pod, p.ready(containersReady), now)
}

// end returns the phase of a Pod if all its containers have ended for good, otherwise "".
func (p *node) end() corev1.PodPhase {
	phase := corev1.PodSucceeded
	for i := range p.view.Spec.Containers {
		spec := &p.view.Spec.Containers[i]
		c := p.containers[spec.Name]
		if !c.hasEnded(p.view, spec) {
			return ""
		}
		if *c.exit != 0 {
			phase = corev1.PodFailed
		}
	}
	return phase
}

// status returns the container status that a kubelet with containerd reports. If a container was stopped for an
// instance that fails to start, the kubelet keeps all of its status except the state.
func (c *container) status(spec *corev1.Container, images *Images, failed bool) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image}
	if c == nil {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		return status
	}
	if c.kept != nil {
		status = *c.kept.DeepCopy()
		status.Ready, status.Resources = c.ready, c.resources.DeepCopy()
		return status
	}
	if c.id != "" {
		status.Image, status.ImageID = images.reported(c.digest)
		status.ContainerID, status.RestartCount, status.Resources = c.reportedID(), c.restarts, c.resources.DeepCopy()
	}
	switch ended := (&corev1.ContainerStateTerminated{ContainerID: status.ContainerID}); {
	case c.exit != nil:
		if ended.ExitCode, ended.Reason = *c.exit, "Error"; *c.exit == 0 {
			ended.Reason = "Completed"
		}
		status.State.Terminated = ended
	case c.done:
		ended.Reason = "Completed"
		status.State.Terminated, status.Ready = ended, true
	case failed:
		ended.ExitCode, ended.Reason = 137, "Error"
		status.State.Terminated = ended
	case c.runs:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: c.started}
		status.Ready = c.ready
	default:
		status.State.Waiting = c.waits.DeepCopy()
		if c.id != "" {
			ended.Reason = "Completed"
			status.LastTerminationState.Terminated = ended
		}
	}
	started := c.runs && !failed // a completed init container is reported as not started
	status.Started = &started
	return status
}

func (c *container) reportedID() string { return "containerd://" + c.id }

// ready computes the Ready condition from the gates that the kubelet knows.
func (p *node) ready(containers corev1.PodCondition) corev1.PodCondition {
	if containers.Status != corev1.ConditionTrue {
		containers.Type = corev1.PodReady
		return containers
	}
	var closed []string
	for _, gate := range p.view.Spec.ReadinessGates {
		i := slices.IndexFunc(p.view.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
		case p.view.Status.Conditions[i].Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), p.view.Status.Conditions[i].Status))
		}
	}
	if len(closed) == 0 {
		return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", Message: strings.Join(closed, ", "),
	}
}

func setCondition(pod *corev1.Pod, want corev1.PodCondition, now metav1.Time) {
	want.LastTransitionTime = now
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != want.Type {
			continue
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		want.ObservedGeneration = c.ObservedGeneration
		*c = want
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, want)
}

// Terminate ends a Pod that its kubelet knows to be terminating, and reports whether the Pod was ended.
func (n *Nodes) Terminate(uid types.UID) bool {
	p := n.pods[uid]
	if p == nil || p.view.DeletionTimestamp == nil {
		return false
	}
	before := n.server.Version()
	// A NotFound error is ignored, because the Pod was to be deleted. The call stays within the process, so a context
	// is not needed.
	//nolint:forbidigo // a context is not needed, as said above
	_ = n.server.Client(nil, nil).Delete(context.Background(), p.view, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	return n.server.Version() != before
}

// Settle completes the work of scheduler and kubelets for every Pod: afterwards each Pod is scheduled, runs its spec,
// is ready and reported, or is deleted. Settle reports whether anything has changed.
func (n *Nodes) Settle() bool {
	before := n.server.Version()
	for _, pod := range All[*corev1.Pod](n.server) {
		n.Schedule(pod, "node-0")
		n.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	}
	for _, uid := range n.Known() {
		view := n.pods[uid].view
		news := n.Observe(client.ObjectKeyFromObject(view), uid)
		p := n.pods[uid]
		if p == nil {
			continue
		}
		news = n.Run(uid) || news
		for name := range p.containers {
			news = n.SetReady(uid, name, true) || news
		}
		if news || p.unreported || p.images != n.Images.changes {
			n.Report(uid)
		}
		n.Terminate(uid)
	}
	return n.server.Version() != before
}

// CollectGarbage deletes objects whose owners no longer exist, and removes the protection finalizer from deleted claims
// that no Pod uses. An owner whose kind the server does not have counts as existing. If the server has Nodes, Pods
// bound to a missing Node are removed. CollectGarbage reports whether anything has changed.
func (s *Server) CollectGarbage() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.version
	alive := map[types.UID]bool{}
	for _, k := range s.order {
		for _, obj := range k.objects {
			alive[obj.GetUID()] = true
		}
	}
	for _, k := range s.order {
		for _, obj := range s.list(k, everything) {
			owners := obj.GetOwnerReferences()
			orphan := !slices.ContainsFunc(owners, func(ref metav1.OwnerReference) bool { return alive[ref.UID] || !s.has(ref) })
			if len(owners) > 0 && orphan && obj.GetDeletionTimestamp() == nil {
				// The object exists, and there is no precondition.
				_ = s.delete(k, client.ObjectKeyFromObject(obj), &metav1.DeleteOptions{})
			}
		}
	}
	s.collectLost()
	s.releaseClaims()
	return s.version != before
}

// collectLost removes the Pods of missing Nodes at once, without a grace period for their kubelets.
func (s *Server) collectLost() {
	nodes, err := s.kindOf(&corev1.Node{})
	if err != nil {
		return
	}
	pods, err := s.kindOf(&corev1.Pod{})
	if err != nil {
		return
	}
	for _, obj := range s.list(pods, everything) {
		pod := obj.(*corev1.Pod)
		if name := pod.Spec.NodeName; name != "" && nodes.objects[client.ObjectKey{Name: name}] == nil {
			// The Pod exists, and there is no precondition.
			_ = s.delete(pods, client.ObjectKeyFromObject(pod), &metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		}
	}
}

// has reports whether the server serves the kind named in an owner reference.
func (s *Server) has(ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && s.kinds[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}] != nil
}

// releaseClaims removes the protection finalizer from deleted claims that no scheduled Pod uses.
func (s *Server) releaseClaims() {
	k, err := s.kindOf(&corev1.PersistentVolumeClaim{})
	if err != nil {
		return
	}
	pods, err := s.kindOf(&corev1.Pod{})
	if err != nil {
		return
	}
	used := map[string]bool{}
	for _, obj := range pods.objects {
		pod := obj.(*corev1.Pod)
		for i := range pod.Spec.Volumes {
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && pod.Spec.NodeName != "" {
				used[pod.Namespace+"/"+claim.ClaimName] = true
			}
		}
	}
	for _, obj := range s.list(k, everything) {
		if obj.GetDeletionTimestamp() == nil || used[sortKey(obj)] {
			continue
		}
		_, _ = s.update(k, client.ObjectKeyFromObject(obj), "", func(old client.Object) (client.Object, error) {
			fresh := clone(old)
			fresh.SetFinalizers(slices.DeleteFunc(fresh.GetFinalizers(), func(f string) bool { return f == claimProtection }))
			return fresh, nil
		})
	}
}
