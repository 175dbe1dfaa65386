package admission_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// warnings records the API server's warnings.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (c *cluster) sidecarSet(t *testing.T, version, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: tree{"apiVersion": "apps.kruise.io/" + version, "kind": "SidecarSet"}}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// createSidecarSet creates a SidecarSet, and deletes the object when the test ends.
func (c *cluster) createSidecarSet(t *testing.T, name string, object tree) error {
	t.Helper()
	sent := &unstructured.Unstructured{Object: object}
	sent.SetName(name)
	sent.SetNamespace("")
	err := c.Create(t.Context(), sent)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Delete(context.WithoutCancel(t.Context()), sent); err != nil {
				t.Error(err)
			}
		})
	}
	return err
}

func causes(err error) (out []string) {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		out = append(out, cause.Field)
	}
	return out
}

// TestSidecarSetsOnTheAPIServer writes and reads SidecarSets in both versions.
func TestSidecarSetsOnTheAPIServer(t *testing.T) {
	c := bare(t)
	if err := v1beta1.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	options := admission.Options{Client: c, Reader: c, Namespace: "default"}
	c.serveAlone(t, "sidecarset", options, endpointOf("SidecarSet", options))
	t.Run("1.2 every field is kept", c.keepsSidecarSets)
	t.Run("SC-3 SC-5 v1alpha1", func(t *testing.T) {
		object := smallOf(t, "SidecarSet", "v1alpha1", "  namespace: team-a")
		object = admissiontest.Edit(t, object, "/metadata/labels", tree{apps.LabelSidecarSetCustomVersion: "v1"})
		if err := c.createSidecarSet(t, "old", object); err != nil {
			t.Fatal(err)
		}
		stored, shown := c.sidecarSet(t, "v1beta1", "old"), c.sidecarSet(t, "v1alpha1", "old")
		spec := stored.Object["spec"].(tree)
		if diff := cmp.Diff(tree{"matchLabels": tree{"kubernetes.io/metadata.name": "team-a"}}, spec["namespaceSelector"]); diff != "" {
			t.Errorf("namespaceSelector (-want +got):\n%s", diff)
		}
		if spec["customVersion"] != "v1" || len(stored.GetLabels()) > 0 || shown.Object["spec"].(tree)["namespace"] != "team-a" ||
			shown.GetLabels()[apps.LabelSidecarSetCustomVersion] != "v1" {
			t.Errorf("stored %v, shown %v", stored.Object, shown.Object)
		}
		hash := apps.AnnotationSidecarSetHash
		if stored.GetAnnotations()[hash] == "" || stored.GetAnnotations()[hash] != shown.GetAnnotations()[hash] {
			t.Errorf("SC-6 hashes %v %v", stored.GetAnnotations(), shown.GetAnnotations())
		}
	})
	t.Run("a long sleep before the end is for Pods that have the time", func(t *testing.T) {
		sleeping := tree{"name": "sleeping", "image": "p", "lifecycle": tree{"preStop": tree{"sleep": tree{"seconds": 45}}}}
		if err := c.createSidecarSet(t, "sleeping", admissiontest.Edit(t, smallOf(t, "SidecarSet", "v1beta1", ""), "/spec/containers", []any{sleeping})); err != nil {
			t.Error(err)
		}
	})
	t.Run("SC-66 the API server judges containers", func(t *testing.T) {
		for path, value := range map[string]any{
			"spec.containers[0].volumeMounts[0].name":   tree{"name": "proxy", "image": "p", "volumeMounts": []any{tree{"name": "nowhere", "mountPath": "/v"}}},
			"spec.containers[0].ports[0].containerPort": tree{"name": "proxy", "image": "p", "ports": []any{tree{"containerPort": 0}}},
			"spec.containers[0].name":                   tree{"name": "No Name", "image": "p"},
		} {
			object := admissiontest.Edit(t, smallOf(t, "SidecarSet", "v1alpha1"), "/spec/containers", []any{value})
			if err := c.createSidecarSet(t, "bad", object); !apierrors.IsInvalid(err) || !cmp.Equal(causes(err), []string{path}) {
				t.Errorf("%s: %v, causes %v", path, err, causes(err))
			}
		}
	})
	t.Run("1.2 init containers alone", func(t *testing.T) {
		object := admissiontest.Edit(t, smallOf(t, "SidecarSet", "v1beta1"), "/spec/containers", nil)
		object = admissiontest.Edit(t, object, "/spec/initContainers", []any{tree{"name": "init", "image": "i", "restartPolicy": "Always"}})
		if err := c.createSidecarSet(t, "native", object); err != nil {
			t.Error(err)
		}
	})
	t.Run("SC-63 a conflict names the other one", func(t *testing.T) {
		if err := c.createSidecarSet(t, "first", smallOf(t, "SidecarSet", "v1beta1")); err != nil {
			t.Fatal(err)
		}
		err := c.createSidecarSet(t, "second", smallOf(t, "SidecarSet", "v1alpha1"))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "SidecarSet first is for some of the same Pods") {
			t.Error(err)
		}
	})
	t.Run("SC-52 annotations need a rule", func(t *testing.T) {
		object := admissiontest.Edit(t, smallOf(t, "SidecarSet", "v1beta1"), "/spec/patchPodMetadata", []any{tree{"annotations": tree{"a": "b"}}})
		if err := c.createSidecarSet(t, "patches", object); !cmp.Equal(causes(err), []string{"spec.patchPodMetadata[0].annotations[a]"}) {
			t.Errorf("%v", err)
		}
	})
	t.Run("spec.strategy of OpenKruise 0.1", c.warnsOfOldStrategy)
}

func (c *cluster) keepsSidecarSets(t *testing.T) {
	const everything = `
spec:
  selector: {matchLabels: {all: "yes"}}
  namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}
  initContainers:
  - {name: init, image: "i:v1", restartPolicy: Always, podInjectPolicy: BeforeAppContainer, future: 1}
  containers:
  - name: all
    image: "p:v1"
    future: {a: [b]}
    podInjectPolicy: AfterAppContainer
    upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:v1"}
    shareVolumePolicy: {type: enabled}
    shareVolumeDevicePolicy: {type: enabled}
    transferEnv: [{sourceContainerName: app, sourceContainerNameFrom: {fieldRef: {apiVersion: v1, fieldPath: "metadata.labels['a']"}}, envName: A, envNames: [B]}]
    volumeMounts: [{name: v, mountPath: /v}]
    resourcesPolicy:
      targetContainersMode: max
      targetContainersNameRegex: ^app
      resourcesExpr: {limits: {cpu: "cpu*50%", memory: memory}, requests: {cpu: "1", memory: 1Mi}}
  volumes: [{name: v, emptyDir: {}}]
  updateStrategy:
    type: RollingUpdate
    paused: true
    partition: 10%
    maxUnavailable: 20%
    priorityStrategy: {orderPriority: [{orderedKey: k}]}
    scatterStrategy: [{key: a, value: b}]
  injectionStrategy: {paused: true}
  imagePullSecrets: [{name: s}]
  revisionHistoryLimit: 4
`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			if err := c.createSidecarSet(t, "all", admissiontest.Manifest(t, "apiVersion: apps.kruise.io/"+version+"\nkind: SidecarSet\n"+everything)); err != nil {
				t.Fatal(err)
			}
			for _, read := range []string{"v1alpha1", "v1beta1"} {
				want, got := leaves("", admissiontest.Manifest(t, everything), map[string]any{}), leaves("", c.sidecarSet(t, read, "all").Object, map[string]any{})
				for path, value := range want {
					if number, ok := value.(float64); ok {
						value = int64(number)
					}
					if diff := cmp.Diff(value, got[path]); diff != "" {
						t.Errorf("%s, read as %s (-want +got):\n%s", path, read, diff)
					}
				}
			}
		})
	}
}

// warnsOfOldStrategy checks that a manifest of OpenKruise 0.1 with the field spec.strategy is accepted, also from
// clients with strict field validation. A warning names the new field.
func (c *cluster) warnsOfOldStrategy(t *testing.T) {
	const want = "spec.strategy has no effect and is not stored: use spec.updateStrategy"
	for name, tc := range map[string]struct {
		version, strategy string
		warnings          []string
		refused           bool
	}{
		"an object":  {"v1alpha1", "{rollingUpdate: {maxUnavailable: 2}}", []string{want}, false},
		"a number":   {"v1alpha1", "5", []string{want}, false},
		"nothing":    {"v1alpha1", "null", []string{want}, false},
		"in v1beta1": {"v1beta1", "{rollingUpdate: {maxUnavailable: 2}}", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var heard warnings
			config := restclient.CopyConfig(c.cp.Config())
			config.WarningHandler = &heard
			direct, err := client.New(config, client.Options{Scheme: c.Scheme()})
			if err != nil {
				t.Fatal(err)
			}
			sent := &unstructured.Unstructured{Object: smallOf(t, "SidecarSet", tc.version, "  strategy: "+tc.strategy)}
			sent.SetName("ancient")
			sent.SetAPIVersion("apps.kruise.io/" + tc.version)
			strict := client.WithFieldValidation(direct, "Strict")
			apply := func() (*unstructured.Unstructured, error) {
				object := sent.DeepCopy()
				return object, strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("ancient"))
			}
			stored, err := apply()
			if tc.refused {
				if err == nil {
					t.Error("spec.strategy was taken")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Delete(context.WithoutCancel(t.Context()), stored); err != nil {
					t.Error(err)
				}
			})
			if diff := cmp.Diff(tc.warnings, heard.text); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			for _, version := range []string{"v1alpha1", "v1beta1"} {
				if _, kept := c.sidecarSet(t, version, "ancient").Object["spec"].(tree)["strategy"]; kept {
					t.Errorf("%s has spec.strategy", version)
				}
			}
			again, err := apply()
			if err != nil || again.GetResourceVersion() != stored.GetResourceVersion() {
				t.Errorf("applied again: %v, resourceVersion %s, want %s", err, again.GetResourceVersion(), stored.GetResourceVersion())
			}
		})
	}
}
