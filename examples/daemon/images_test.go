package daemon_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakecri/imagestore"
)

// configNamespace is the namespace of pull secrets for agents.
const configNamespace = "kruise-daemon-config"

// tag returns a tag of a NodeImage, with at most two attempts.
func tag(name string, policy corev1.PullPolicy) v1beta1.ImageTagSpec {
	now := metav1.Now()
	return v1beta1.ImageTagSpec{
		Tag: name, CreatedAt: &now, ImagePullPolicy: policy,
		PullPolicy: &v1beta1.ImageTagPullPolicy{TimeoutSeconds: ptr.To(int32(60)), BackoffLimit: ptr.To(int32(1)), TTLSecondsAfterFinished: ptr.To(int32(600))},
	}
}

// nodeImage replaces the NodeImage of the Node by a new object, and deletes the object after the test.
func (n *node) nodeImage(images map[string]v1beta1.ImageSpec) *v1beta1.NodeImage {
	n.t.Helper()
	obj := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: v1beta1.NodeImageSpec{Images: images}}
	if err := n.Delete(n.t.Context(), obj.DeepCopy()); client.IgnoreNotFound(err) != nil {
		n.t.Fatal(err)
	}
	if err := n.Create(n.t.Context(), obj); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = n.Delete(context.Background(), obj) })
	return obj
}

// reported waits until the agent has reported the end of the pull for all tags, and returns "NAME:TAG PHASE" for each
// tag.
func (n *node) reported(obj *v1beta1.NodeImage) (out []string) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		out = nil
		for name, image := range obj.Spec.Images {
			for _, wanted := range image.Tags {
				tags := obj.Status.ImageStatuses[name].Tags
				i := slices.IndexFunc(tags, func(t v1beta1.ImageTagStatus) bool { return t.Tag == wanted.Tag && t.Version == wanted.Version })
				if i < 0 || tags[i].CompletionTime == nil {
					return fmt.Errorf("no end of %s:%s: %+v", name, wanted.Tag, obj.Status)
				}
				out = append(out, fmt.Sprintf("%s:%s %s", name, wanted.Tag, tags[i].Phase))
			}
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// TestImages: the agent pulls the images in the NodeImage with the right credentials, and with two writes for each
// pull. The agent has only the permissions of the manifests. An image with the policy Keep is pulled again after its
// removal from the Node.
func TestImages(t *testing.T) {
	n := newNode(t)
	n.installRights()
	n.installPullSecrets()
	n.images.SetRules(
		imagestore.Rule{Prefix: "docker.io/library/absent", Missing: true},
		imagestore.Rule{Prefix: "reg.example:5000/team/private", Username: "ci", Password: "secret", Bytes: 7 << 20},
	)
	n.pullSecret("mine", "reg.example:5000", "ci:secret")
	n.pullSecret("other", "reg.example:5000", "ci:wrong")
	private := v1beta1.ImageSpec{
		Tags:        []v1beta1.ImageTagSpec{tag("v1", corev1.PullIfNotPresent), tag("v2", corev1.PullIfNotPresent)},
		PullSecrets: []v1beta1.ReferenceObject{{Namespace: configNamespace, Name: "other", Tags: []string{"v2"}}, {Namespace: configNamespace, Name: "mine", Tags: []string{"v1"}}},
	}
	keep := tag("1.29", corev1.PullIfNotPresent)
	keep.PullPolicy.Keep = true
	obj := n.nodeImage(map[string]v1beta1.ImageSpec{
		"nginx": {Tags: []v1beta1.ImageTagSpec{keep}}, "absent": {Tags: []v1beta1.ImageTagSpec{tag("v1", corev1.PullAlways)}},
		"reg.example:5000/team/private": private,
	})
	since := controllertest.End(t, n.cp.AuditLog())
	d := n.run(n.account(n.name))
	want := []string{"absent:v1 Failed", "nginx:1.29 Succeeded", "reg.example:5000/team/private:v1 Succeeded", "reg.example:5000/team/private:v2 Failed"}
	if diff := cmp.Diff(want, n.reported(obj)); diff != "" {
		t.Fatalf("reports (-want +got):\n%s", diff)
	}
	for _, status := range obj.Status.ImageStatuses["reg.example:5000/team/private"].Tags {
		if strings.Contains(status.Message, "wrong") || status.Tag == "v2" && !strings.Contains(status.Message, "other") {
			t.Errorf("message %q", status.Message)
		}
	}
	if c := meta.FindStatusCondition(obj.Status.Conditions, apps.ConditionImagesPresent); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
	requests, _ := controllertest.Requests(t, n.cp.AuditLog(), since, "agent-"+n.namespace)
	tally := controllertest.Tally(requests, "")
	if writes := tally["patch nodeimages/status"]; writes > 2*6 || writes < 2 { // six attempts
		t.Errorf("%d writes for four images, two of them tried twice: %v", writes, tally)
	}
	for request := range tally {
		if strings.Contains(request, "(403)") {
			t.Errorf("refused: %s", request)
		}
	}
	if code, text := health(d); code != 200 {
		t.Errorf("health %d %s", code, text)
	}
}

// installPullSecrets applies the rights for pull secrets.
func (n *node) installPullSecrets() {
	n.t.Helper()
	if err := config.InstallPullSecretRights(n.t.Context(), n); err != nil {
		n.t.Fatal(err)
	}
}

// pullSecret creates a Secret for agents, and deletes the Secret after the test.
func (n *node) pullSecret(name, registry, credential string) {
	n.t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(credential))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: configNamespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, registry, auth)},
	}
	if err := n.Create(n.t.Context(), secret); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = n.Delete(context.Background(), secret) })
}

// TestImagesIdle: if all images are present on the Node, a new agent process does not write the reports again.
func TestImagesIdle(t *testing.T) {
	n := newNode(t)
	obj := n.nodeImage(map[string]v1beta1.ImageSpec{"nginx": {Tags: []v1beta1.ImageTagSpec{tag("1.29", corev1.PullIfNotPresent)}}})
	t.Run("first agent", func(t *testing.T) { // the agent ends with the subtest
		n.t = t
		n.agent()
		n.reported(obj)
	})
	n.t = t
	since, version := controllertest.End(t, n.cp.AuditLog()), obj.ResourceVersion
	d, began := n.agent(), time.Now()
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		if code, text := health(d); code != 200 || time.Since(began) < 2*time.Second {
			return fmt.Errorf("health %d %s after %s", code, text, time.Since(began))
		}
		return n.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	})
	if obj.ResourceVersion != version {
		t.Errorf("the idle agent has written: %+v", obj.Status)
	}
	requests, _ := controllertest.Requests(t, n.cp.AuditLog(), since, "agent-"+n.namespace)
	for request := range controllertest.Tally(requests, "") {
		if strings.HasPrefix(request, "patch") || strings.HasPrefix(request, "create") {
			t.Errorf("request %s", request)
		}
	}
}
