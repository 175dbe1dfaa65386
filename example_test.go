package workloadkit_test

// The README shows the lines between the markers. A test keeps both the same.

// README:begin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/revision"
)

const revisionLabel = "example.com/revision"

// newUpdater returns what updates Pods of your operator in place, under names of your own.
func newUpdater() (*inplaceupdate.Updater, error) {
	return inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update-state",
		GraceAnnotation: "example.com/update-grace",
		Gate:            "example.com/Updated", // list it in spec.readinessGates of your Pods
		Reserved:        []string{revisionLabel},
	}})
}

// update takes a Pod to today's template if that is possible without recreating it, and says why if it is not. The
// template that the Pod was made from is in the owner's history: revision/history.Sync keeps it.
func update(ctx context.Context, c client.Client, updater *inplaceupdate.Updater, h *revision.History, pod *corev1.Pod) error {
	from, err := h.Template(h.Find(pod.Labels[revisionLabel]))
	if err != nil {
		return err
	}
	to, err := h.Template(h.Update)
	if err != nil {
		return err
	}
	plan := updater.Plan(from, to) // pure: a webhook or a CLI can ask the same
	if !plan.Possible() {
		return fmt.Errorf("recreate %s: %w", pod.Name, plan.Blocking) // every field that stands in the way, as data
	}
	hash := revision.ShortName(h.Update.Name) // a label has no room for the whole name of an owner
	target := inplaceupdate.Target{Revision: hash, Labels: map[string]string{revisionLabel: hash}}
	change, err := updater.Start(pod, plan, target, time.Now())
	if err != nil {
		return err
	}
	_, err = podwrite.Send(ctx, c, pod, time.Now(), change) // gate off, then images, state and label: two requests
	return err
}

// finish is the reconcile of a single Pod: call it for each of the Pod's events.
func finish(ctx context.Context, c client.Client, updater *inplaceupdate.Updater, pod *corev1.Pod) (ctrl.Result, error) {
	step, err := updater.Next(pod, time.Now()) // step.Waiting says which container is awaited, and why
	if err != nil {
		return ctrl.Result{}, err
	}
	_, err = podwrite.Send(ctx, c, pod, time.Now(), step.Change) // the gate opens again
	return ctrl.Result{RequeueAfter: step.RequeueAfter}, err     // some waits end without an event
}

// README:end

func Example() {
	from := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	image := from.DeepCopy()
	image.Spec.Containers[0].Image = "app:v2"
	env := image.DeepCopy()
	env.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", Value: "new"}}

	updater, err := newUpdater()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(updater.Plan(from, image).Possible())
	fmt.Println(updater.Plan(from, env).Blocking)
	// Output:
	// true
	// ImmutableField: spec.containers[app].env[MODE]: {"name":"MODE","value":"new"}: cannot change on a live Pod; recreate the Pod
}

var _, _ = update, finish
