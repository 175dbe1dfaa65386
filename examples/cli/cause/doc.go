// Package cause answers "why does this object wait?"
//
// [Of] takes objects as read from the API server, and returns the causes: why a Pod is not created, not scheduled, not
// started, not ready, not updated, not evicted, not deleted or not injected, and why a workload or a job waits. An object
// without causes is healthy; [Healthy] says so in a line.
//
// # Order
//
// The first cause is the cause to see to first. A cause that keeps a controller from all work stands before a cause that
// keeps Pods from existence, then come causes on the way of a Pod: scheduler, Node, container runtime, hooks. A
// controller's remark about waiting for Pods is a consequence, so such a remark stands last, and is the first
// cause only if no Pod has a cause.
//
// Equal causes of several Pods are a single cause, with the names of the Pods.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package cause

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/reason"
)

// Layer says who holds an object up.
type Layer string

// These are the layers.
const (
	// Controller is the controller of a workload, or the controller's absence.
	Controller Layer = "controller"
	// User is a setting with which a user has asked for the wait, such as paused.
	User Layer = "user"
	// Webhook is an admission webhook or policy.
	Webhook Layer = "webhook"
	// APIServer is the API server itself: validation, or an admission plugin that is part of the server.
	APIServer Layer = "api server"
	// Quota is a ResourceQuota or LimitRange.
	Quota Layer = "quota"
	// Scheduler is the scheduler, or the absence of a scheduler.
	Scheduler Layer = "scheduler"
	// Node is a Node or the kubelet there.
	Node Layer = "node"
	// Runtime is a container: the image, the start, the health.
	Runtime Layer = "runtime"
	// Hook is a lifecycle hook, a readiness gate or a finalizer, with the name of the holder.
	Hook Layer = "hook"
	// Budget is a PodDisruptionBudget or PodUnavailableBudget.
	Budget Layer = "budget"
)

// Cause is why an object waits. The remedy of the reason says what ends the wait.
type Cause struct {
	Layer Layer
	reason.Reason
	// Pods are the names of the Pods with this cause, for a cause of several Pods.
	Pods []string
	// rank orders the causes.
	rank rank
}

// rank is the place of a cause in the list.
type rank uint8

const (
	// stopsAll keeps the controller from all work.
	stopsAll rank = iota
	// stopsPods keeps Pods from existence, or their update from beginning.
	stopsPods
	unscheduled
	onNode
	inContainer
	held
	// asked is a wait on a user's request, or a wait that needs nobody.
	asked
	// consequence follows from other causes.
	consequence
)

// Refusal is the answer of an API server to a request tried without effect, and refused.
type Refusal struct {
	// Operation is what was tried, such as "create a Pod".
	Operation string
	Message   string
}

// Facts are the objects by which causes are found. Only Object and Now are required; the other
// objects lead to further causes.
type Facts struct {
	// Object is the object in question.
	Object *unstructured.Unstructured
	// Owner is the workload that controls a Pod in question.
	Owner *unstructured.Unstructured
	// Pods are the Pods of the object, or the Pod in question. The Pods of an EphemeralJob are the selected Pods.
	Pods []corev1.Pod
	// IsPodsUnread says that the Pods could not be read, so nothing is known about missing Pods.
	IsPodsUnread bool
	// Nodes are the Nodes of the Pods; IsNodesRead says that a missing Node does not exist.
	Nodes       []corev1.Node
	IsNodesRead bool
	// Events are about the object and its Pods.
	Events []corev1.Event
	// Disruptions and Budgets are the PodDisruptionBudgets and PodUnavailableBudgets of the namespace.
	Disruptions []policyv1.PodDisruptionBudget
	Budgets     []unstructured.Unstructured
	// NodeImages are all NodeImages, for an ImagePullJob.
	NodeImages []unstructured.Unstructured
	// SidecarSets select the namespace of the Pod in question.
	SidecarSets []unstructured.Unstructured
	// Refusals are answers to requests tried without effect.
	Refusals []Refusal
	Now      time.Time
}
