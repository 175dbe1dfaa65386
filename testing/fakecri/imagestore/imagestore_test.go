package imagestore_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/imagestore"
)

// TestPull: the first rule that matches a name decides about a pull.
func TestPull(t *testing.T) {
	broken := errors.New("disk full")
	rules := []imagestore.Rule{
		{Prefix: "docker.io/library/gone", Missing: true},
		{Prefix: "reg.example.org/private/", Username: "u", Password: "p"},
		{Prefix: "reg.example.org/token/", Password: "t"},
		{Prefix: "reg.example.org/large", Bytes: 3000, Rate: 100},
		{Prefix: "reg.example.org/broken", Bytes: 100, Rate: 100, Err: broken},
	}
	in := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	const denied = "authorization failed"
	for _, tt := range []struct {
		name, image string
		auth        *fakecri.Auth
		want        string // a part of the error
		took        time.Duration
	}{
		{"no rule", "app:v1", nil, "", 0},
		{"missing", "gone:v1", nil, "not found", 0},
		{"without a credential", "reg.example.org/private/app", nil, denied, 0},
		{"a password", "reg.example.org/private/app", &fakecri.Auth{Username: "u", Password: "p"}, "", 0},
		{"a wrong password", "reg.example.org/private/app", &fakecri.Auth{Username: "u", Password: "q"}, denied, 0},
		{"for the server", "reg.example.org/private/app", &fakecri.Auth{Username: "u", Password: "p", ServerAddress: "https://reg.example.org/v2"}, "", 0},
		{"for another server", "reg.example.org/private/app", &fakecri.Auth{Username: "u", Password: "p", ServerAddress: "https://other.example.org"}, denied, 0},
		{"for nonsense", "reg.example.org/private/app", &fakecri.Auth{Username: "u", Password: "p", ServerAddress: ":"}, "parse server address", 0},
		{"encoded", "reg.example.org/private/app", &fakecri.Auth{Auth: in("u:p")}, "", 0},
		{"encoded without a password", "reg.example.org/private/app", &fakecri.Auth{Auth: in("u")}, "invalid decoded auth", 0},
		{"not encoded", "reg.example.org/private/app", &fakecri.Auth{Auth: "%"}, "read the credential", 0},
		{"an identity token", "reg.example.org/token/app", &fakecri.Auth{IdentityToken: "t"}, "", 0},
		{"a registry token", "reg.example.org/token/app", &fakecri.Auth{RegistryToken: "t"}, denied, 0},
		{"a needless credential", "app:v1", &fakecri.Auth{Username: "u"}, "", 0},
		{"large", "reg.example.org/large", nil, "", 30 * time.Second},
		{"a name with the prefix", "reg.example.org/larger", nil, "", 30 * time.Second},
		{"broken at the end", "reg.example.org/broken", nil, "disk full", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := imagestore.New(nil, rules...)
				began := time.Now()
				id, err := store.Pull(t.Context(), tt.image, tt.auth)
				if tt.want == "" && (err != nil || len(store.List()) != 1 || store.List()[0].ID != id) {
					t.Errorf("ID %s, error %v, images %v; want one with the ID", id, err, store.List())
				}
				if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || len(store.List()) != 0) {
					t.Errorf("error %v, images %v; want %q and none", err, store.List(), tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("the pull took %s, want %s", took, tt.took)
				}
			})
		})
	}
}

func TestPullIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := imagestore.New(nil, imagestore.Rule{Bytes: 100, Rate: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := store.Pull(ctx, "app", nil); !errors.Is(err, context.DeadlineExceeded) || len(store.List()) != 0 {
			t.Errorf("error %v, images %v", err, store.List())
		}
	})
}

// TestNames: names with the same manifest belong to one image, and a tag that moves is removed from the earlier
// image.
func TestNames(t *testing.T) {
	const one, two = "sha256:1111", "sha256:2222"
	store := imagestore.New(nil, imagestore.Rule{Prefix: "docker.io/library/app:", Digest: one, Bytes: 10})
	first := store.Add("app:v1")
	same := []string{store.Add("app:v2"), store.Add("app@" + one)}
	store.SetRules(imagestore.Rule{Prefix: "docker.io/library/app:", Digest: two, Bytes: 20})
	second := store.Add("app:v1")
	if diff := cmp.Diff([]string{first, first}, same); diff != "" {
		t.Errorf("IDs of the same manifest (-want +got):\n%s", diff)
	}
	want := []fakecri.Image{
		{ID: first, Tags: []string{"docker.io/library/app:v2"}, Digests: []string{"docker.io/library/app@" + one}, Size: 10},
		{ID: second, Tags: []string{"docker.io/library/app:v1"}, Digests: []string{"docker.io/library/app@" + two}, Size: 20},
	}
	if diff := cmp.Diff(want, store.List()); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if bytes, inodes := store.Used(); bytes != 30 || inodes != 2 {
		t.Errorf("%d bytes and %d inodes, want 30 and 2", bytes, inodes)
	}
	if err := store.Remove(first); err != nil || len(store.List()) != 1 {
		t.Errorf("error %v, images %v; want one", err, store.List())
	}
}
