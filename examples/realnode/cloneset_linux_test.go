package realnode_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/manager"
)

// cloneSet is a CloneSet, whose Pods are updated one after the other.
type cloneSet struct {
	client.Client
	key     client.ObjectKey
	rolling v1beta1.RollingUpdateCloneSet
}

func (f *fixture) cloneSet(name string, policy v1beta1.CloneSetPodUpdatePolicy, graceSeconds int32) *cloneSet {
	return &cloneSet{Client: f, key: client.ObjectKey{Namespace: f.namespace, Name: name}, rolling: v1beta1.RollingUpdateCloneSet{
		PodUpdatePolicy: policy, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
		InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: graceSeconds},
	}}
}

func (c *cloneSet) name() string          { return c.key.Name }
func (c *cloneSet) revisionLabel() string { return apps.LabelRevision }

func (c *cloneSet) create(ctx context.Context, replicas int, template *corev1.PodTemplateSpec) error {
	return c.Create(ctx, &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, Name: c.key.Name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(int32(replicas)), Template: *template,
			Selector:       &metav1.LabelSelector{MatchLabels: template.Labels},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate, RollingUpdate: &c.rolling},
		},
	})
}

func (c *cloneSet) edit(ctx context.Context, change func(*corev1.PodTemplateSpec)) error {
	var cs v1beta1.CloneSet
	if err := c.Get(ctx, c.key, &cs); err != nil {
		return err
	}
	change(&cs.Spec.Template)
	return c.Update(ctx, &cs)
}

func (c *cloneSet) isSettled(ctx context.Context) error {
	var cs v1beta1.CloneSet
	if err := c.Get(ctx, c.key, &cs); err != nil {
		return err
	}
	s := cs.Status
	if s.ObservedGeneration == cs.Generation && s.Replicas == *cs.Spec.Replicas && s.AvailableReplicas == s.Replicas &&
		s.UpdatedAvailableReplicas == s.Replicas {
		return nil
	}
	return fmt.Errorf("CloneSet %s, generation %d: %+v", cs.Name, cs.Generation, s)
}

func TestCloneSetImage(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.imageInPlace(f.cloneSet("web", v1beta1.InPlaceIfPossible, 0), 1)
}

func TestCloneSetEnvFromAnnotation(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.envFromAnnotation(f.cloneSet("env", v1beta1.InPlaceIfPossible, 0))
}

func TestCloneSetResize(t *testing.T) {
	f := startManager(t, manager.Options{Gates: resizeGates()})
	f.resizes(t, func(f *fixture, name string) workload { return f.cloneSet(name, v1beta1.InPlaceOnly, 0) })
}

func TestCloneSetSidecar(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.sidecar(f.cloneSet("sidecar", v1beta1.InPlaceIfPossible, 0))
}

func TestCloneSetBatches(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.batches(f.cloneSet("batches", v1beta1.InPlaceIfPossible, 0), apps.EnvContainerBarrier)
}

func TestCloneSetReadyIsNotCorrected(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.readyIsNotCorrected(f.cloneSet("ready", v1beta1.InPlaceIfPossible, int32(longerThanCorrection.Seconds())))
}

func TestCloneSetImageNames(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.imageNames(t, func(f *fixture, name string) workload { return f.cloneSet(name, v1beta1.InPlaceIfPossible, 0) })
}

// TestCloneSetTable prints the table of the README, and checks that no client loses a request if there is a grace
// period.
func TestCloneSetTable(t *testing.T) {
	t.Run("times", func(t *testing.T) {
		f := startManager(t, manager.Options{})
		f.printTimes([]candidate{
			{"in place", f.cloneSet("inplace", v1beta1.InPlaceIfPossible, 0)},
			{"recreate", f.cloneSet("recreate", v1beta1.ReCreate, 0)},
		})
	})
	t.Run("traffic", func(t *testing.T) {
		f := startManager(t, manager.Options{})
		counts := f.printLosses([]candidate{
			{"in place, grace period 2 s", f.cloneSet("grace-2", v1beta1.InPlaceIfPossible, 2)},
			{"in place, no grace period", f.cloneSet("grace-0", v1beta1.InPlaceIfPossible, 0)},
			{"recreate", f.cloneSet("again", v1beta1.ReCreate, 0)},
		})
		if counts[0].losses() > 0 {
			t.Errorf("requests were lost in spite of the grace period: %v", counts[0].lost)
			t.Log(strings.Join(counts[0].seen, "\n"))
		}
		// The check above is meaningless if the client cannot notice lost requests. So the rollout without a grace
		// period must lose requests. On a slow machine, the proxies may by chance be faster than the kubelets for a
		// whole rollout.
		seen := counts[1].losses()
		for i := 0; seen == 0 && i < 5; i++ {
			seen = f.printLosses([]candidate{{"in place, no grace period, once more", f.cloneSet(fmt.Sprint("grace-0-", i), v1beta1.InPlaceIfPossible, 0)}})[0].losses()
		}
		if seen == 0 {
			t.Error("no request was lost without a grace period")
		}
	})
}
