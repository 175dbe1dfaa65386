package install_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// liveNumbered makes the controller of StatefulSets use all of its rights.
func (c *cluster) liveNumbered(ns string) {
	n := &numbered{cluster: c, key: client.ObjectKey{Namespace: ns, Name: "db"}}
	n.create(3, 10) // each volume is used once
	n.change(func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "example.test/app:v2" })
	n.change(func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	n.change(func(set *v1beta1.StatefulSet) {
		for i := range set.Spec.VolumeClaimTemplates {
			set.Spec.VolumeClaimTemplates[i].Spec.Resources.Requests = size("2Gi")
		}
	})
	n.change(func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	n.remove()
}

// numbered is a StatefulSet whose claims can grow.
type numbered struct {
	*cluster

	key client.ObjectKey
}

func size(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(quantity)}
}

// create creates the StatefulSet, volumes larger than the claims, and the storage class. The claim template names no
// class, so the manager must read the default class to decide whether the claims may grow.
func (n *numbered) create(replicas int32, volumes int) {
	n.t.Helper()
	class := n.growingClass(volumes)
	labels := map[string]string{"app": n.key.Name}
	claim := func(name string, class *string) corev1.PersistentVolumeClaim {
		return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")},
		}}
	}
	set := &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.key.Namespace, Name: n.key.Name},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: ptr.To[int32](1),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}},
					Containers: []corev1.Container{{
						Name: "app", Image: "example.test/app:v1",
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "log", MountPath: "/log"}},
					}},
				},
			},
			VolumeClaimTemplates:      []corev1.PersistentVolumeClaim{claim("data", &class), claim("log", nil)},
			VolumeClaimUpdateStrategy: v1beta1.VolumeClaimUpdateStrategy{Type: v1beta1.ClaimsOnPodRollingUpdate},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			},
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateStatefulSet{PodUpdatePolicy: v1beta1.InPlaceIfPossible},
			},
		},
	}
	// The API server refuses the creation until the manager has written its address to the webhook configurations.
	controlplanetest.Eventually(n.t, time.Minute, func(ctx context.Context) error { return n.Create(ctx, set.DeepCopy()) })
	n.untilSettled()
}

// growingClass creates a default storage class whose claims can grow, and volumes of this class.
func (n *numbered) growingClass(volumes int) string {
	n.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.key.Namespace + "-growing", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: ptr.To(true),
	}
	objects := []client.Object{class}
	for i := range volumes {
		objects = append(objects, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class.Name, i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size("2Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class.Name,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		})
	}
	for _, obj := range objects {
		if err := n.Create(n.t.Context(), obj); err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { _ = n.Delete(context.WithoutCancel(n.t.Context()), obj) })
	}
	return class.Name
}

// change edits the StatefulSet and waits until the StatefulSet has settled.
func (n *numbered) change(edit func(*v1beta1.StatefulSet)) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, 30*time.Second, func(ctx context.Context) error {
		set := &v1beta1.StatefulSet{}
		if err := n.Get(ctx, n.key, set); err != nil {
			return err
		}
		edit(set)
		return n.Update(ctx, set)
	})
	n.untilSettled()
}

func (n *numbered) untilSettled() {
	n.t.Helper()
	controlplanetest.Eventually(n.t, 2*time.Minute, func(ctx context.Context) error {
		set := &v1beta1.StatefulSet{}
		if err := n.Get(ctx, n.key, set); err != nil {
			return err
		}
		s, want := set.Status, *set.Spec.Replicas
		if s.ObservedGeneration != set.Generation || s.Replicas != want || s.AvailableReplicas != want || s.UpdatedAvailableReplicas != want ||
			len(s.VolumeClaims) != 2 || slices.ContainsFunc(s.VolumeClaims, func(c v1beta1.VolumeClaimStatus) bool { return c.CompatibleReadyReplicas != want }) {
			return fmt.Errorf("generation %d, status %+v", set.Generation, s)
		}
		return nil
	})
}

// remove deletes the StatefulSet while the manager runs, because the API server calls the manager's webhook.
func (n *numbered) remove() {
	n.t.Helper()
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: n.key.Namespace, Name: n.key.Name}}
	controlplanetest.Eventually(n.t, time.Minute, func(ctx context.Context) error {
		if err := n.Delete(ctx, set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the StatefulSet: %w", err)
		}
		return nil
	})
}
