package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// withEmptyValues are manifests full of values without a meaning, by kind. NAME and VERSION are placeholders.
func withEmptyValues() map[string]string {
	const pods = `
  template:
    metadata: {labels: {app: a}, annotations: {}}
    spec: {restartPolicy: POLICY, initContainers: [], containers: [{name: main, image: "nginx:alpine", env: [], command: [], resources: {}}], volumes: []}`
	workload := func(kind, more string) string {
		return "apiVersion: apps.kruise.io/VERSION\nkind: " + kind + "\nmetadata: {name: NAME}\nspec:\n  selector: {matchLabels: {app: a}, matchExpressions: []}" +
			strings.Replace(pods, "POLICY", "Always", 1) + more
	}
	return map[string]string{
		"CloneSet v1alpha1": workload("CloneSet", `
  replicas: 0
  minReadySeconds: 0
  volumeClaimTemplates: []
  scaleStrategy: {disablePVCReuse: false, podsToDelete: []}
  updateStrategy: {paused: false, scatterStrategy: [], priorityStrategy: {weightPriority: []}, inPlaceUpdateStrategy: {gracePeriodSeconds: 0}, partition: 0}
  lifecycle: {preDelete: {labelsHandler: {}, finalizersHandler: [], markPodNotReady: false}}`),
		"CloneSet v1beta1": workload("CloneSet", `
  replicas: 0
  scaleStrategy: {enablePVCReuse: false, podsToDelete: [], excludePreparingDelete: false}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {paused: false, scatterStrategy: [], priorityStrategy: {orderPriority: []}, inPlaceUpdateStrategy: {gracePeriodSeconds: 0}}}`),
		"StatefulSet v1alpha1": workload("StatefulSet", `
  replicas: 0
  serviceName: ""
  podManagementPolicy: ""
  updateStrategy: {type: RollingUpdate, rollingUpdate: {paused: false, partition: 0, inPlaceUpdateStrategy: {gracePeriodSeconds: 0}}}`),
		"StatefulSet v1beta1": workload("StatefulSet", `
  replicas: 0
  serviceName: ""
  reserveOrdinals: []
  ordinals: {start: 0}
  scaleStrategy: {}
  lifecycle: {preDelete: {finalizersHandler: []}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {paused: false}}`),
		"DaemonSet v1alpha1": workload("DaemonSet", `
  minReadySeconds: 0
  updateStrategy: {type: RollingUpdate, rollingUpdate: {paused: false, partition: 0, selector: {matchLabels: {}, matchExpressions: []}}}
  lifecycle: {preDelete: {labelsHandler: {}}}`),
		"DaemonSet v1beta1": workload("DaemonSet", `
  scaleStrategy: {partitionedScaling: false}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {paused: false, partition: 0}}`),
		"SidecarSet v1alpha1": `apiVersion: apps.kruise.io/VERSION
kind: SidecarSet
metadata: {name: NAME, labels: {}}
spec:
  namespace: ""
  namespaceSelector: {matchLabels: {team: a}, matchExpressions: []}
  selector: {matchLabels: {app: a}, matchExpressions: []}
  initContainers: []
  volumes: []
  imagePullSecrets: []
  patchPodMetadata: []
  injectionStrategy: {paused: false}
  updateStrategy: {type: RollingUpdate, paused: false, partition: 0, scatterStrategy: []}
  containers: [{name: NAME, image: "a:1", env: [], transferEnv: [], shareVolumePolicy: {type: disabled}, upgradeStrategy: {hotUpgradeEmptyImage: ""}}]`,
		"SidecarSet v1beta1": `apiVersion: apps.kruise.io/VERSION
kind: SidecarSet
metadata: {name: NAME}
spec:
  customVersion: ""
  namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: []}]}
  selector: {matchLabels: {app: a}}
  injectionStrategy: {paused: false}
  updateStrategy: {paused: false}
  containers: [{name: NAME, image: "a:1", env: []}]`,
		"BroadcastJob both": `apiVersion: apps.kruise.io/VERSION
kind: BroadcastJob
metadata: {name: NAME}
spec:
  paused: false
  completionPolicy: {type: Always}
  failurePolicy: {type: FailFast, restartLimit: 0}` + strings.Replace(pods, "POLICY", "Never", 1),
		"AdvancedCronJob both": `apiVersion: apps.kruise.io/VERSION
kind: AdvancedCronJob
metadata: {name: NAME}
spec:
  schedule: "0 3 29 2 *"
  paused: false
  startingDeadlineSeconds: 0
  failedJobsHistoryLimit: 0
  template:
    jobTemplate: {metadata: {labels: {}}, spec: {suspend: false, template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1", args: []}]}}}}`,
		"ResourceDistribution v1alpha1": `apiVersion: apps.kruise.io/VERSION
kind: ResourceDistribution
metadata: {name: NAME}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}, data: {}, immutable: false}
  targets: {allNamespaces: false, includedNamespaces: {list: []}, excludedNamespaces: {list: []}, namespaceLabelSelector: {matchLabels: {a: b}, matchExpressions: []}}`,
		"PersistentPodState v1alpha1": `apiVersion: apps.kruise.io/VERSION
kind: PersistentPodState
metadata: {name: NAME}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: NAME}
  requiredPersistentTopology: {nodeTopologyKeys: [a]}
  preferredPersistentTopology: []
  persistentPodAnnotations: []`,
	}
}

// TestUnchangedManifests: applying an unchanged file again, in either way, changes nothing, and neither does replacing
// an object by the file.
func TestUnchangedManifests(t *testing.T) {
	byKind := map[string]map[string]string{}
	for title, text := range withEmptyValues() {
		kind, which, _ := strings.Cut(title, " ")
		if byKind[kind] == nil {
			byKind[kind] = map[string]string{}
		}
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			if which == version || which == "both" {
				byKind[kind][version] = text
			}
		}
	}
	for kind, versions := range byKind {
		t.Run(kind, func(t *testing.T) {
			c := served(t, kind)
			for version, text := range versions {
				for _, flags := range [][]string{{"apply"}, {"apply", "--server-side"}, {"replace"}} {
					c.unchanged(strings.ToLower(kind+"-"+version+strings.Join(flags, "")), version, text, flags)
				}
			}
		})
	}
}

// served returns a cluster that serves a kind, in both versions.
func served(t *testing.T, kind string) *cluster {
	t.Helper()
	c := start(t)
	if err := v1beta1.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	options := admission.Options{Client: c, Reader: c, Namespace: "default", Gates: map[apps.Gate]bool{apps.GateResourceDistribution: true}}
	if alone := map[string]admission.Endpoint{
		"BroadcastJob": endpointOf("BroadcastJob", options), "DaemonSet": endpointOf("DaemonSet", options), "SidecarSet": endpointOf("SidecarSet", options),
		"ResourceDistribution": endpointOf("ResourceDistribution", options), "PersistentPodState": endpointOf("PersistentPodState", options),
	}[kind]; alone != nil {
		c.serveAlone(t, strings.ToLower(kind), options, alone)
	}
	return c
}

// unchanged sends a manifest three times.
func (c *cluster) unchanged(name, version, text string, flags []string) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer("NAME", name, "VERSION", version).Replace(text)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	flags = append(flags, "-n", c.namespace, "-f", path)
	object := &unstructured.Unstructured{Object: manifest(c.t, strings.NewReplacer("NAME", name, "VERSION", version).Replace(text))}
	object.SetNamespace(c.namespace)
	if flags[0] == "replace" {
		c.kubectl("create", "-n", c.namespace, "-f", path)
	}
	for i := range 3 {
		c.kubectl(flags...)
		if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			c.t.Fatal(err)
		}
		if object.GetGeneration() != 1 {
			c.t.Errorf("%s of %s, time %d: generation %d: %s", flags[0], name, i+1, object.GetGeneration(), encode(c.t, object.Object["spec"]))
		}
	}
}
