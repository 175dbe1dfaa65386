package fakecri

import (
	"context"
	"fmt"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/testing/internal/imagename"
)

// imageService serves the calls about images.
type imageService struct {
	runtimeapi.UnimplementedImageServiceServer

	opts Options
}

func (i *imageService) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	response := &runtimeapi.ListImagesResponse{}
	all := i.opts.Images.List()
	for n := range all {
		response.Images = append(response.Images, all[n].cri())
	}
	return response, nil
}

func (i *Image) cri() *runtimeapi.Image {
	return &runtimeapi.Image{Id: i.ID, RepoTags: i.Tags, RepoDigests: i.Digests, Size: i.Size, Pinned: i.Pinned}
}

func imageID(i *Image) string { return i.ID }

// resolve finds a stored image by any of its names, or by its ID.
func (i *imageService) resolve(name string) (*Image, bool) {
	all := i.opts.Images.List()
	if name == "" {
		return nil, false
	}
	full := imagename.Full(name)
	n := slices.IndexFunc(all, func(image Image) bool {
		return slices.Contains(image.Tags, full) || slices.Contains(image.Digests, full)
	})
	if n < 0 {
		var err error
		if n, err = find(all, imageID, name); err != nil {
			return nil, false
		}
	}
	return &all[n], true
}

// ImageStatus returns no error and no image if the image is not stored.
func (i *imageService) ImageStatus(_ context.Context, request *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	if image, ok := i.resolve(request.GetImage().GetImage()); ok {
		return &runtimeapi.ImageStatusResponse{Image: image.cri()}, nil
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

func (i *imageService) PullImage(ctx context.Context, request *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	var auth *Auth
	if a := request.GetAuth(); a != nil {
		auth = &Auth{
			Username: a.GetUsername(), Password: a.GetPassword(), Auth: a.GetAuth(), ServerAddress: a.GetServerAddress(),
			IdentityToken: a.GetIdentityToken(), RegistryToken: a.GetRegistryToken(),
		}
	}
	name := request.GetImage().GetImage()
	if name == "" {
		return nil, fmt.Errorf("failed to parse image reference %q: invalid reference format", name)
	}
	id, err := i.opts.Images.Pull(ctx, name, auth)
	if err != nil {
		return nil, fmt.Errorf("failed to pull and unpack image %q: %w", imagename.Full(name), err)
	}
	return &runtimeapi.PullImageResponse{ImageRef: id}, nil
}

// RemoveImage returns no error if the image is not stored.
func (i *imageService) RemoveImage(_ context.Context, request *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	if image, ok := i.resolve(request.GetImage().GetImage()); ok {
		if err := i.opts.Images.Remove(image.ID); err != nil {
			return nil, fmt.Errorf("failed to delete image %q: %w", image.ID, err)
		}
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (i *imageService) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	bytes, inodes := i.opts.Images.Used()
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp:  i.opts.Clock.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"},
		UsedBytes:  &runtimeapi.UInt64Value{Value: bytes},
		InodesUsed: &runtimeapi.UInt64Value{Value: inodes},
	}}}, nil
}

// none is a store that has no images and cannot pull any.
type none struct{}

func (none) List() []Image { return nil }

func (none) Pull(_ context.Context, name string, _ *Auth) (string, error) {
	return "", fmt.Errorf("%s: %w", name, ErrNotFound)
}

func (none) Remove(string) error          { return nil }
func (none) Used() (bytes, inodes uint64) { return 0, 0 }
