// Package forecast answers "what would a change do to the Pods?"
//
// [Of] takes the objects before a change and after the end of the rollout, with the writes in between, and returns a
// [Report]: the Pods updated in place, the Pods recreated because of changed fields, the batches, the claims that are
// created and deleted, the budgets, and the reasons why a rollout stops. [Text] renders the report for a terminal of
// 80 columns.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package forecast

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// Input is the input of Of. Kind, Name, Before and After are required.
type Input struct {
	Kind schema.GroupVersionKind
	Name string
	// Before is the cluster without the change. After is the cluster after the controllers have made all their
	// writes.
	Before, After Snapshot
	// Writes are the writes of the controllers in their order.
	Writes []Write
	// Failures are the errors of the last reconciles, by "controller object".
	Failures map[string]string
	// Warnings are the warnings of the webhooks.
	Warnings []string
	// Blocking returns why a Pod cannot be updated in place between two revisions. Optional.
	Blocking func(from, to *appsv1.ControllerRevision) reason.List
	// Began and Ended are the simulated times. Endless is true if the controllers did not stop writing.
	Began, Ended time.Time
	Endless      bool
	// Times are the measured times of Pods.
	Times Times
}

// Snapshot are the objects at a time.
type Snapshot struct {
	// Object is the changed object, and UID its UID; nil and empty if the object does not exist.
	Object    map[string]any
	UID       types.UID
	Pods      []*corev1.Pod
	Claims    []*corev1.PersistentVolumeClaim
	Revisions []*appsv1.ControllerRevision
	Budgets   []Budget
}

// Budget is the state of a PodUnavailableBudget.
type Budget struct {
	Namespace string `json:"-"`
	Name      string `json:"name"`
	// Allowed is the number of further Pods to be made unavailable now. Available Pods are in service, and Desired Pods
	// must be in service.
	Allowed   int32 `json:"allowed"`
	Available int32 `json:"available"`
	Desired   int32 `json:"desired"`
}

// Write is a write of a controller.
type Write struct {
	At time.Time
	// Controller is the controller's name, and Object the name of the reconciled object.
	Controller, Object          string
	Verb, Resource, Subresource string
	// Namespace, Name and UID are of the written object.
	Namespace, Name string
	UID             types.UID
	// Takes is true if the write takes a Pod out of service or changes its spec: see [TakesOut].
	Takes bool
}
