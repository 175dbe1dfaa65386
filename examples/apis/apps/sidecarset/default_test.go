package sidecarset_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func Example() {
	obj := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "mesh"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"mesh": "on"}}
	obj.Spec.Containers = []pub.SidecarContainer{{Container: corev1.Container{Name: "proxy", Image: "example.test/proxy:v1"}}}
	if err := sidecarset.Default(obj); err != nil {
		fmt.Println(err)
	}
	fmt.Println(obj.Spec.UpdateStrategy.Type, obj.Spec.Containers[0].PodInjectPolicy)
	// Output: RollingUpdate BeforeAppContainer
}

func readStored(t *testing.T, name string) *v1beta1.SidecarSet {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.SidecarSet{}
	if err := yaml.UnmarshalStrict(raw, stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

// TestDefaultAgreesWithStoredObjects defaults the objects applied by users and compares the results, including hashes,
// with the objects stored by OpenKruise.
func TestDefaultAgreesWithStoredObjects(t *testing.T) {
	for _, name := range []string{"mesh", "native"} {
		t.Run("SC-1 SC-2 "+name, func(t *testing.T) {
			stored := readStored(t, name)
			var applied struct {
				Metadata metav1.ObjectMeta
				Spec     map[string]any
			}
			if err := json.Unmarshal([]byte(stored.Annotations[corev1.LastAppliedConfigAnnotation]), &applied); err != nil {
				t.Fatal(err)
			}
			delete(applied.Spec, "namespace")
			raw, err := json.Marshal(applied.Spec)
			if err != nil {
				t.Fatal(err)
			}
			obj := &v1beta1.SidecarSet{ObjectMeta: applied.Metadata}
			if err := json.Unmarshal(raw, &obj.Spec); err != nil {
				t.Fatal(err)
			}
			obj.Spec.NamespaceSelector = stored.Spec.NamespaceSelector
			for i := range obj.Spec.Containers {
				obj.Spec.Containers[i].Image = stored.Spec.Containers[i].Image
			}
			obj.Annotations = map[string]string{apps.AnnotationSidecarSetHash: "forged"}
			if err := sidecarset.Default(obj); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored.Spec, obj.Spec); diff != "" {
				t.Errorf("(-stored +defaulted):\n%s", diff)
			}
			for _, key := range []string{apps.AnnotationSidecarSetHash, apps.AnnotationSidecarSetHashWithoutImage} {
				if diff := cmp.Diff(stored.Annotations[key], obj.Annotations[key]); diff != "" {
					t.Errorf("%s (-stored +computed):\n%s", key, diff)
				}
			}
		})
	}
}

// TestStoredObjectsAreSettled: the defaults change nothing in objects stored by OpenKruise.
func TestStoredObjectsAreSettled(t *testing.T) {
	for _, stored := range []*v1beta1.SidecarSet{readStored(t, "mesh"), readStored(t, "native")} {
		obj := stored.DeepCopy()
		if err := sidecarset.Default(obj); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stored, obj); diff != "" {
			t.Errorf("%s is changed (-stored +defaulted):\n%s", stored.Name, diff)
		}
	}
}

// TestDefault covers cases that the stored objects do not contain.
func TestDefault(t *testing.T) {
	var spec v1beta1.SidecarSetSpec
	if err := yaml.UnmarshalStrict([]byte(`
initContainers: [{name: i, image: i, podInjectPolicy: BeforeAppContainer}]
containers:
- name: c
  image: c:latest
  ports: [{containerPort: 80}]
  resources: {limits: {cpu: 0.1m}}
  env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: "metadata.labels['a']"}}}, {sourceContainerName: app}]
  livenessProbe: {httpGet: {port: 80}}
  readinessProbe: {tcpSocket: {port: 80}}
  startupProbe: {httpGet: {port: 80}}
  lifecycle: {preStop: {httpGet: {port: 80}}}
volumes: [{name: v, secret: {secretName: s}}, {name: w}]
patchPodMetadata: [{annotations: {a: b}}, {annotations: {c: d}, patchPolicy: Overwrite}]
injectionStrategy: {revision: {customVersion: v1}}
updateStrategy: {type: NotUpdate, partition: 10%}
`), &spec); err != nil {
		t.Fatal(err)
	}
	obj := &v1beta1.SidecarSet{Spec: spec}
	if err := sidecarset.Default(obj); err != nil {
		t.Fatal(err)
	}
	c := &obj.Spec.Containers[0]
	limit := c.Resources.Limits[corev1.ResourceCPU]
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"SC-1 the type is kept", obj.Spec.UpdateStrategy.Type, pub.SidecarSetNotUpdate},
		{"SC-1 the partition is kept", *obj.Spec.UpdateStrategy.Partition, intstr.FromString("10%")},
		{"SC-1 maxUnavailable", *obj.Spec.UpdateStrategy.MaxUnavailable, intstr.FromInt32(1)},
		{"SC-1 revisionHistoryLimit", *obj.Spec.RevisionHistoryLimit, int32(10)},
		{"SC-1 policy of the revision", obj.Spec.InjectionStrategy.Revision.Policy, pub.InjectRevisionAlways},
		{"SC-1 patchPolicy", obj.Spec.PatchPodMetadata[0].PatchPolicy, pub.SidecarSetRetain},
		{"SC-1 patchPolicy is kept", obj.Spec.PatchPodMetadata[1].PatchPolicy, pub.SidecarSetOverwrite},
		{"SC-1 the place is kept", obj.Spec.InitContainers[0].PodInjectPolicy, pub.BeforeAppContainer},
		{"SC-1 the place of a container", c.PodInjectPolicy, pub.BeforeAppContainer},
		{"SC-1 upgradeType", c.UpgradeStrategy.UpgradeType, pub.SidecarColdUpgrade},
		{"SC-1 shareVolumePolicy", c.ShareVolumePolicy.Type, pub.ShareVolumePolicyDisabled},
		{"SC-1 protocol", c.Ports[0].Protocol, corev1.ProtocolTCP},
		{"SC-1 apiVersion of env", c.Env[0].ValueFrom.FieldRef.APIVersion, "v1"},
		{"SC-1 apiVersion of transferEnv", c.TransferEnv[0].SourceContainerNameFrom.FieldRef.APIVersion, "v1"},
		{"SC-1 imagePullPolicy by the tag", c.ImagePullPolicy, corev1.PullAlways},
		{"SC-1 terminationMessagePath", c.TerminationMessagePath, "/dev/termination-log"},
		{"SC-1 liveness", c.LivenessProbe.PeriodSeconds, int32(10)},
		{"SC-1 HTTP of liveness", c.LivenessProbe.HTTPGet.Path, "/"},
		{"SC-1 readiness", c.ReadinessProbe.FailureThreshold, int32(3)},
		{"SC-1 startup is as it was", c.StartupProbe.PeriodSeconds, int32(0)},
		{"SC-1 lifecycle", c.Lifecycle.PreStop.HTTPGet.Scheme, corev1.URISchemeHTTP},
		{"SC-1 resources are rounded up", limit.Cmp(resource.MustParse("1m")), 0},
		{"SC-1 volumes", *obj.Spec.Volumes[0].Secret.DefaultMode, int32(420)},
		{"SC-1 a volume of no kind", obj.Spec.Volumes[1].EmptyDir != nil, true},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	again := obj.DeepCopy()
	if err := sidecarset.Default(again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(obj, again); diff != "" {
		t.Errorf("defaulting again changes:\n%s", diff)
	}
}
