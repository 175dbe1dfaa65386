package sidecarterminator

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// MainContainerWaiting means that a main container has not started and will not start soon. Sidecars continue to
	// run until the main container has ended.
	MainContainerWaiting reason.Code = "MainContainerWaiting"
	// SidecarWaiting means that a sidecar has not started and will not start soon. The sidecar has no instance that
	// could be stopped, and so the Pod does not end.
	SidecarWaiting reason.Code = "SidecarWaiting"
	// SidecarRestarted means that the kubelet has restarted a stopped sidecar, because the Pod's restart policy is
	// OnFailure.
	SidecarRestarted reason.Code = "SidecarRestarted"
	// SidecarRuns means that sidecars whose exit codes are ignored continue to run until another sidecar has ended.
	SidecarRuns reason.Code = "SidecarRuns"
	// RequestNamesTaken means that the controller cannot create a ContainerRecreateRequest for the Pod, because
	// requests of other clients have all names that the controller may use.
	RequestNamesTaken reason.Code = "RequestNamesTaken"
)

// todo contains the steps for a Pod, in the order of the fields. The zero value contains no steps.
type todo struct {
	// images contains the new images, by container name.
	images map[string]string
	// phase is the Pod phase to set before the last sidecars are stopped.
	phase corev1.PodPhase
	// request is the name of the request to create, or "" for none, and stop contains the names of its containers.
	request string
	stop    []string
	// waits contains the reasons why sidecars still run.
	waits reason.List
}

// isDue reports whether the sidecars of a Pod must be stopped now. If due is false, waits contains the problems
// because of which the sidecars are not stopped.
func isDue(pod *corev1.Pod) (due bool, waits reason.List) {
	mains, sidecars := containersOf(pod)
	// The Pod's phase does not show that sidecars run, because the phase is Pending as long as a container waits for
	// its first start (getPhase in pkg/kubelet/kubelet_pods.go).
	if !Concerns(pod) || !slices.ContainsFunc(sidecars, isRunning) {
		return false, nil
	}
	due = true
	for i := range mains {
		c := &mains[i]
		if c.hasEnded() && !c.restarts {
			continue
		}
		due = false
		if why := c.stuckFor(); why != "" {
			waits = append(waits, waiting(MainContainerWaiting, c.name, why, "sidecars run until it has ended"))
		}
	}
	return due, waits
}

func isRunning(c container) bool { return !c.hasEnded() }

// decide returns the steps for a Pod whose sidecars must be stopped. The decision depends on the arguments alone.
// requests returns the ContainerRecreateRequest of a given name in the Pod's namespace, or nil.
func decide(pod *corev1.Pod, virtual bool, requests func(name string) *v1beta1.ContainerRecreateRequest) (t todo) {
	if virtual {
		return onVirtualNode(pod)
	}
	mains, sidecars := containersOf(pod)
	known := requestsOf(pod, requests)
	var first, last []container // last contains the sidecars whose exit codes are ignored
	for i := range sidecars {
		switch c := sidecars[i]; {
		case c.hasEnded():
		case c.ignore:
			last = append(last, c)
		default:
			first = append(first, c)
		}
	}
	if len(first) > 0 {
		t.ask(known, slices.DeleteFunc(slices.Clone(first), func(c container) bool { return !c.stop }))
		if len(last) > 0 {
			for i := range first {
				t.waits = append(t.waits, reason.Reason{
					Code: SidecarRuns, Path: pathOf(first[i].name), Detail: "sidecars whose exit code is ignored run until it has ended",
				})
			}
		}
		return t
	}
	if !hasEnded(pod) {
		t.phase = phaseOf(mains)
	}
	t.ask(known, last)
	return t
}

// onVirtualNode decides which images of sidecars are replaced on a virtual Node. Sidecars without a replacement image
// are not changed.
func onVirtualNode(pod *corev1.Pod) (t todo) {
	_, sidecars := containersOf(pod)
	for i := range sidecars {
		if c := &sidecars[i]; c.image != "" && !c.hasEnded() && c.image != c.runs {
			if t.images == nil {
				t.images = map[string]string{}
			}
			t.images[c.name] = c.image
		}
	}
	return t
}

// phaseOf returns the phase of a Pod as its main containers determine it.
func phaseOf(mains []container) corev1.PodPhase {
	for i := range mains {
		if mains[i].exitCode() != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// ask adds those of the containers that no existing ContainerRecreateRequest contains to a new request.
func (t *todo) ask(known knownRequests, containers []container) {
	for i := range containers {
		c := &containers[i]
		was, asked := known.restarts[c.name]
		switch {
		case asked && c.status.RestartCount > was:
			t.waits = append(t.waits, reason.Reason{
				Code: SidecarRestarted, Path: pathOf(c.name), Detail: "was stopped, and has started again", Remedy: "use restartPolicy Never, or have it exit with code 0",
			})
		case asked:
		case c.hasStarted():
			t.stop = append(t.stop, c.name)
		case c.stuckFor() != "":
			t.waits = append(t.waits, waiting(SidecarWaiting, c.name, c.stuckFor(), "there is nothing to stop, and the Pod does not end"))
		}
	}
	if len(t.stop) == 0 {
		return
	}
	if t.request = known.next; t.request == "" {
		t.stop, t.waits = nil, append(t.waits, reason.Reason{
			Code: RequestNamesTaken, Detail: "requests of these names do not hold all sidecars: " + strings.Join(known.names, ", "), Remedy: "delete those that nobody needs",
		})
	}
}

func waiting(code reason.Code, name, why, detail string) reason.Reason {
	return reason.Reason{Code: code, Path: pathOf(name), New: why, Detail: detail, Remedy: "find out why it does not start, or delete the Pod"}
}

func pathOf(name string) string { return "spec.containers[" + name + "]" }

// knownRequests describes the requests that exist for a Pod.
type knownRequests struct {
	// restarts contains, for each container in a request, the container's restart count when the last request was made.
	restarts map[string]int32
	names    []string
	// next is the name for the next request, or "" if all names are in use.
	next string
}

// requestName returns the name of the n-th request for a Pod; n counts from 1. The name of the first request is the
// name that OpenKruise uses.
func requestName(uid types.UID, n int) string {
	name := "sidecar-termination-" + string(uid)
	if n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}

// requestsOf reads the ContainerRecreateRequests that exist for a Pod. The controller creates a request only for
// sidecars that no earlier request contains. So there are at most as many requests as containers, unless other
// clients have created requests.
func requestsOf(pod *corev1.Pod, requests func(name string) *v1beta1.ContainerRecreateRequest) knownRequests {
	known := knownRequests{restarts: map[string]int32{}}
	for n := range len(pod.Spec.Containers) + 1 {
		name := requestName(pod.UID, n+1)
		request := requests(name)
		if request == nil {
			known.next = name
			return known
		}
		known.names = append(known.names, name)
		for i := range request.Spec.Containers {
			c, restarts := &request.Spec.Containers[i], int32(0)
			if c.StatusContext != nil {
				restarts = c.StatusContext.RestartCount
			}
			known.restarts[c.Name] = max(known.restarts[c.Name], restarts)
		}
	}
	return known
}
