package imagepulljob_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// rollout is a workload whose partition stops an update after some of the Pods.
type rollout struct {
	kind, name, strategy string
	pods                 int
}

func (r rollout) object(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	replicas := ""
	if r.kind != "DaemonSet" {
		replicas = fmt.Sprintf("replicas: %d,", r.pods)
	}
	text := fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: %s
metadata: {name: %s, namespace: %s}
spec:
  {%s selector: {matchLabels: {app: %[2]s}}, %[5]s,
   template: {metadata: {labels: {app: %[2]s}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: "reg.test/app:v1"}]}}}`,
		r.kind, r.name, namespace, replicas, r.strategy)
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// patch changes a workload.
func (c *cluster) patch(object client.Object, text string) {
	c.t.Helper()
	if err := c.Patch(c.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		c.t.Fatal(err)
	}
}

// untilUpdated waits until all Pods of a workload are ready, at least n of them with an image.
func (c *cluster) untilUpdated(r rollout, image string, n int) (pods []corev1.Pod) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels{"app": r.name}); err != nil {
			return err
		}
		ready, updated := 0, 0
		for i := range list.Items {
			if pod := &list.Items[i]; podstate.IsActive(pod) && podstate.IsReady(pod) {
				if ready++; pod.Spec.Containers[0].Image == image {
					updated++
				}
			}
		}
		if pods = list.Items; len(pods) != r.pods || ready != r.pods || updated < n {
			return fmt.Errorf("%s: %d of %d Pods are ready, %d have image %s, want %d", r.name, ready, len(pods), updated, image, n)
		}
		return nil
	})
	return pods
}

// jobOf waits until a workload has exactly one ImagePullJob, and returns the job.
func (c *cluster) jobOf(r rollout) (job *v1beta1.ImagePullJob) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		jobs := &v1beta1.ImagePullJobList{}
		if err := c.List(ctx, jobs, client.InNamespace(c.namespace), client.MatchingLabels{"app": r.name}); err != nil {
			return err
		}
		if len(jobs.Items) != 1 || !strings.HasSuffix(jobs.Items[0].Name, "-app") {
			return fmt.Errorf("%s has %d jobs, want one for container app", r.name, len(jobs.Items))
		}
		job = &jobs.Items[0]
		return nil
	})
	return job
}

// TestImagesArePulledBeforeRollouts: when a rollout begins, a job pulls the new image on the Nodes of the Pods that
// wait for the update, the Nodes of the next batch first. The ControllerRevision records the decision, and the job is
// deleted at the end.
func TestImagesArePulledBeforeRollouts(t *testing.T) {
	c := start(t, "CloneSet", "StatefulSet", "DaemonSet")
	c.refuseImages()
	const rolling = "updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, partition: %d%s}}"
	const inPlace = ", podUpdatePolicy: InPlaceIfPossible"
	for _, r := range []rollout{
		{"CloneSet", "clone", fmt.Sprintf(rolling, 4, inPlace), 5},
		{"StatefulSet", "numbered", "podManagementPolicy: Parallel, " + fmt.Sprintf(rolling, 4, inPlace), 5},
		{"DaemonSet", "daemon", fmt.Sprintf(rolling, 2, ""), 3},
	} {
		t.Run(r.kind, func(t *testing.T) {
			c := &cluster{WithWatch: c.WithWatch, t: t, namespace: c.namespace}
			object := r.object(t, c.namespace)
			c.create(object)
			before := c.untilUpdated(r, "reg.test/app:v1", r.pods)
			c.patch(object, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"reg.test/app:v2"}]}}}}`)
			job := c.jobOf(r)
			if !metav1.IsControlledBy(job, object) || job.Spec.Image != "reg.test/app:v2" || !strings.HasPrefix(job.Name, r.name+"-") {
				t.Errorf("I-3 %s of %v pulls %s", job.Name, job.OwnerReferences, job.Spec.Image)
			}
			c.checkOrder(r, before, job)
			c.untilUpdated(r, "reg.test/app:v2", 1)
			c.until(job, true, func() bool {
				return job.Status.CompletionTime != nil && job.Status.Succeeded > 0 && job.Status.Failed == 0
			})
			revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: strings.TrimSuffix(job.Name, "-app")}}
			c.until(revision, false, func() bool { return revision.Labels[apps.LabelPreDownloadCreated] == "true" })
			c.patch(object, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
			c.untilUpdated(r, "reg.test/app:v2", r.pods)
			controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
				if err := c.Get(ctx, client.ObjectKeyFromObject(job), job); client.IgnoreNotFound(err) != nil || err == nil {
					return fmt.Errorf("I-5 job %s is there: %w", job.Name, err)
				}
				return nil
			})
			c.refuses(r, object)
		})
	}
}

// checkOrder checks that a job for a StatefulSet orders the Nodes as the rollout orders the Pods: from the highest
// ordinal down.
func (c *cluster) checkOrder(r rollout, pods []corev1.Pod, job *v1beta1.ImagePullJob) {
	c.t.Helper()
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(b.Name, a.Name) })
	var want []string
	for i := range pods {
		if node := pods[i].Spec.NodeName; !slices.Contains(want, node) {
			want = append(want, node)
		}
	}
	if got := strings.Split(job.Annotations[apps.AnnotationPullOrder], ","); r.kind == "StatefulSet" && !slices.Equal(got, want) {
		c.t.Errorf("IP-60 order %v, want %v", got, want)
	}
}

// refuseImages makes the API server refuse ImagePullJobs for images with the tag v3.
func (c *cluster) refuseImages() {
	c.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{apps.Group}, APIVersions: []string{"*"}, Resources: []string{"imagepulljobs"}},
	}}}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: `!object.spec.image.endsWith(":v3")`, Message: "v3 is not pulled"}}
	c.create(policy)
	c.create(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}})
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "refused"}}
		job.Spec.Image, job.Spec.CompletionPolicy.Type = "reg.test/app:v3", v1beta1.Always
		if err := c.Create(ctx, job, client.DryRunAll); err == nil {
			return errors.New("the policy has no effect yet")
		}
		return nil
	})
}

// refuses rolls out an image whose ImagePullJobs are refused, and expects an event about the refusal and a completed
// rollout.
func (c *cluster) refuses(r rollout, object client.Object) {
	c.t.Helper()
	c.patch(object, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"reg.test/app:v3"}]}}}}`)
	c.untilUpdated(r, "reg.test/app:v3", r.pods)
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := c.List(ctx, events, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Name == r.name && e.Reason == apps.EventFailedCreateImagePullJob && strings.Contains(e.Message, "v3 is not pulled") {
				return nil
			}
		}
		return fmt.Errorf("I-6 no event of %s about the refusal", r.name)
	})
}
