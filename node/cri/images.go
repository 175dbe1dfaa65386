package cri

import (
	"context"
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// imageCall calls the CRI image service.
func imageCall[T any](r *Runtime, do func(runtimev1.ImageServiceClient) (T, error)) (T, error) {
	return connected(r, runtimev1.NewImageServiceClient, do)
}

// Images lists the images stored in the runtime.
func (r *Runtime) Images(ctx context.Context) ([]imagepull.Image, error) {
	answer, err := imageCall(r, func(c runtimev1.ImageServiceClient) (*runtimev1.ListImagesResponse, error) {
		return c.ListImages(ctx, &runtimev1.ListImagesRequest{})
	})
	if err != nil {
		return nil, explain(err)
	}
	images := make([]imagepull.Image, 0, len(answer.GetImages()))
	for _, i := range answer.GetImages() {
		images = append(images, imagepull.Image{ID: i.GetId(), Tags: i.GetRepoTags(), Digests: i.GetRepoDigests(), Bytes: i.GetSize()})
	}
	return images, nil
}

// ImageDirectory returns the directory on the Node below which the runtime stores images. The free disk for images is
// the free space of the directory's file system.
func (r *Runtime) ImageDirectory(ctx context.Context) (string, error) {
	answer, err := imageCall(r, func(c runtimev1.ImageServiceClient) (*runtimev1.ImageFsInfoResponse, error) {
		return c.ImageFsInfo(ctx, &runtimev1.ImageFsInfoRequest{})
	})
	if err != nil {
		return "", explain(err)
	}
	for _, system := range answer.GetImageFilesystems() {
		if directory := system.GetFsId().GetMountpoint(); directory != "" {
			return directory, nil
		}
	}
	return "", reason.Reason{Code: NoImageDirectory, Path: r.path, Detail: "the runtime names no directory of images"}
}

// PullRequest is a request to pull an image.
type PullRequest struct {
	// Image is the image's full name with tag or digest: imagepull.Reference.Normal.
	Image string
	// Credential is the credential for the registry; nil for a pull without credential.
	Credential *pullsecret.Credential
	// Labels and Annotations are passed to the runtime as metadata of a Pod sandbox, for plug-ins of the runtime. May
	// be nil.
	Labels, Annotations map[string]string
}

// Pull pulls an image, and returns the image's ID in the runtime. Pull returns at the latest when the context ends.
// The pull may then continue in the runtime, and a later pull of the image reuses the layers stored by then. Only the
// error for an invalid name is final, because a missing image or permission may be added later. Error texts come from
// the registry and may contain credentials: see pullsecret.Keyring.Redact.
func (r *Runtime) Pull(ctx context.Context, p PullRequest) (id string, err error) {
	answer, err := imageCall(r, func(c runtimev1.ImageServiceClient) (*runtimev1.PullImageResponse, error) {
		return c.PullImage(ctx, p.message())
	})
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unimplemented:
		return "", reason.Final(err)
	}
	return answer.GetImageRef(), err
}

// message returns the request in CRI. The sandbox and its maps are never nil, because some runtimes crash on a
// missing sandbox.
func (p *PullRequest) message() *runtimev1.PullImageRequest {
	sandbox := &runtimev1.PodSandboxConfig{Metadata: &runtimev1.PodSandboxMetadata{}, Labels: map[string]string{}, Annotations: map[string]string{}}
	maps.Copy(sandbox.Labels, p.Labels)
	maps.Copy(sandbox.Annotations, p.Annotations)
	out := &runtimev1.PullImageRequest{Image: &runtimev1.ImageSpec{Image: p.Image, UserSpecifiedImage: p.Image}, SandboxConfig: sandbox}
	if c := p.Credential; c != nil {
		out.Auth = &runtimev1.AuthConfig{
			Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
		}
	}
	return out
}

// Images lists the images stored in the first runtime that responds, like Runtime.Images.
func (r *Runtimes) Images(ctx context.Context) ([]imagepull.Image, error) {
	first, err := r.first()
	if err != nil {
		return nil, err
	}
	return first.Images(ctx)
}

// ImageDirectory returns the directory of the first runtime that responds, like Runtime.ImageDirectory.
func (r *Runtimes) ImageDirectory(ctx context.Context) (string, error) {
	first, err := r.first()
	if err != nil {
		return "", err
	}
	return first.ImageDirectory(ctx)
}

// Pull pulls an image into the first runtime that responds, like Runtime.Pull.
func (r *Runtimes) Pull(ctx context.Context, p PullRequest) (id string, err error) {
	first, err := r.first()
	if err != nil {
		return "", err
	}
	return first.Pull(ctx, p)
}

// first returns the first runtime that responds. The error says why no runtime responds.
func (r *Runtimes) first() (*Runtime, error) {
	if missing := r.Missing(); len(missing) > 0 {
		return nil, missing.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.known {
		if one.up {
			return one.Runtime, nil
		}
	}
	return nil, reason.Reason{Code: NoRuntime, Detail: "no runtime answers any more"}
}
