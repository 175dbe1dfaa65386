package cli_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// stuck is a situation in which an object waits. NAME in the texts is replaced by the name of the situation.
type stuck struct {
	name      string
	policy    string // a manifest of policies, applied before all situations; policies take effect in their order
	manifests string
	// ready is true if the object must have ready Pods before the change in then.
	ready bool
	// then is a merge patch that changes the object.
	then string
	args string // the object for the command why
	want string // the beginning of the first cause
	text string // a text that the first cause contains
}

// spread returns the manifest of a workload, with the given parts of the spec, of the template's metadata and of the
// Pod's spec.
func spread(kind, spec, meta, pod string) string {
	return fmt.Sprintf(`apiVersion: apps.kruise.io/v1beta1
kind: %s
metadata: {name: NAME}
spec: {%s selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}%s}, spec: {terminationGracePeriodSeconds: 0, %s containers: [{name: app, image: "example.test/app:v1"}]}}}`, kind, spec, meta, pod)
}

// held is like spread, but the Pods have the label of a lifecycle hook.
func held(kind, spec, meta, pod string) string {
	return strings.Replace(spread(kind, spec, meta, pod), "labels: {app: NAME}", "labels: {app: NAME, example.test/hold: 'true'}", 1)
}

const (
	twoPods = "replicas: 2, "
	inPlace = "replicas: 2, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}}, "
	newApp  = `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}}}`
	loneJob = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, labels: {app: NAME}}\nspec: {containers: [{name: app, image: \"example.test/app:v1\"}]}\n---\n"
)

// healthy returns a text that the output of the command why contains before the change.
func (s *stuck) healthy() string {
	if s.args == "NAME-0" {
		return "Pod NAME-0 is healthy: ready"
	}
	return "is healthy: "
}

func stuckSituations() []stuck {
	claim := `{volumes: [{name: data, persistentVolumeClaim: {claimName: NAME}}], `
	policy := func(verb, expression string) string {
		return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], resources: [pods]}]}, validations: [{expression: '%s', message: the security team says no}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}`, verb, expression)
	}
	return []stuck{
		{name: "refused-update", policy: policy("UPDATE", `!has(object.metadata.labels) || !("app" in object.metadata.labels) || object.metadata.labels["app"] != "NAME" || object.spec.containers[0].image != "example.test/app:v2"`), manifests: spread("CloneSet", strings.Replace(inPlace, "IfPossible", "Only", 1), "", ""), ready: true, then: newApp, args: "cloneset/NAME", want: "webhook: WebhookRefused", text: "the security team says no"},
		{name: "refused-pods", policy: policy("CREATE", `!has(object.metadata.labels) || !("app" in object.metadata.labels) || object.metadata.labels["app"] != "NAME"`), manifests: spread("CloneSet", twoPods, "", ""), args: "cloneset/NAME", want: "webhook: WebhookRefused", text: "the security team says no"},
		{name: "no-account", manifests: spread("CloneSet", twoPods, "", "serviceAccountName: absent, "), args: "cloneset/NAME", want: "api server: RequestRefused", text: "serviceaccount \"absent\" not found"},
		{name: "no-priority", manifests: spread("CloneSet", twoPods, "", "priorityClassName: absent, "), args: "cloneset/NAME", want: "api server: RequestRefused", text: "no PriorityClass with name absent"},
		{name: "invalid-pod", manifests: spread("CloneSet", twoPods, ", annotations: {\"not/a/key\": x}", ""), args: "cloneset/NAME", want: "api server: RequestRefused", text: "metadata.annotations"},
		{name: "too-large", manifests: strings.Replace(spread("CloneSet", twoPods, "", ""), "app:v1\"", "app:v1\", resources: {requests: {cpu: \"10000\"}}", 1), args: "cloneset/NAME", want: "scheduler: Unschedulable", text: "Insufficient cpu"},
		{name: "one-per-node", manifests: spread("CloneSet", "replicas: 30, ", "", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: NAME}}}]}}, "), args: "cloneset/NAME", want: "scheduler: Unschedulable", text: "anti-affinity"},
		{name: "no-claim", manifests: spread("CloneSet", twoPods, "", claim[1:]), args: "cloneset/NAME", want: "scheduler: Unschedulable", text: "persistentvolumeclaim \"NAME\" not found"},
		{name: "unbound-claim", manifests: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: NAME}\nspec: {storageClassName: absent, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n" + spread("CloneSet", twoPods, "", claim[1:]), args: "cloneset/NAME", want: "scheduler: Unschedulable", text: "unbound immediate PersistentVolumeClaims"},
		{name: "no-such-node", manifests: loneJob[:strings.Index(loneJob, "spec:")] + "spec: {nodeSelector: {disk: none}, containers: [{name: a, image: b}]}", args: "NAME", want: "scheduler: Unschedulable", text: "didn't match Pod's node affinity/selector"},
		{name: "pre-delete", manifests: held("CloneSet", twoPods+"lifecycle: {preDelete: {labelsHandler: {example.test/hold: 'true'}}}, ", "", ""), ready: true, then: `{"spec":{"replicas":1}}`, args: "cloneset/NAME", want: "hook: HookHolds", text: "preDelete"},
		{name: "update-hook", manifests: held("CloneSet", inPlace+"lifecycle: {inPlaceUpdate: {labelsHandler: {example.test/hold: 'true'}}}, ", "", ""), ready: true, then: newApp, args: "cloneset/NAME", want: "hook: HookHolds", text: "inPlaceUpdate"},
		{name: "in-place-only", manifests: spread("CloneSet", strings.Replace(inPlace, "IfPossible", "Only", 1), "", ""), ready: true, then: `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.test/app:v2","args":["x"]}]}}}}`, args: "cloneset/NAME", want: "controller: ", text: "args"},
		{name: "budget", manifests: "apiVersion: policy.kruise.io/v1beta1\nkind: PodUnavailableBudget\nmetadata: {name: NAME}\nspec: {maxUnavailable: 0, selector: {matchLabels: {app: NAME}}}\n---\n" + spread("CloneSet", inPlace, "", ""), ready: true, then: newApp, args: "cloneset/NAME", want: "budget: ", text: "PodUnavailableBudget"},
		{name: "pod-finalizer", manifests: spread("CloneSet", twoPods, ", finalizers: [example.test/hold]", ""), ready: true, then: `{"spec":{"replicas":1}}`, args: "cloneset/NAME", want: "hook: FinalizerHolds", text: "example.test/hold"},
		{name: "other-pod", manifests: "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME-0}\nspec: {containers: [{name: a, image: b}]}\n---\n" + spread("StatefulSet", twoPods+"serviceName: NAME, ", "", ""), args: "asts/NAME", want: "controller: ", text: "NAME-0"},
		{name: "claims", manifests: strings.Replace(spread("StatefulSet", twoPods+"serviceName: NAME, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: absent, resources: {requests: {storage: 1Gi}}}}], ", "", ""), "app:v1\"", "app:v1\", volumeMounts: [{name: data, mountPath: /data}]", 1), args: "asts/NAME", want: "scheduler: Unschedulable", text: "data-claims-0"},
		{name: "broken-update", manifests: spread("CloneSet", inPlace, ", annotations: {sim.workloadkit.io/broken-image: 'example.test/app:v2'}", ""), ready: true, then: newApp, args: "cloneset/NAME", want: "runtime: ImagePullBackOff", text: "example.test/app:v2"},
		{name: "failed-job", manifests: `apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: NAME}
spec: {failurePolicy: {type: Pause, restartLimit: 0}, template: {metadata: {annotations: {sim.workloadkit.io/crash: app}}, spec: {restartPolicy: Never, containers: [{name: app, image: "example.test/app:v1"}]}}}`, args: "broadcastjob/NAME", want: "runtime: ", text: "exit code"},
		{name: "paused-job", manifests: `apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: NAME}
spec: {paused: true, template: {spec: {restartPolicy: Never, containers: [{name: app, image: "example.test/app:v1"}]}}}`, args: "broadcastjob/NAME", want: "user: Paused", text: "paused"},
		{name: "running-container", manifests: loneJob + `apiVersion: apps.kruise.io/v1alpha1
kind: EphemeralJob
metadata: {name: NAME}
spec: {selector: {matchLabels: {app: NAME}}, template: {ephemeralContainers: [{name: debug, image: "example.test/debug:v1"}]}}`, args: "ephemeraljob/NAME", want: "runtime: JobNotEnded", text: "container debug runs"},
		{name: "no-image-agent", manifests: `apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: NAME}
spec: {image: "example.test/app:v1", completionPolicy: {type: Always}}`, args: "imagepulljob/NAME", want: "node: ", text: ""},
		{name: "partition", manifests: spread("StatefulSet", "replicas: 2, serviceName: NAME, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {partition: 2}}, ", "", ""), ready: true, then: newApp, args: "NAME-0", want: "user: PartitionReached", text: "partition"},
		{name: "on-delete", manifests: spread("StatefulSet", twoPods+"serviceName: NAME, podManagementPolicy: Parallel, updateStrategy: {type: OnDelete}, ", "", ""), ready: true, then: newApp, args: "asts/NAME", want: "user: OnDelete", text: ""},
		{name: "namespace-sidecars", manifests: loneJob + `apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: NAME}
spec: {selector: {matchLabels: {app: NAME}}, containers: [{name: log, image: "example.test/log:v1"}]}`, args: "NAME", want: "webhook: NotInjected", text: "SidecarSet NAME"},
		{name: "united", manifests: `apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template: {cloneSetTemplate: {metadata: {labels: {app: NAME}}, spec: {selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: app, image: "example.test/app:v1"}]}}}}}
  topology: {subsets: [{name: a, nodeSelectorTerm: {matchExpressions: [{key: disk, operator: In, values: [none]}]}}]}`, args: "uniteddeployment/NAME", want: "scheduler: Unschedulable", text: "didn't match"},
		{name: "cron", manifests: `apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: NAME}
spec: {schedule: "* * * * *", paused: true, template: {broadcastJobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "example.test/app:v1"}]}}}}}}`, args: "advancedcronjob/NAME", want: "user: Paused", text: "paused"},
		{name: "kubernetes-job", manifests: `apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec: {backoffLimit: 0, template: {metadata: {annotations: {sim.workloadkit.io/broken-image: '*'}}, spec: {restartPolicy: Never, containers: [{name: app, image: "example.test/app:v1"}]}}}`, args: "job/NAME", want: "runtime: ImagePullBackOff", text: "example.test/app:v1"},
		{name: "kubernetes-deployment", manifests: strings.Replace(spread("Deployment", twoPods, "", "nodeSelector: {disk: none}, "), "apps.kruise.io/v1beta1", "apps/v1", 1), args: "deployment/NAME", want: "scheduler: Unschedulable", text: "didn't match"},
	}
}

// TestWhyStuck runs the command why for objects that wait, each for a different reason. The first cause must be the
// true cause.
func TestWhyStuck(t *testing.T) {
	c := alone(t) // policies and SidecarSets concern all namespaces
	c.manage("CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob", "EphemeralJob", "ImagePullJob", "NodeImage", "UnitedDeployment", "AdvancedCronJob", "PodUnavailableBudget")
	for _, s := range stuckSituations() {
		if s.policy != "" {
			c.apply(strings.ReplaceAll(s.policy, "NAME", s.name))
		}
	}
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		pod := c.decode(strings.ReplaceAll(strings.TrimSuffix(loneJob, "---\n"), "NAME", "refused-pods"))
		if err := c.Create(ctx, pod, client.DryRunAll); err == nil {
			return errors.New("the last policy has no effect yet")
		}
		images := &v1beta1.NodeImageList{}
		if err := c.List(ctx, images); err != nil || len(images.Items) == 0 {
			return fmt.Errorf("no NodeImage: %w", err)
		}
		return nil
	})
	for _, s := range stuckSituations() {
		named := func(text string) string { return strings.ReplaceAll(text, "NAME", s.name) }
		t.Run(s.name, func(t *testing.T) {
			c := &cluster{WithWatch: c.WithWatch, t: t, cp: c.cp, namespace: c.namespace}
			c.apply(named(s.manifests))
			args := append([]string{"why"}, strings.Fields(named(s.args))...)
			if s.ready {
				c.eventually(named(s.healthy()), args...)
			}
			if s.then != "" {
				documents := strings.Split(named(s.manifests), "\n---\n")
				object := c.decode(documents[len(documents)-1])
				if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(s.then))); err != nil {
					t.Fatal(err)
				}
			}
			var a answer
			controlplanetest.Eventually(t, minute, func(context.Context) error {
				a = c.do(args...)
				if got := first(a.out); !strings.HasPrefix(got, s.want) || !strings.Contains(got, named(s.text)) {
					return fmt.Errorf("the first cause is not %q with %q:\n%s%s", s.want, named(s.text), a.out, a.errors)
				}
				return nil
			})
			t.Log("\n" + a.out)
		})
	}
}

// first returns the text of the first cause in one line.
func first(out string) string {
	_, rest, _ := strings.Cut(out, "\n1. ")
	cause, _, _ := strings.Cut(rest, "\n2. ")
	return strings.Join(strings.Fields(cause), " ")
}
