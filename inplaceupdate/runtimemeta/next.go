package runtimemeta

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Rules say which containers a node agent must stop. If the Rules are the zero value, the agent reports the containers
// and stops none.
type Rules struct {
	// Condition is the Pod condition with status False during an in-place update: inplaceupdate.Keys.Gate. If Condition
	// is empty, no container is stopped.
	Condition corev1.PodConditionType
	// IgnoredEnv names variables to ignore, as in inplaceupdate.Config.
	IgnoredEnv []string
}

// Instance is a run of a container, as reported by the Node's container runtime.
type Instance struct {
	// ID is the ID of the instance in the form of a Pod's status: the runtime's name, "://" and the runtime's ID.
	ID string
	// Name is the name of the container in the Pod.
	Name string
	// Attempt is the number of earlier instances, as counted by the kubelet. The instance with the highest Attempt is
	// the newest.
	Attempt int32
	// Created decides which instance is newer if the attempts are equal.
	Created time.Time
	// Running says that the instance has started and has not ended.
	Running bool
	// Hash is the kubelet's hash of the container's spec when the instance was started, in hexadecimal digits; empty if
	// unknown.
	Hash string
	// Env is the environment with which the instance was started; the zero value if the agent has not read the
	// environment yet.
	Env Environment
}

// Step is the agent's next action for a Pod.
type Step struct {
	// Report is about all started containers and native sidecars of the Pod, in the order of the spec.
	Report Report
	// Changed says that Report differs from the previous report, and must be written.
	Changed bool
	// Read lists the IDs of instances whose environment must be read.
	Read []string
	// Stop are the instances that the agent must stop.
	Stop []Stop
	// Why has a reason for each missing part of the report, and for each outdated instance that is not stopped.
	Why reason.List
}

// Stop is an instance that the agent must stop.
type Stop struct {
	// Name is the name of the container, and ID the ID of the instance: do not stop a later instance of the container.
	Name, ID string
	// Why is the reason for the stop, with code EnvOutdated.
	Why reason.Reason
}

// Concerns reports whether agents must report about a Pod: the Pod's controller belongs to the given API group, or the
// Pod has the given annotation, such as the mark of an injected sidecar. An empty annotation name means that only the
// group counts.
func Concerns(pod *corev1.Pod, group, annotation string) bool {
	if _, marked := pod.Annotations[annotation]; marked && annotation != "" {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || group == "" {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == group
}

// Next returns the agent's next action for a Pod, given the instances of its containers and the previous report. If
// the Pod has no readable report, pass the zero Report as before. A Pod that is being deleted needs no action.
//
// A container runtime knows a new instance before the Pod's status shows the instance, so the report is built from
// the runtime's instances. The hash of an instance's environment is computed once, and then copied from each report
// to the next report. If the runtime has no instance of a container, the container's entry is kept as long as the
// Pod's status shows the same instance: a runtime forgets ended instances, but the Pod's status keeps them.
func (r Rules) Next(pod *corev1.Pod, instances []Instance, before Report) Step {
	if !podstate.IsActive(pod) {
		return Step{Report: before}
	}
	p := &pass{Rules: r, pod: pod, instances: instances, before: before}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if c := &list[i]; podstate.Container(pod, c.Name) == c {
				p.look(c)
			}
		}
	}
	p.Changed = !p.Report.Equal(before)
	return p.Step
}

// pass is the state of a single call of Next.
type pass struct {
	Rules
	Step

	pod       *corev1.Pod
	instances []Instance
	before    Report
}

// look adds the container's entry to the report, and the agent's actions for the container to the step.
func (p *pass) look(c *corev1.Container) {
	status := podstate.ContainerStatus(p.pod, c.Name)
	isShown := func(id string) bool { return status != nil && status.ContainerID == id }
	instance := p.newest(c.Name)
	if instance == nil {
		if known := p.before.container(c.Name); known != nil && isShown(known.ContainerID) {
			p.Report.Containers = append(p.Report.Containers, *known)
		}
		return
	}
	entry := Container{Name: c.Name, ContainerID: instance.ID, RestartCount: instance.Attempt}
	entry.CreatedAt = p.createdAt(instance, isShown(instance.ID))
	entry.Hashes = Hashes{PlainHash: p.plainHash(instance), ExtractedEnvFromMetadataHash: p.envHash(c, instance)}
	p.Report.Containers = append(p.Report.Containers, entry)
	if p.isOutdated(c, instance, entry.Hashes.ExtractedEnvFromMetadataHash) {
		p.stop(c, instance, isShown(instance.ID))
	}
}

// createdAt returns when an instance was created, if the Pod is in an in-place update and the Pod's status does not
// show the instance yet. If the previous report has the time, createdAt returns the same time.
func (p *pass) createdAt(i *Instance, shown bool) int64 {
	if known := p.before.Instance(i.Name, i.ID); known != nil && known.CreatedAt != 0 {
		return known.CreatedAt
	}
	if shown || i.Created.IsZero() || !p.isUpdating() {
		return 0
	}
	return i.Created.Unix()
}

// isUpdating reports whether the Pod is in an in-place update.
func (p *pass) isUpdating() bool {
	if p.Condition == "" {
		return false
	}
	updating := podstate.Condition(p.pod, p.Condition)
	return updating != nil && updating.Status == corev1.ConditionFalse
}

// newest returns the last instance of a container: by the kubelet's count, or by creation time if the counts are equal.
func (p *pass) newest(name string) *Instance {
	var found *Instance
	for i := range p.instances {
		candidate := &p.instances[i]
		if candidate.Name != name || candidate.ID == "" {
			continue
		}
		if found == nil || cmp.Or(cmp.Compare(candidate.Attempt, found.Attempt), candidate.Created.Compare(found.Created)) > 0 {
			found = candidate
		}
	}
	return found
}

func (p *pass) plainHash(i *Instance) uint64 {
	if i.Hash == "" {
		return 0
	}
	hash, err := strconv.ParseUint(i.Hash, 16, 64)
	if err != nil {
		p.why(HashUnreadable, i.Name, "the kubelet's hash of the container is no hexadecimal number", "")
		return 0
	}
	return hash
}

// envHash returns the hash of an instance's environment, 0 if unknown.
func (p *pass) envHash(c *corev1.Container, i *Instance) uint64 {
	if !ReadsMetadata(c, p.IgnoredEnv) {
		return ExpectedHash(p.pod, c, p.IgnoredEnv) // the hash does not depend on the environment
	}
	if i.Env.IsRead() {
		return CurrentHash(p.pod, c, i.Env, p.IgnoredEnv)
	}
	if known := p.before.Instance(c.Name, i.ID); known != nil && known.Hashes.ExtractedEnvFromMetadataHash > 0 {
		return known.Hashes.ExtractedEnvFromMetadataHash
	}
	if i.Running {
		p.Read = append(p.Read, i.ID)
		p.why(EnvironmentAwaited, c.Name, "the environment of the container was not read yet", "")
	}
	return 0
}

// isOutdated reports whether an in-place update waits for a newer instance of the container.
func (p *pass) isOutdated(c *corev1.Container, i *Instance, hash uint64) bool {
	return hash != 0 && i.Running && p.isUpdating() && hash != ExpectedHash(p.pod, c, p.IgnoredEnv)
}

// exitCodes are the likely exit codes of a stopped container: success, SIGKILL and SIGTERM.
func exitCodes() []int32 { return []int32{0, 137, 143} }

// stop stops an outdated instance, provided that the kubelet would start the container again.
func (p *pass) stop(c *corev1.Container, i *Instance, shown bool) {
	if !shown {
		p.why(InstanceUnreported, c.Name, "the Pod's status does not show the running instance yet", "")
		return
	}
	ends := func(code int32) bool { return !podstate.IsRestarted(p.pod, c, code) }
	if slices.ContainsFunc(exitCodes(), ends) {
		p.why(WouldNotStartAgain, c.Name, "the kubelet would not start the container again after a stop", "recreate the Pod")
		return
	}
	outdated := p.reason(EnvOutdated, c.Name, "the container runs with an old value of a label or annotation", "")
	p.Stop = append(p.Stop, Stop{Name: c.Name, ID: i.ID, Why: outdated})
}

func (p *pass) why(code reason.Code, container, detail, remedy string) {
	p.Why = append(p.Why, p.reason(code, container, detail, remedy))
}

func (p *pass) reason(code reason.Code, container, detail, remedy string) reason.Reason {
	path := "spec.containers[" + container + "]"
	if slices.ContainsFunc(p.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container }) {
		path = "spec.initContainers[" + container + "]"
	}
	return reason.Reason{Code: code, Object: reason.ObjectOf("Pod", p.pod), Path: path, Detail: detail, Remedy: remedy}
}
