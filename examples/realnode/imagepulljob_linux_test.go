package realnode_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakeregistry"
)

// pullJob creates an ImagePullJob for the real Node, and returns the job after its end.
func (f *fixture) pullJob(name string, image imagepull.Reference, secrets ...string) *v1beta1.ImagePullJob {
	f.t.Helper()
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	job.Spec.Image, job.Spec.PullSecrets = image.Normal(), secrets
	job.Spec.Selector = &v1beta1.ImagePullJobNodeSelector{Names: []string{f.node.Name()}}
	job.Spec.PullPolicy = &v1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(30)), BackoffLimit: ptr.To(int32(0))}
	job.Spec.CompletionPolicy.Type = v1beta1.Always
	if f.through != "" {
		job.Annotations = map[string]string{apps.AnnotationPullThrough: f.through}
	}
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

// TestImagePullJob: a job pulls a private image to the Node with the Secret of the job's namespace. A second job, for
// another image of the same repository, has no Secret; this job fails, and its status gives the reason. In the end no
// copy of the Secret is left.
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

// TestImagePullJobThroughKubelet: without an agent, the kubelet pulls a private image with the Secret of the job's
// namespace, and nothing copies the Secret. When the job has ended, a Pod keeps the image on the Node until the job
// is deleted. A job without the Secret fails, and its status gives the reason.
func TestImagePullJobThroughKubelet(t *testing.T) {
	f := startServed(t, "--image-pull-pause-image="+node.start(t).Registry().Host()+"/pause:1")
	f.pullSecret("registry")
	image, other := f.privateImage("kubelet", fakeregistry.Access{Bearer: true}), f.privateImage("closed-job", fakeregistry.Access{})
	f.through = apps.PullThroughKubelet
	done := f.pullJob("through", image, "registry")
	if done.Status.Succeeded != 1 || done.Status.Failed != 0 || len(done.Finalizers) > 0 {
		t.Errorf("status %+v, finalizers %v", done.Status, done.Finalizers)
	}
	if got := f.pulls(image); !slices.Contains(got, `blob by "token of ci": 200`) {
		t.Errorf("pulls %q", got)
	}
	refused := f.pullJob("refused", other)
	if refused.Status.Failed != 1 || len(refused.Status.Failures) != 1 || !strings.Contains(strings.ToLower(refused.Status.Failures[0].Message), "authori") {
		t.Errorf("status %+v", refused.Status)
	}
	var copies corev1.SecretList
	if err := f.List(t.Context(), &copies, client.InNamespace(apps.NamespacePullSecrets)); err != nil || len(copies.Items) > 0 {
		t.Errorf("%d copies, %v", len(copies.Items), err)
	}
	f.untilHeldBy(image, done.UID)
	if err := f.Delete(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	f.untilHeldBy(image)
}

// untilHeldBy waits until each of the given jobs has exactly one running Pod that keeps the image, and until no other
// such Pod exists.
func (f *fixture) untilHeldBy(image imagepull.Reference, jobs ...types.UID) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := f.List(ctx, &pods, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		var held []types.UID
		for i := range pods.Items {
			pod := &pods.Items[i]
			if source := pod.Spec.Volumes[0].Image; source == nil || source.Reference != image.Normal() || pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("Pod %s is %s", pod.Name, pod.Status.Phase)
			}
			held = append(held, types.UID(pod.Labels[apps.LabelImagePullJobUID]))
		}
		if !slices.Equal(held, jobs) {
			return fmt.Errorf("images are held by %q", held)
		}
		return nil
	})
}
