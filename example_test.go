package workloadkit_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
)

// The README shows the lines between the two markers; a test keeps them the same.

// README:begin

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

// update takes a Pod to the new template if that is possible without recreating it, and says why if it is not.
func update(ctx context.Context, c client.Client, updater *inplaceupdate.Updater, pod *corev1.Pod, from, to *corev1.PodTemplateSpec, revision string) error {
	plan := updater.Plan(from, to) // pure: a webhook or a CLI can ask the same
	if !plan.Possible() {
		return fmt.Errorf("recreate %s: %w", pod.Name, plan.Blocking) // every field that stands in the way, as data
	}
	target := inplaceupdate.Target{Revision: revision, Labels: map[string]string{revisionLabel: revision}}
	change, err := updater.Start(pod, plan, target, time.Now())
	if err != nil {
		return err
	}
	_, err = podwrite.Send(ctx, c, pod, time.Now(), change) // gate off, then images, state and label: two requests
	return err
}

// finish is called for each of the Pod's events, and after the time that it returns, until it answers true.
func finish(ctx context.Context, c client.Client, updater *inplaceupdate.Updater, pod *corev1.Pod) (done bool, again time.Duration, err error) {
	step, err := updater.Next(pod, time.Now()) // step.Waiting says which container is awaited, and why
	if err != nil {
		return false, 0, err
	}
	_, err = podwrite.Send(ctx, c, pod, time.Now(), step.Change) // the gate opens again
	return step.Complete, step.RequeueAfter, err
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
