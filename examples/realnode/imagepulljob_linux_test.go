package realnode_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakeregistry"
)

// pullJob creates an ImagePullJob for the real Node, and returns the job after the end.
func (f *fixture) pullJob(name string, image imagepull.Reference, secrets ...string) *v1beta1.ImagePullJob {
	f.t.Helper()
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	job.Spec.Image, job.Spec.PullSecrets = image.Normal(), secrets
	job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{f.node.Name()}}
	job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(30)), BackoffLimit: ptr.To(int32(0))}
	job.Spec.CompletionPolicy.Type = v1beta1.Always
	if err := f.Create(f.t.Context(), job); err != nil {
		f.t.Fatal(err)
	}
	controlplanetest.Eventually(f.t, 2*within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.CompletionTime == nil {
			return fmt.Errorf("status %+v", job.Status)
		}
		return nil
	})
	return job
}

// TestImagePullJob: a job brings a private image to the Node with the Secret of the job's namespace. A job for another
// image of the same repository, without the Secret, fails and says why, and no copy of the Secret is left.
func TestImagePullJob(t *testing.T) {
	f := startAgent(t)
	secrets := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: apps.NamespacePullSecrets}}
	if err := f.Create(t.Context(), secrets); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error { // a Node gets its NodeImage 30 s after it is ready
		return f.Get(ctx, client.ObjectKey{Name: f.node.Name()}, &v1beta1.NodeImage{})
	})
	f.pullSecret("registry")
	image := f.privateImage("job", fakeregistry.Access{Bearer: true})
	done := f.pullJob("with", image, "registry")
	if done.Status.Succeeded != 1 || done.Status.Failed != 0 {
		t.Errorf("status %+v", done.Status)
	}
	if got := f.pulls(image); !slices.Contains(got, `blob by "token of ci": 200`) {
		t.Errorf("pulls %q", got)
	}
	if _, err := f.node.Registry().Push(image.Path(), "v2", f.node.App("v2")); err != nil {
		t.Fatal(err)
	}
	other, err := imagepull.Join(image.Repository(), "v2")
	if err != nil {
		t.Fatal(err)
	}
	refused := f.pullJob("without", other)
	if refused.Status.Failed != 1 || len(refused.Status.Failures) != 1 || !strings.Contains(strings.ToLower(refused.Status.Failures[0].Message), "authori") {
		t.Errorf("status %+v", refused.Status)
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		var copies corev1.SecretList
		if err := f.List(ctx, &copies, client.InNamespace(apps.NamespacePullSecrets)); err != nil || len(copies.Items) > 0 {
			return fmt.Errorf("%d copies, %w", len(copies.Items), err)
		}
		return nil
	})
}
