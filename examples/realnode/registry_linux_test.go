package realnode

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestRegistry: an image is served whole, and a second tag and the digest are the same image.
func TestRegistry(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := newRegistry(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := r.push(t.Context(), "app", "v1"); err != nil {
		t.Fatal(err)
	}
	if err := r.tag(t.Context(), "app", "v1", "again"); err != nil {
		t.Fatal(err)
	}
	if err := r.tag(t.Context(), "app", "v2", "again"); err == nil {
		t.Error("an image that is not there was tagged")
	}
	body := get(t, r, "manifests/v1", http.StatusOK)
	if again := get(t, r, "manifests/again", http.StatusOK); !bytes.Equal(again, body) {
		t.Errorf("another tag serves %s, want %s", again, body)
	}
	digest, err := r.digest("app", "v1")
	if err != nil {
		t.Fatal(err)
	}
	if same := get(t, r, "manifests/"+digest, http.StatusOK); !bytes.Equal(same, body) {
		t.Errorf("the digest serves %s, want %s", same, body)
	}
	if digest, err := r.digest("app", "v2"); err == nil {
		t.Errorf("an image that is not there has digest %s", digest)
	}
	get(t, r, "manifests/v2", http.StatusNotFound)
	manifest, err := v1.ParseManifest(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		digest, size, err := v1.SHA256(bytes.NewReader(get(t, r, "blobs/"+d.Digest.String(), http.StatusOK)))
		if err != nil || size != d.Size || digest != d.Digest {
			t.Errorf("blob %s has %d bytes, want %d (%v)", d.Digest, size, d.Size, err)
		}
	}
}

func get(t *testing.T, r *registry, path string, want int) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.host+"/v2/app/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != want {
		t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
