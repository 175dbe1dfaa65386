package manager_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// announcedStatefulSets creates the objects of OpenKruise's release announcements through the webhooks, and makes the
// edits from the announcements.
func announcedStatefulSets(t *testing.T, c *cluster, _ *process) {
	reserve := func(entries ...intstr.IntOrString) func(*v1beta1.StatefulSet) {
		return func(set *v1beta1.StatefulSet) {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, entries...)
		}
	}
	t.Run("E-5 B-5 B-6", func(t *testing.T) {
		c := c.on(t)
		c.apply("testdata/reserve-ordinals.yaml", "reserved")
		set := c.untilOrdinals("reserved", 0, 2, 3, 4)
		if set.Spec.PodManagementPolicy != appsv1.OrderedReadyPodManagement || set.Spec.UpdateStrategy.RollingUpdate == nil || set.Spec.RevisionHistoryLimit == nil {
			t.Errorf("it has no defaults: %+v", set.Spec)
		}
		c.edit("reserved", reserve(intstr.FromInt32(3)))
		c.untilOrdinals("reserved", 0, 2, 4, 5)
	})
	t.Run("E-5 B-7", func(t *testing.T) {
		c := c.on(t)
		c.apply("testdata/reserve-ordinals.yaml", "only-deleted")
		c.untilOrdinals("only-deleted", 0, 2, 3, 4)
		c.edit("only-deleted", func(set *v1beta1.StatefulSet) {
			set.Spec.Replicas = ptr.To[int32](3)
			reserve(intstr.FromInt32(3))(set)
		})
		c.untilOrdinals("only-deleted", 0, 2, 4)
	})
	t.Run("E-5 B-4 nothing reserved", func(t *testing.T) {
		c := c.on(t)
		c.edit("only-deleted", func(set *v1beta1.StatefulSet) { set.Spec.Replicas, set.Spec.ReserveOrdinals = ptr.To[int32](4), nil })
		c.untilOrdinals("only-deleted", 0, 1, 2, 3)
	})
	t.Run("E-12 D-7", func(t *testing.T) {
		c := c.on(t)
		c.apply("testdata/start-ordinal.yaml", "sample")
		c.untilOrdinals("sample", 3, 4, 5, 6, 7)
		c.edit("sample", func(set *v1beta1.StatefulSet) { set.Spec.Ordinals.Start = 0 })
		c.untilOrdinals("sample", 0, 1, 2, 3, 4)
	})
	t.Run("S-6 what is refused names path and value, and nothing happens", func(t *testing.T) {
		before := c.untilOrdinals("reserved", 0, 2, 4, 5)
		after := before.DeepCopy()
		reserve(intstr.FromString("7-3"), intstr.FromString("a-b"), intstr.FromString("0-2000000000"))(after)
		after.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: -1}
		err := c.Update(t.Context(), after)
		if !apierrors.IsInvalid(err) {
			t.Fatalf("error %v, want it refused", err)
		}
		for _, text := range []string{"spec.reserveOrdinals[2]", "7-3", "spec.reserveOrdinals[3]", "a-b", "spec.ordinals.start", "-1"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %v, want it to name %s", err, text)
			}
		}
		if strings.Contains(err.Error(), "spec.reserveOrdinals[4]") {
			t.Errorf("error %v, and the last range is fine", err)
		}
		if now := c.untilOrdinals("reserved", 0, 2, 4, 5); now.ResourceVersion != before.ResourceVersion {
			t.Errorf("resource version %s, was %s", now.ResourceVersion, before.ResourceVersion)
		}
	})
}

// on returns a copy of the cluster that reports failures to another test.
func (c *cluster) on(t *testing.T) *cluster {
	own := *c
	own.t = t
	return &own
}

// apply creates the object of a file under a name. The grace period of its Pods is zero, so that no test waits for
// terminating Pods.
func (c *cluster) apply(file, name string) {
	c.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &object.Object); err != nil {
		c.t.Fatal(err)
	}
	if err := unstructured.SetNestedField(object.Object, int64(0), "spec", "template", "spec", "terminationGracePeriodSeconds"); err != nil {
		c.t.Fatal(err)
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) edit(name string, f func(*v1beta1.StatefulSet)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		set := &v1beta1.StatefulSet{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
			return err
		}
		f(set)
		return c.Update(ctx, set)
	})
}

// untilOrdinals waits until the StatefulSet has exactly the Pods of the ordinals, all available.
func (c *cluster) untilOrdinals(name string, want ...int) *v1beta1.StatefulSet {
	c.t.Helper()
	set := &v1beta1.StatefulSet{}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		var got []int
		for i := range pods.Items {
			if ordinal, ok := ordinals.OfPod(name, &pods.Items[i]); ok {
				got = append(got, ordinal)
			}
		}
		slices.Sort(got)
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
			return err
		}
		if s := set.Status; !slices.Equal(got, want) || s.ObservedGeneration != set.Generation || int(s.AvailableReplicas) != len(want) {
			return fmt.Errorf("Pods %v, want %v; status %+v", got, want, s)
		}
		return nil
	})
	return set
}
