package pullsecret_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/node/pullsecret"
)

func TestCut(t *testing.T) {
	kinds := secretOf("s", `{"auths":{"gcr.io":{"auth":"dTpw","email":"me@x","identitytoken":"it","registrytoken":"rt"},"quay.io":{"username":"u"}},"HttpHeaders":{"X-Secret":"y"}}`)
	kinds.Data["id_rsa"] = []byte("key")
	kinds.Labels, kinds.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	hub := logins("s", "https://index.docker.io/v1/", "docker.io/team", "gcr.io", "*.io")
	cfg := legacy(secretOf("s", `{"auths":{"gcr.io":{"username":"u","password":"p"},"quay.io":{"username":"v"}}}`))
	opaque := logins("s", "gcr.io")
	opaque.Type = corev1.SecretTypeOpaque
	broken := secretOf("s", `{"auths":{"gcr.io":{"username":"u"},"quay.io":{"auth":"?"}}}`)
	for _, c := range []struct {
		name   string
		secret corev1.Secret
		images []string
		want   string // the configuration
		why    []string
	}{
		{"IP-65 the image's registry alone, and credentials alone", kinds, []string{"gcr.io/a"}, `{"auths":{"gcr.io":{"auth":"dTpw","identitytoken":"it","registrytoken":"rt"}}}`, nil},
		{"IP-65 dockercfg stays dockercfg", cfg, []string{"gcr.io/a"}, `{"gcr.io":{"username":"u","password":"p"}}`, nil},
		{"IP-65 no docker type", opaque, []string{"gcr.io/a"}, "", []string{"NotPullSecret"}},
		{"several images", kinds, []string{"gcr.io/a", "quay.io/b"}, `{"auths":{"gcr.io":{"auth":"dTpw","identitytoken":"it","registrytoken":"rt"},"quay.io":{"username":"u"}}}`, nil},
		{"no images", kinds, nil, "", []string{"NothingMatches"}},
		{"no entry for the image", kinds, []string{"reg.io/a"}, "", []string{"NothingMatches"}},
		{"ND-65 a malformed entry is left out", broken, []string{"gcr.io/a", "quay.io/a"}, `{"auths":{"gcr.io":{"username":"u"}}}`, []string{"MalformedEntry"}},
		{"ND-65 malformed", secretOf("s", "{"), []string{"gcr.io/a"}, "", []string{"MalformedSecret"}},
		{"a glob", hub, []string{"docker.io/x"}, `{"auths":{"*.io":{"username":"s@*.io","password":"open sesame"}}}`, nil},
		{"the names in the configuration stay", logins("s", "https://index.docker.io/v1/", "gcr.io"), []string{"docker.io/x"}, `{"auths":{"https://index.docker.io/v1/":{"username":"s@https://index.docker.io/v1/","password":"open sesame"}}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var images []pullsecret.Image
			for _, ref := range c.images {
				images = append(images, image(ref))
			}
			before := c.secret.DeepCopy()
			got, why := pullsecret.Cut(&c.secret, images...)
			want := pullsecret.Content{}
			if c.want != "" {
				key := map[corev1.SecretType]string{corev1.SecretTypeDockerConfigJson: ".dockerconfigjson", corev1.SecretTypeDockercfg: ".dockercfg"}[c.secret.Type]
				want = pullsecret.Content{Type: c.secret.Type, Data: map[string][]byte{key: []byte(c.want)}}
			}
			if got.Type != want.Type || !cmp.Equal(got.Data, want.Data) || got.IsZero() != (c.want == "") {
				t.Errorf("%s with %q, want %q", got.Type, got.Data, want.Data)
			}
			if diff := cmp.Diff(c.why, codes(why)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &c.secret); diff != "" {
				t.Errorf("the argument was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// sameAfterCut checks that the Secrets and their cut contents give the same credentials for the images.
func sameAfterCut(t *testing.T, secrets []corev1.Secret, images []pullsecret.Image) {
	t.Helper()
	var cut []corev1.Secret
	for i := range secrets {
		content, _ := pullsecret.Cut(&secrets[i], images...)
		if content.IsZero() {
			continue
		}
		reduced := *secrets[i].DeepCopy()
		reduced.Data = content.Data
		cut = append(cut, reduced)
	}
	whole, _ := pullsecret.Read(secrets)
	part, why := pullsecret.Read(cut)
	if len(why) > 0 {
		t.Errorf("a cut configuration is not valid: %v", why)
	}
	for _, place := range images {
		want, got := whole.For(place), part.For(place)
		if len(want) != len(got) {
			t.Fatalf("%s: %d credentials, %d after the cut", place, len(want), len(got))
		}
		for i := range want {
			if want[i] != got[i] {
				t.Errorf("%s: credential %d is %v, %v after the cut", place, i, want[i], got[i])
			}
		}
	}
}

// FuzzCut: for any Secrets and images, Cut keeps all credentials that an image needs, and their order.
func FuzzCut(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	hosts := []string{"docker.io", "index.docker.io", "a.io", "b.a.io", "a.io:5000", "localhost"}
	names := append([]string{"*.io", "*.*.io", "https://index.docker.io/v1/", "a.io/x", "a.io/x/y", "https://a.io/v2/x", "["}, hosts...)
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		var secrets []corev1.Secret
		for s := range 1 + r.IntN(3) {
			auths := map[string]map[string]string{}
			for range 1 + r.IntN(4) {
				e := map[string]string{}
				for _, field := range []string{"username", "password", "identitytoken", "registrytoken"} {
					if r.IntN(2) == 0 {
						e[field] = fmt.Sprint(field, r.IntN(3))
					}
				}
				auths[names[r.IntN(len(names))]] = e
			}
			raw, err := json.Marshal(map[string]any{"auths": auths})
			if err != nil {
				t.Fatal(err)
			}
			secrets = append(secrets, secretOf(fmt.Sprint("s", s), string(raw)))
		}
		var images []pullsecret.Image
		for range 1 + r.IntN(3) {
			images = append(images, pullsecret.Image{Host: hosts[r.IntN(len(hosts))], Path: []string{"x", "x/y", "z"}[r.IntN(3)]})
		}
		sameAfterCut(t, secrets, images)
	})
}
