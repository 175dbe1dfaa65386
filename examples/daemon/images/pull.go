package images

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/nodeimage/onnode"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/pullsecret"
)

// Runtime is the container runtime of a Node.
type Runtime interface {
	// Images lists all stored images.
	Images(ctx context.Context) ([]imagepull.Image, error)
	// Pull pulls an image: see cri.Runtime.
	Pull(ctx context.Context, request cri.PullRequest) (id string, err error)
	// FreeBytes returns the free disk for images in bytes.
	FreeBytes(ctx context.Context) (uint64, error)
}

// pullingBy is an annotation in the Pod sandbox metadata of a pull request, by which plug-ins of the container
// runtime recognize pulls of the agent.
const pullingBy = "apps.kruise.io/pulling-image-by"

// runtime implements puller.Runtime.
type runtime struct{ *Agent }

// Images implements puller.Runtime.
func (r runtime) Images(ctx context.Context) ([]imagepull.Image, error) {
	return r.options.Runtime.Images(ctx)
}

// FreeBytes implements puller.Runtime.
func (r runtime) FreeBytes(ctx context.Context) (uint64, error) {
	return r.options.Runtime.FreeBytes(ctx)
}

// Pull implements puller.Runtime.
func (r runtime) Pull(ctx context.Context, want imagepull.Want, credential *pullsecret.Credential) (string, error) {
	request := cri.PullRequest{Image: want.Image.Normal(), Credential: credential, Annotations: map[string]string{}}
	if obj := r.image.Load(); obj != nil {
		if sandbox := obj.Spec.Images[onnode.Key(&obj.Spec, want.Image)].SandboxConfig; sandbox != nil {
			request.Labels = sandbox.Labels
			maps.Copy(request.Annotations, sandbox.Annotations)
		}
	}
	request.Annotations[pullingBy] = "kruise-daemon"
	began := r.options.Clock.Now()
	id, err := r.options.Runtime.Pull(ctx, request)
	if r.options.Pulled != nil {
		r.options.Pulled(r.options.Clock.Since(began), err)
	}
	if providers := r.options.Providers; err != nil && credential != nil && providers != nil {
		providers.Forget(imageOf(want)) // the registry may have refused a cached credential
	}
	return id, err
}

func imageOf(want imagepull.Want) pullsecret.Image {
	return pullsecret.Image{Host: want.Image.Registry(), Path: want.Image.Path()}
}

// keyring implements puller.Keyring.
type keyring struct{ *Agent }

// For implements puller.Keyring: the credentials from Secrets come first, and the credentials from providers follow.
func (k keyring) For(ctx context.Context, want imagepull.Want) (pullsecret.Keyring, error) {
	var failures []error
	secrets := k.secrets(ctx, k.image.Load(), want.Image, &failures)
	keys, problems := pullsecret.Read(secrets)
	if providers := k.options.Providers; providers != nil {
		more, why := providers.For(ctx, imageOf(want))
		keys, problems = keys.Join(more), append(problems, why...)
	}
	return keys, errors.Join(append(failures, problems.Err())...)
}

// secrets reads the Secrets for an image. Secrets that cannot be read are left out.
func (k keyring) secrets(ctx context.Context, obj *v1beta1.NodeImage, image imagepull.Reference, failures *[]error) (secrets []corev1.Secret) {
	if obj == nil {
		return nil
	}
	for _, name := range onnode.Secrets(&obj.Spec, image) {
		secret, err := k.options.Secret(ctx, name)
		if err != nil {
			*failures = append(*failures, fmt.Errorf("secret %s: %w", name, err))
			continue
		}
		secrets = append(secrets, *secret)
	}
	return secrets
}
