package statefulset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// withClaims gives each Pod a claim with a class and a size. The test must provide the volumes.
func withClaims(class, size string) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "db"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		}}
		set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
}

// volumes creates a StorageClass for the test, and volumes of a size for n claims. The result is the name of the
// class.
func (c *cluster) volumes(n int, size string, grow *bool) string {
	c.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: c.namespace + "-"}, Provisioner: "example.test/by-hand", AllowVolumeExpansion: grow,
	}
	if err := c.Create(c.t.Context(), class); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), class) })
	for range n {
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{GenerateName: c.namespace + "-"},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			},
		}
		if err := c.Create(c.t.Context(), volume); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), volume) })
	}
	return class.Name
}

// owners returns the owner of each claim, as "Kind name", by the name of the claim.
func (c *cluster) owners(ctx context.Context) (map[string]string, error) {
	var list corev1.PersistentVolumeClaimList
	if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range list.Items {
		var names []string
		for _, ref := range list.Items[i].OwnerReferences {
			names = append(names, ref.Kind+" "+ref.Name)
		}
		out[list.Items[i].Name] = strings.Join(names, ", ")
	}
	return out, nil
}

func (c *cluster) untilOwners(want map[string]string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		got, err := c.owners(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("owners of claims (-want +got):\n%s", diff)
		}
		return nil
	})
}

// TestRetention: a claim is deleted together with the owner that the retention policy names, and not earlier.
func TestRetention(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	policy := func(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*v1beta1.StatefulSet) {
		return func(set *v1beta1.StatefulSet) {
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
		}
	}
	replicas := func(n int32) func(*v1beta1.StatefulSet) {
		return func(set *v1beta1.StatefulSet) { set.Spec.Replicas = &n }
	}
	c.create(c.statefulSet("db", 2, withClaims(c.volumes(3, "1Gi", nil), "1Gi"), policy(keep, keep)), 0, 1)
	c.untilOwners(map[string]string{"data-db-0": "", "data-db-1": ""})
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "data-db-0"}, claim); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"app": "db", "tier": "db"}, claim.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	c.change("db", policy(remove, keep))
	c.untilOwners(map[string]string{"data-db-0": "StatefulSet db", "data-db-1": "StatefulSet db"})
	c.change("db", replicas(1))
	c.untilPods("db", 0)
	c.untilOwners(map[string]string{"data-db-0": "StatefulSet db", "data-db-1": "StatefulSet db"})
	c.change("db", policy(remove, remove))
	c.change("db", replicas(2))
	c.untilPods("db", 0, 1)
	c.change("db", replicas(1))
	c.untilPods("db", 0)
	c.untilOwners(map[string]string{"data-db-0": "StatefulSet db"}) // the second claim was deleted together with its Pod
	c.change("db", policy(keep, keep))
	c.untilOwners(map[string]string{"data-db-0": ""})
	c.change("db", setImage("example.test/app:v2"))
	c.untilPods("db", 0)
	c.untilOwners(map[string]string{"data-db-0": ""})
}

// TestSharedClaim: two StatefulSets have names and templates that yield the same claim name. Deleting the second
// StatefulSet does not delete the claim.
func TestSharedClaim(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	class := c.volumes(1, "1Gi", nil)
	c.create(c.statefulSet("1-db", 1, withClaims(class, "1Gi")), 0)
	second := c.statefulSet("db", 1, withClaims(class, "1Gi"), func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates[0].Name, set.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "data-1", "data-1"
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: remove, WhenScaled: keep}
	})
	c.create(second, 0)
	c.until("db", settled)
	c.untilOwners(map[string]string{"data-1-db-0": ""})
	if err := c.Delete(t.Context(), &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "1-db"}}); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "1-db-0"}, &corev1.Pod{})
		if err == nil {
			return errors.New("Pod 1-db-0 is still there")
		}
		return client.IgnoreNotFound(err)
	})
	c.change("db", setImage("example.test/app:v2")) // an event of a Pod without a controller enqueues no StatefulSet
	c.untilOwners(map[string]string{"data-1-db-0": "StatefulSet db"})
}

// TestVolumesGrow: if a template is enlarged, the claim of each Pod is enlarged when the Pod is updated. The
// controller updates a Pod only after its volume has grown.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	c := start(t, "StatefulSetAutoResizePVCGate=true")
	class := c.volumes(2, "2Gi", ptr.To(true))
	c.create(c.statefulSet("db", 2, withClaims(class, "1Gi"), func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnPodRollingUpdate
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = nil
	}), 0, 1)
	c.change("db", func(set *v1beta1.StatefulSet) {
		withClaims(class, "3Gi")(set)
		setImage("example.test/app:v2")(set)
	})
	for _, ordinal := range []int{1, 0} { // a single Pod at a time, from the highest
		c.untilClaim(ordinal, func(claim *corev1.PersistentVolumeClaim) error {
			if got := claim.Spec.Resources.Requests.Storage().String(); got != "3Gi" || claim.Annotations[apps.AnnotationOwnedByStatefulSet] != "db" {
				return fmt.Errorf("claim %s asks for %s, annotations %v", claim.Name, got, claim.Annotations)
			}
			return nil
		})
		pod := &corev1.Pod{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: fmt.Sprintf("db-%d", ordinal)}, pod); err != nil {
			t.Fatal(err)
		}
		if image := pod.Spec.Containers[0].Image; image != "example.test/app:v1" {
			t.Errorf("Pod %s runs %s before its volume has grown", pod.Name, image)
		}
		c.grown(ordinal, "3Gi")
	}
	c.untilPods("db", 0, 1)
	set := c.until("db", settled)
	want := []v1beta1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 2, CompatibleReadyReplicas: 2}}
	if diff := cmp.Diff(want, set.Status.VolumeClaims); diff != "" {
		t.Errorf("status of claims (-want +got):\n%s", diff)
	}
	c.untilEvents("db", "SuccessfulCreate", "SuccessfulResize", "SuccessfulUpdatePodInPlace")
}

// TestVolumesCannotGrow: the controller reports a storage class without volume expansion, and does not update the
// Pods.
func TestVolumesCannotGrow(t *testing.T) {
	t.Parallel()
	c := start(t, "StatefulSetAutoResizePVCGate=true")
	class := c.volumes(1, "1Gi", nil)
	c.create(c.statefulSet("db", 1, withClaims(class, "1Gi"), func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnPodRollingUpdate
	}), 0)
	c.change("db", withClaims(class, "2Gi"))
	c.until("db", func(set *v1beta1.StatefulSet) error {
		if failed := set.Status.Conditions.Find(apps.ConditionFailedUpdatePod); failed == nil || failed.Reason != "ClassCannotExpand" || !strings.Contains(failed.Message, class) {
			return fmt.Errorf("condition %+v", failed)
		}
		return nil
	})
	c.untilClaim(0, func(claim *corev1.PersistentVolumeClaim) error {
		if got := claim.Spec.Resources.Requests.Storage().String(); got != "1Gi" {
			return errors.New("it asks for " + got)
		}
		return nil
	})
}

func (c *cluster) untilClaim(ordinal int, want func(*corev1.PersistentVolumeClaim) error) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: fmt.Sprintf("data-db-%d", ordinal)}, claim); err != nil {
			return err
		}
		return want(claim)
	})
}

// grown writes the status of a claim as the volume's driver does: the claim has the requested size.
func (c *cluster) grown(ordinal int, size string) {
	c.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: fmt.Sprintf("data-db-%d", ordinal)}}
	body := fmt.Sprintf(`{"status":{"capacity":{"storage":%q}}}`, size)
	if err := c.Status().Patch(c.t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		c.t.Fatal(err)
	}
}
