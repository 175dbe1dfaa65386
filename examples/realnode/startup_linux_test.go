package realnode_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
)

// TestStartupProbe checks a Pod with a startup probe and without a readiness probe. After an update in place, the Pod
// is out of service until the new container has passed its startup probe. The kubelet may still report fields of the
// old container meanwhile.
func TestStartupProbe(t *testing.T) {
	const delay = 8 * time.Second // until the first probe
	f := startManager(t, manager.Options{})
	web := f.cloneSet("startup", v1beta1.InPlaceIfPossible, 0)
	recorder := controllertest.Watch(t, f, f.namespace, nil)
	f.create(web, 1, func(template *corev1.PodTemplateSpec) {
		app := &template.Spec.Containers[0]
		app.StartupProbe, app.ReadinessProbe = app.ReadinessProbe, nil
		app.StartupProbe.InitialDelaySeconds, app.StartupProbe.PeriodSeconds = int32(delay.Seconds()), 10
		template.Spec.Containers = template.Spec.Containers[:1]
	})
	f.change(web, setImage(0, f.image("v2")))
	reported := 0
	for _, event := range recorder.Events() {
		status, ready := podstate.ContainerStatus(event.Pod, "app"), podstate.Condition(event.Pod, corev1.PodReady)
		if status == nil || status.State.Running == nil || status.RestartCount == 0 {
			continue
		}
		if status.Started != nil && *status.Started {
			reported++
		}
		began := status.State.Running.StartedAt.Time
		if ready.Status == corev1.ConditionTrue && ready.LastTransitionTime.Sub(began) < delay-time.Second {
			t.Errorf("Ready since %s, and the container started at %s", ready.LastTransitionTime, began)
		}
	}
	if reported == 0 {
		t.Error("the new instance was never reported as started")
	}
}
