// Package cause answers "why does this object wait?"
//
// [Of] takes objects as read from the API server, and returns the causes: why a Pod is not created, not scheduled,
// not started, not ready, not updated, not evicted, not deleted or not injected, and why a workload or a job waits.
// An object without causes is healthy, and [Healthy] returns a line for such an object.
//
// # Order
//
// The first cause in the list is the one to remove first. Causes that stop all work of a controller come first, then
// causes that prevent the creation of Pods. Then come the causes of a single Pod in the order of its life: scheduler,
// Node, container runtime, hooks. A controller's condition that only says that the controller waits for Pods is a
// consequence of other causes, and comes last. Such a condition comes first only if no Pod has a cause.
//
// Equal causes of several Pods are merged into one cause, with the names of the Pods.
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

// Layer is the part of the system that delays an object.
type Layer string

// These are the layers.
const (
	// Controller is the controller of a workload, also if the controller does not run.
	Controller Layer = "controller"
	// User is a setting with which a user has asked for the wait, such as paused.
	User Layer = "user"
	// Webhook is an admission webhook or policy.
	Webhook Layer = "webhook"
	// APIServer is the API server itself: validation, or an admission plugin that is part of the server.
	APIServer Layer = "api server"
	// Quota is a ResourceQuota or LimitRange.
	Quota Layer = "quota"
	// Scheduler is the scheduler, also if no scheduler runs.
	Scheduler Layer = "scheduler"
	// Node is a Node or the kubelet there.
	Node Layer = "node"
	// Runtime is a container: the image, the start, the health.
	Runtime Layer = "runtime"
	// Hook is a lifecycle hook, a readiness gate or a finalizer. The cause names the program that must end the wait.
	Hook Layer = "hook"
	// Budget is a PodDisruptionBudget or PodUnavailableBudget.
	Budget Layer = "budget"
)

// Cause is a reason why an object waits. The Remedy says what ends the wait.
type Cause struct {
	Layer Layer
	reason.Reason
	// Pods are the names of the Pods with this cause, for a cause of several Pods.
	Pods []string
	// rank orders the causes.
	rank rank
}

// rank is the position of a kind of cause in the list.
type rank uint8

const (
	// stopsAll causes stop all work of the controller.
	stopsAll rank = iota
	// stopsPods causes prevent the creation of Pods, or the beginning of their update.
	stopsPods
	unscheduled
	onNode
	inContainer
	held
	// asked causes are waits that a user has requested, or that end by themselves.
	asked
	// consequence causes follow from other causes.
	consequence
)

// Refusal is the API server's response to a dry-run request that was refused.
type Refusal struct {
	// Operation describes the request, such as "create a Pod".
	Operation string
	Message   string
}

// Facts are the objects in which causes are found. Only Object and Now are required. With the other objects, Of finds
// further causes.
type Facts struct {
	// Object is the object in question.
	Object *unstructured.Unstructured
	// Owner is the workload that controls a Pod in question.
	Owner *unstructured.Unstructured
	// Pods are the Pods of the object, or the Pod in question. The Pods of an EphemeralJob are the selected Pods.
	Pods []corev1.Pod
	// IsPodsUnread means that the Pods could not be read, so that no Pod counts as missing.
	IsPodsUnread bool
	// Nodes are the Nodes of the Pods. IsNodesRead means that the Nodes were read, so that a Node missing in Nodes
	// does not exist.
	Nodes       []corev1.Node
	IsNodesRead bool
	// Events are about the object and its Pods.
	Events []corev1.Event
	// Disruptions and Budgets are the PodDisruptionBudgets and PodUnavailableBudgets of the namespace.
	Disruptions []policyv1.PodDisruptionBudget
	Budgets     []unstructured.Unstructured
	// NodeImages are all NodeImages, for an ImagePullJob.
	NodeImages []unstructured.Unstructured
	// SidecarSets are the SidecarSets that select the namespace of the Pod in question.
	SidecarSets []unstructured.Unstructured
	// Refusals are the refused dry-run requests.
	Refusals []Refusal
	Now      time.Time
}
