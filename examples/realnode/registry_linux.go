package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	containerregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// registry serves images that are built here, on loopback.
type registry struct {
	host   string
	server *http.Server
	blobs  containerregistry.BlobPutHandler
	layer  v1.Layer

	mu     sync.Mutex
	images map[string]v1.Image // by "NAME:TAG"
}

// newRegistry serves images that all hold the given program alone.
func newRegistry(ctx context.Context, program string) (*registry, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read the program of the images: %w", err)
	}
	layer, err := pack(data)
	if err != nil {
		return nil, fmt.Errorf("pack the program of the images: %w", err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the registry: %w", err)
	}
	blobs := containerregistry.NewInMemoryBlobHandler()
	r := &registry{
		host: listener.Addr().String(), blobs: blobs.(containerregistry.BlobPutHandler),
		layer: static.NewLayer(layer, types.OCIUncompressedLayer), images: map[string]v1.Image{},
	}
	silent := log.New(io.Discard, "", 0)
	r.server = &http.Server{
		Handler:           containerregistry.New(containerregistry.WithBlobHandler(blobs), containerregistry.Logger(silent)),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// pack returns the only layer, which holds the program as /app.
func pack(program []byte) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	entries := []tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o777},
		{Name: "app", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
	}
	for i := range entries {
		if err := archive.WriteHeader(&entries[i]); err != nil {
			return nil, err
		}
	}
	if _, err := archive.Write(program); err != nil {
		return nil, err
	}
	return out.Bytes(), archive.Close()
}

// push serves an image that starts the program with the arguments and the environment variable VERSION.
func (r *registry) push(ctx context.Context, name, version string, args ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.images[name+":"+version] != nil {
		return nil
	}
	image, err := r.build(version, args)
	if err == nil {
		err = r.serve(ctx, name, version, image)
	}
	if err != nil {
		return fmt.Errorf("make image %s:%s: %w", name, version, err)
	}
	return nil
}

// tag gives an image another tag.
func (r *registry) tag(ctx context.Context, name, version, tag string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	image := r.images[name+":"+version]
	if image == nil {
		return fmt.Errorf("tag image %s:%s: there is none", name, version)
	}
	if err := r.serve(ctx, name, tag, image); err != nil {
		return fmt.Errorf("tag image %s:%s as %s: %w", name, version, tag, err)
	}
	return nil
}

// digest returns what names an image for good.
func (r *registry) digest(name, version string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	image := r.images[name+":"+version]
	if image == nil {
		return "", fmt.Errorf("digest of image %s:%s: there is none", name, version)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of image %s:%s: %w", name, version, err)
	}
	return digest.String(), nil
}

func (r *registry) build(version string, args []string) (v1.Image, error) {
	image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: append([]string{"/app"}, args...), Env: []string{"VERSION=" + version}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(mutate.ConfigMediaType(image, types.OCIConfigJSON), r.layer)
}

// serve puts the parts of an image in place. Package remote would do it too, and bring the requirements of Docker's client.
func (r *registry) serve(ctx context.Context, name, tag string, image v1.Image) error {
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	for _, blob := range []v1.Layer{r.layer, static.NewLayer(config, types.OCIConfigJSON)} {
		if err := r.putBlob(ctx, name, blob); err != nil {
			return err
		}
	}
	if err := r.putManifest(ctx, name, tag, image); err != nil {
		return err
	}
	r.images[name+":"+tag] = image
	return nil
}

func (r *registry) putBlob(ctx context.Context, name string, blob v1.Layer) error {
	digest, err := blob.Digest()
	if err != nil {
		return err
	}
	content, err := blob.Compressed()
	if err != nil {
		return err
	}
	return r.blobs.Put(ctx, name, digest, content)
}

func (r *registry) putManifest(ctx context.Context, name, tag string, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	target := "http://" + r.host + "/v2/" + name + "/manifests/" + tag
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", string(types.OCIManifestSchema1))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("the registry answers %s", response.Status)
	}
	return nil
}

func (r *registry) close() { _ = r.server.Close() }
