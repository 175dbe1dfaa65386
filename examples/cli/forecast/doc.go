// Package forecast answers "what would a change do to the Pods?"
//
// [Of] takes the objects before a change and after everything has happened, with the writes in between, and returns a
// [Report]: the Pods updated in place, the Pods recreated with the changed fields, the batches, the claims that come and
// go, the budgets, and the causes for a stop of the rollout. [Text] renders the report for a terminal of 80 columns.
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

// Input is what a Report is made of. Kind, Name, Before and After are required.
type Input struct {
	Kind schema.GroupVersionKind
	Name string
	// Before is the cluster without the change, and After is the cluster when nothing happens any more.
	Before, After Snapshot
	// Writes are the writes of the controllers in their order.
	Writes []Write
	// Failures are the errors of the last reconciles, by "controller object".
	Failures map[string]string
	// Warnings are the warnings of the webhooks.
	Warnings []string
	// Blocking returns why a Pod cannot be updated in place between two revisions. Optional.
	Blocking func(from, to *appsv1.ControllerRevision) reason.List
	// Began and Ended are the simulated times. Endless is true if the controllers had not come to rest.
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
	// Takes is true if the write takes a Pod out of service or changes the spec, as [TakesOut] says.
	Takes bool
}
