package realnode

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRegistry: an image is served whole, and a second tag and the digest mean the same image.
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
	if err := r.push("app", "v1"); err != nil {
		t.Fatal(err)
	}
	if err := r.tag("app", "v1", "again"); err != nil {
		t.Fatal(err)
	}
	if err := r.tag("app", "v2", "again"); err == nil {
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
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(body, &manifest); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		content := get(t, r, "blobs/"+d.Digest, http.StatusOK)
		if digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); len(content) != d.Size || digest != d.Digest {
			t.Errorf("blob %+v has %d bytes of digest %s", d, len(content), digest)
		}
	}
	get(t, r, "blobs/sha256:"+strings.Repeat("0", 64), http.StatusNotFound)
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
