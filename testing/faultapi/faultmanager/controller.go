package faultmanager

import (
	"fmt"
	"reflect"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the type of a controller's work queue.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Limiter is the type of a controller's rate limiter for retries.
type Limiter = workqueue.TypedRateLimiter[reconcile.Request]

// WrapReconciler replaces the reconciler of a controller by the result of wrap. controller-runtime has no public
// function for this, but the controller's fields are exported. WrapReconciler returns an error if the controller does
// not have the expected fields, or if its requests are not of the type reconcile.Request.
func WrapReconciler(c controller.Controller, wrap func(name string, inner reconcile.Reconciler) reconcile.Reconciler) error {
	name, do, err := fieldOf(c, "Do")
	if err != nil {
		return err
	}
	inner, ok := reflect.TypeAssert[reconcile.Reconciler](do)
	if !ok {
		return fmt.Errorf("controller %s has requests of its own type, which cannot be scheduled", name)
	}
	do.Set(reflect.ValueOf(wrap(name, inner)))
	return nil
}

// SetQueue makes a controller use the queue that newQueue returns. Call SetQueue before the controller starts.
// SetQueue returns the same errors as [WrapReconciler].
func SetQueue(c controller.Controller, newQueue func(name string, limiter Limiter) Queue) error {
	name, field, err := fieldOf(c, "NewQueue")
	if err != nil {
		return err
	}
	if field.Type() != reflect.TypeOf(newQueue) {
		return fmt.Errorf("controller %s has requests of its own type, which cannot be scheduled", name)
	}
	field.Set(reflect.ValueOf(newQueue))
	return nil
}

// fieldOf returns the name of a controller, and one of its fields.
func fieldOf(c controller.Controller, field string) (name string, value reflect.Value, err error) {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return "", reflect.Value{}, fmt.Errorf("a controller of type %T cannot be scheduled", c)
	}
	named := v.FieldByName("Name")
	if value = v.FieldByName(field); !named.IsValid() || !value.IsValid() || !value.CanSet() {
		return "", reflect.Value{}, fmt.Errorf("a controller of type %T has no fields Name and %s; is this another version of controller-runtime?", c, field)
	}
	return named.String(), value, nil
}
