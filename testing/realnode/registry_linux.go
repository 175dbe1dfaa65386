package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// These are media types of the OCI image specification.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// descriptor refers to a part of an image, as in the OCI image specification.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// blob is a part of an image.
type blob struct {
	descriptor

	content []byte
}

func newBlob(mediaType string, content []byte) blob {
	return blob{descriptor{mediaType, digestOf(content), len(content)}, content}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// registry serves images that it builds itself, on the loopback address. registry implements only the requests needed
// to pull an image.
type registry struct {
	host   string
	server *http.Server
	layer  blob

	mu    sync.Mutex
	blobs map[string]blob // layers, configurations and manifests, by digest
	tags  map[string]blob // manifests, by "NAME:TAG"
}

// newRegistry returns a registry whose images contain the given program as their only file.
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
	r := &registry{
		host: listener.Addr().String(), layer: newBlob(layerType, layer),
		blobs: map[string]blob{}, tags: map[string]blob{},
	}
	r.blobs[r.layer.Digest] = r.layer
	pages := http.NewServeMux()
	pages.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	pages.HandleFunc("GET /v2/{name}/manifests/{reference}", r.serveManifest)
	pages.HandleFunc("GET /v2/{name}/blobs/{digest}", r.serveBlob)
	r.server = &http.Server{Handler: pages, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *registry) serveManifest(w http.ResponseWriter, request *http.Request) {
	reference := request.PathValue("reference")
	r.mu.Lock()
	found, ok := r.tags[request.PathValue("name")+":"+reference]
	if strings.HasPrefix(reference, "sha256:") {
		found, ok = r.blobs[reference]
	}
	r.mu.Unlock()
	found.serve(w, request, ok)
}

func (r *registry) serveBlob(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	found, ok := r.blobs[request.PathValue("digest")]
	r.mu.Unlock()
	found.serve(w, request, ok)
}

func (b blob) serve(w http.ResponseWriter, request *http.Request, found bool) {
	if !found {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", b.MediaType)
	w.Header().Set("Docker-Content-Digest", b.Digest)
	http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(b.content))
}

// pack returns the layer that all images have in common, their only layer. The layer contains the program as /app.
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

// push adds an image called name that starts the program, the image's only file, with the arguments and the environment
// variable VERSION.
func (r *registry) push(name, version string, args ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.tags[name+":"+version]; ok {
		return nil
	}
	config, manifest, err := r.build(version, args)
	if err != nil {
		return fmt.Errorf("make image %s:%s: %w", name, version, err)
	}
	r.blobs[config.Digest], r.blobs[manifest.Digest] = config, manifest
	r.tags[name+":"+version] = manifest
	return nil
}

// tag adds another tag to an image.
func (r *registry) tag(name, version, tag string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	manifest, ok := r.tags[name+":"+version]
	if !ok {
		return fmt.Errorf("tag image %s:%s: there is none", name, version)
	}
	r.tags[name+":"+tag] = manifest
	return nil
}

// digest returns the name of an image by digest, which never changes.
func (r *registry) digest(name, version string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	manifest, ok := r.tags[name+":"+version]
	if !ok {
		return "", fmt.Errorf("digest of image %s:%s: there is none", name, version)
	}
	return manifest.Digest, nil
}

// build returns the configuration and the manifest of an image.
func (r *registry) build(version string, args []string) (config, manifest blob, err error) {
	data, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": append([]string{"/app"}, args...), "Env": []string{"VERSION=" + version}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{r.layer.Digest}}, // the layer is not compressed
	})
	if err != nil {
		return config, manifest, err
	}
	config = newBlob(configType, data)
	data, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config.descriptor, "layers": []descriptor{r.layer.descriptor},
	})
	return config, newBlob(manifestType, data), err
}

func (r *registry) close() { _ = r.server.Close() }
