package sidecarset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestColdUpgrade: the sidecar of each Pod restarts with its new image, one Pod at a time, and no other container
// restarts. Each Pod is written once. After a Pod's first upgrade, a second write sets the condition about upgrades.
func TestColdUpgrade(t *testing.T) {
	c := start(t)
	set := c.create(c.set("mesh", container("mesh", "mesh:v1"), container("log", "log:v1"), func(s *v1beta1.SidecarSetSpec) {
		s.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}))
	names := c.pods(4, set)
	c.counts(set, 4, 4, 4, 4)
	var most atomic.Int64 // the goroutine of the watch sets the value
	controllertest.Watch(t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		unready := int64(0)
		for _, pod := range pods {
			if !podstate.IsReady(pod) {
				unready++
			}
		}
		most.Store(max(most.Load(), unready))
	})
	begin := controllertest.End(t, c.cp.AuditLog())
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = "mesh:v2" })
	c.counts(set, 4, 4, 4, 4)
	for _, name := range names {
		if diff := cmp.Diff(map[string]int32{"mesh": 1, "log": 0, "app": 0}, restarts(c.pod(name))); diff != "" {
			t.Errorf("SU-14 SU-15 restarts of %s (-want +got):\n%s", name, diff)
		}
	}
	if most.Load() > 1 {
		t.Errorf("SU-12 %d Pods were out of service at a time", most.Load())
	}
	c.wrote(begin, map[string]int{"patch pods": 4, "patch pods/status": 4, "create controllerrevisions": 1})
	for _, name := range names {
		if condition := podstate.Condition(c.pod(name), apps.ConditionSidecarSetUpgradable); condition == nil || condition.Status != "True" || condition.Message != fmt.Sprintf("{%q:true}", set.Name) {
			t.Errorf("SU-17 of %s: %+v", name, condition)
		}
	}
	begin = controllertest.End(t, c.cp.AuditLog())
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = "mesh:v3" })
	c.counts(set, 4, 4, 4, 4)
	c.wrote(begin, map[string]int{"patch pods": 4, "create controllerrevisions": 1})
}

// wrote waits until the manager has sent exactly the wanted requests since an offset in the audit log.
func (c *cluster) wrote(since int64, want map[string]int) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(context.Context) error {
		requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), since, "kruise-manager")
		if diff := cmp.Diff(want, controllertest.Tally(requests, c.namespace)); diff != "" {
			return fmt.Errorf("requests (-want +got):\n%s", diff)
		}
		return nil
	})
}

// TestNativeUpgrade: native sidecars are upgraded in place, in all Pods at the same time.
func TestNativeUpgrade(t *testing.T) {
	c := start(t)
	set := c.create(c.set("native", native("proxy", "proxy:v1")))
	names := c.pods(100, set)
	c.counts(set, 100, 100, 100, 100)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.InitContainers[0].Image = "proxy:v2" })
	c.counts(set, 100, 100, 100, 100)
	for _, name := range names {
		if diff := cmp.Diff(map[string]int32{"proxy": 1, "app": 0}, restarts(c.pod(name))); diff != "" {
			t.Errorf("restarts of %s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHotUpgrade: both containers run for a while, then the old container becomes idle.
func TestHotUpgrade(t *testing.T) {
	c := start(t)
	set := c.create(c.set("hot", hot("mesh", "mesh:v1"), container("log", "log:v1")))
	name := c.pods(1, set)[0]
	c.counts(set, 1, 1, 1, 1)
	state := func() [4]string {
		pod := c.pod(name)
		return [4]string{
			podstate.Container(pod, "mesh-1").Image, podstate.Container(pod, "mesh-2").Image, pod.Annotations[apps.AnnotationSidecarSetWorking],
			pod.Annotations[apps.AnnotationSidecarSetVersionPrefix+"mesh-1"] + pod.Annotations[apps.AnnotationSidecarSetVersionAltPrefix+"mesh-2"],
		}
	}
	if diff := cmp.Diff([4]string{"mesh:v1", "empty:v1", `{"mesh":"mesh-1"}`, "11"}, state()); diff != "" {
		t.Fatalf("HU-1 HU-2 (-want +got):\n%s", diff)
	}
	for i, want := range [][4]string{{"empty:v1", "mesh:v2", `{"mesh":"mesh-2"}`, "00"}, {"mesh:v3", "empty:v1", `{"mesh":"mesh-1"}`, ""}} {
		c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = fmt.Sprintf("mesh:v%d", i+2) })
		c.counts(set, 1, 1, 1, 1)
		got := state()
		if want[3] == "" {
			got[3] = "" // this version is a resourceVersion
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("HU-10 after upgrade %d (-want +got):\n%s", i+1, diff)
		}
	}
	if diff := cmp.Diff(map[string]int32{"mesh-1": 2, "mesh-2": 2, "log": 0, "app": 0}, restarts(c.pod(name))); diff != "" {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
}

// TestNotUpgradable: Pods whose sidecars differ in more than images are not changed, and a condition of these Pods
// gives the reason.
func TestNotUpgradable(t *testing.T) {
	c := start(t)
	set := c.create(c.set("mesh", container("mesh", "mesh:v1")))
	name := c.pods(1, set)[0]
	c.counts(set, 1, 1, 1, 1)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}} })
	c.counts(set, 1, 0, 1, 0)
	want := &corev1.PodCondition{Type: apps.ConditionSidecarSetUpgradable, Status: "False", Reason: "UpdateImmutableField", Message: fmt.Sprintf(`{%q:false}`, set.Name)}
	told := func(want *corev1.PodCondition) {
		t.Helper()
		c.until(set, func(*v1beta1.SidecarSetStatus) bool {
			got := podstate.Condition(c.pod(name), apps.ConditionSidecarSetUpgradable)
			if got == nil {
				return false
			}
			got.LastTransitionTime, got.LastProbeTime, got.ObservedGeneration = want.LastTransitionTime, want.LastProbeTime, 0
			return cmp.Equal(want, got)
		})
	}
	told(want)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Env, s.Containers[0].Image = nil, "mesh:v2" })
	c.counts(set, 1, 1, 1, 1)
	want.Status, want.Reason, want.Message = "True", "AllSidecarsetUpgradable", fmt.Sprintf(`{%q:true}`, set.Name)
	told(want)
}

// TestStrategies checks which settings of the update strategy prevent an upgrade.
func TestStrategies(t *testing.T) {
	c := start(t)
	set := c.create(c.set("mesh", container("mesh", "mesh:v1"), func(s *v1beta1.SidecarSetSpec) {
		s.UpdateStrategy.Partition = ptr.To(intstr.FromInt32(3))
	}))
	c.pods(4, set)
	c.counts(set, 4, 4, 4, 4)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = "mesh:v2" })
	c.counts(set, 4, 1, 4, 1)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.UpdateStrategy.Paused, s.UpdateStrategy.Partition = true, nil })
	c.counts(set, 4, 1, 4, 1)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.UpdateStrategy.Paused, s.UpdateStrategy.Type = false, "NotUpdate" })
	c.counts(set, 4, 1, 4, 1)
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.UpdateStrategy.Type = "RollingUpdate" })
	c.counts(set, 4, 4, 4, 4)
}

// event waits for an event of a SidecarSet, and returns the message.
func (c *cluster) event(set *v1beta1.SidecarSet, name string) (message string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := c.List(ctx, events); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == name && e.InvolvedObject.UID == set.UID {
				message = e.Message
				return nil
			}
		}
		return fmt.Errorf("there is no event %s of SidecarSet %s", name, set.Name)
	})
	return message
}

// TestPodsRefused: if admission refuses Pods because of a SidecarSet, an event on the SidecarSet reports the error,
// because the error itself reaches only the client that creates the Pod.
func TestPodsRefused(t *testing.T) {
	c := start(t)
	one := c.create(c.set("one", container("log", "log:v1")))
	other := c.create(c.set("other", container("log", "log:v2"))) // as if both had been admitted at the same moment
	want := "new Pods may be refused: InvalidValue: spec.containers[log].name: \"log\": is taken by containers[log]; SidecarSet " +
		one.Name + " is for some of the same Pods"
	if got := c.event(other, apps.EventPodsRefused); got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	missing := c.create(c.set("missing", container("mesh", "mesh:v1"), func(s *v1beta1.SidecarSetSpec) {
		s.InjectionStrategy.Revision = &pub.SidecarSetInjectRevision{RevisionName: ptr.To("gone"), Policy: pub.InjectRevisionAlways}
	}))
	want = "new Pods may be refused: PinnedSetMissing: spec.injectionStrategy.revision: gone: there is no such revision; name another version, or none"
	if got := c.event(missing, apps.EventPodsRefused); got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

// TestPodsDropped: an event reports Pods that have the sidecars of a SidecarSet that no longer selects the Pods.
func TestPodsDropped(t *testing.T) {
	c := start(t)
	set := c.create(c.set("mesh", container("mesh", "mesh:v1")))
	names := c.pods(2, set)
	c.counts(set, 2, 2, 2, 2)
	slices.Sort(names)
	c.change(set, func(s *v1beta1.SidecarSetSpec) {
		s.Containers = append(s.Containers, s.Containers[0])
		s.Containers[1].Name = "log"
	})
	want := "2 Pods have its sidecars and are not its Pods any more, among others Pod " + c.namespace + "/"
	if got := c.event(set, apps.EventPodsDropped); !strings.HasPrefix(got, want) || !strings.Contains(got, "a sidecar that they lack") {
		t.Errorf("of a new sidecar: event %q, want %q", got, want)
	}
	other := c.create(c.set("other", container("other", "other:v1")))
	c.pods(1, other)
	c.counts(other, 1, 1, 1, 1)
	c.change(other, func(s *v1beta1.SidecarSetSpec) { s.Selector.MatchLabels["more"] = "a" })
	if got, want := c.event(other, apps.EventPodsDropped), "1 Pods have its sidecars"; !strings.HasPrefix(got, want) {
		t.Errorf("of another selector: event %q, want %q", got, want)
	}
}
