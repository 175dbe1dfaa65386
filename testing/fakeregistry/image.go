package fakeregistry

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
)

// These are media types of the OCI image specification.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// Image is an image with a single uncompressed layer, for Linux and the processor architecture of the test.
type Image struct {
	// Files are the files and directories. Images with the same Files share the layer.
	Files []File
	// Entrypoint is the program with its arguments. Env is the environment as "NAME=value".
	Entrypoint, Env []string
}

// File is a file or a directory of an Image.
type File struct {
	// Name is the path without a leading "/". A path with a trailing "/" is a directory.
	Name string
	// Mode are the permission bits.
	Mode int64
	// Content is the content of a file.
	Content []byte
}

// descriptor refers to a part of an image, as in the OCI image specification.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// blob is a part of an image, and the names of the repositories with the image.
type blob struct {
	descriptor

	content      []byte
	repositories map[string]bool
}

func newBlob(mediaType string, content []byte) blob {
	return blob{descriptor{mediaType, digestOf(content), len(content)}, content, map[string]bool{}}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Push adds an image, or moves the tag if the tag exists, and returns the digest of the image.
func (r *Registry) Push(name, tag string, image Image) (digest string, err error) {
	parts, err := image.build()
	if err != nil {
		return "", fmt.Errorf("make image %s:%s: %w", name, tag, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range parts {
		known, found := r.blobs[part.Digest]
		if !found {
			known = part
		}
		known.repositories[name] = true
		r.blobs[part.Digest], digest = known, part.Digest
	}
	r.tags[name+":"+tag] = digest // the manifest is the last part of the image, so digest is its digest
	return digest, nil
}

// Tag adds another tag to an image.
func (r *Registry) Tag(name, tag, another string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest, found := r.tags[name+":"+tag]
	if !found {
		return fmt.Errorf("tag image %s:%s: there is none", name, tag)
	}
	r.tags[name+":"+another] = digest
	return nil
}

// Digest returns the digest of an image.
func (r *Registry) Digest(name, tag string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest, found := r.tags[name+":"+tag]
	if !found {
		return "", fmt.Errorf("digest of image %s:%s: there is none", name, tag)
	}
	return digest, nil
}

// build returns the layer, the configuration and, last, the manifest.
func (i *Image) build() ([]blob, error) {
	packed, err := pack(i.Files)
	if err != nil {
		return nil, err
	}
	layer := newBlob(layerType, packed)
	data, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Env": i.Env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}}, // the layer is not compressed
	})
	if err != nil {
		return nil, err
	}
	config := newBlob(configType, data)
	data, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config.descriptor, "layers": []descriptor{layer.descriptor},
	})
	return []blob{layer, config, newBlob(manifestType, data)}, err
}

// pack returns a layer: a tar archive of the files.
func pack(files []File) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, f := range files {
		header := tar.Header{Name: f.Name, Typeflag: tar.TypeReg, Mode: f.Mode, Size: int64(len(f.Content))}
		if f.Name != "" && f.Name[len(f.Name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := archive.Write(f.Content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	return out.Bytes(), archive.Close()
}
