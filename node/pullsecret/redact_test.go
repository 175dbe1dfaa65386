package pullsecret_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/node/pullsecret"
)

func TestRedact(t *testing.T) {
	of := func(username, password string) pullsecret.Credential {
		return pullsecret.Credential{Registry: "gcr.io", Username: username, Password: password}
	}
	for _, c := range []struct {
		name        string
		credentials []pullsecret.Credential
		text, want  string
	}{
		{"nothing known", nil, "401 for hunter2", "401 for hunter2"},
		{"nothing in it", []pullsecret.Credential{of("u", "hunter2")}, "401", "401"},
		{"a password", []pullsecret.Credential{of("u", "hunter2")}, "401 for hunter2, hunter2.", "401 for [redacted], [redacted]."},
		{"the whole text", []pullsecret.Credential{of("u", "hunter2")}, "hunter2", "[redacted]"},
		{"tokens", []pullsecret.Credential{{Registry: "x", IdentityToken: "identity", RegistryToken: "bearer1"}}, "identity and bearer1", "[redacted] and [redacted]"},
		{"a long user name", []pullsecret.Credential{of("robot$shop", "hunter2")}, "no rights: robot$shop", "no rights: [redacted]"},
		{"a short user name stays", []pullsecret.Credential{of("AWS", "hunter2")}, "no rights: AWS", "no rights: AWS"},
		{"base64 of both", []pullsecret.Credential{of("u", "hunter2")}, "Authorization: Basic " + auth("u:hunter2"), "Authorization: Basic [redacted]"},
		{"base64 of the password", []pullsecret.Credential{of("u", "hunter2")}, auth("hunter2"), "[redacted]"},
		{"in a URL", []pullsecret.Credential{of("u", "a b/c+d")}, "https://x/?p=a+b%2Fc%2Bd https://u:a%20b%2Fc+d@x", "https://x/?p=[redacted] https://u:[redacted]@x"},
		{"in quotes", []pullsecret.Credential{of("u", "say \"hi\"\n")}, `say \"hi\"\n`, "[redacted]"},
		{"in JSON", []pullsecret.Credential{of("u", "<tag>")}, `{"p":"\u003ctag\u003e"}`, `{"p":"[redacted]"}`},
		{"the longer of two", []pullsecret.Credential{of("u", "hunter"), of("u", "hunter22")}, "x hunter22 x", "x [redacted] x"},
		{"two that overlap", []pullsecret.Credential{of("u", "abcd"), of("u", "cdef")}, "x abcdef x", "x [redacted] x"},
		{"the inner of two", []pullsecret.Credential{of("u", "hunter22"), of("u", "unte")}, "x hunter22 x", "x [redacted] x"},
		{"two side by side", []pullsecret.Credential{of("u", "abcd"), of("u", "efgh")}, "x abcdefgh x", "x [redacted] x"},
		{"overlaps itself", []pullsecret.Credential{of("u", "abab")}, "ababab", "[redacted]"},
		{"a short password ends the text", []pullsecret.Credential{of("u", "x")}, "a fox", "[redacted]"},
		{"of another registry too", []pullsecret.Credential{of("u", "hunter2"), {Registry: "quay.io", Password: "secret3"}}, "hunter2 secret3", "[redacted] [redacted]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyring, _ := pullsecret.New(c.credentials...)
			if got := keyring.Redact(c.text); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("u", "hunter2", "tokenA", "401 for u:hunter2 tokenA")
	f.Add("robot", "abab", "ab[redacted]", "xababab[redacted]abab")
	f.Add("", "a", "", "banana")
	f.Add("aaaaa", "é\x00", "]", "[redacted]]")
	f.Fuzz(func(t *testing.T, username, password, token, text string) {
		keyring, _ := pullsecret.New(pullsecret.Credential{Registry: "gcr.io", Username: username, Password: password, RegistryToken: token})
		parts := strings.Split(keyring.Redact(text), "[redacted]")
		for _, value := range []string{password, token} {
			for _, part := range parts {
				if value != "" && strings.Contains(part, value) {
					t.Errorf("%q is left of %q: %q", value, text, parts)
				}
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, config := range []string{
		`{"auths":{"gcr.io":{"username":"u","password":"p"}}}`, `{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"}}}`,
		`{"auths":{"*.io:5000/a":{"identitytoken":"t"},"[":{}}}`, `{`, `{"auths":null}`, `{"gcr.io":{"registrytoken":"t"}}`,
	} {
		f.Add(config, "gcr.io", "a/b")
		f.Add(config, "docker.io", "library/nginx")
	}
	f.Fuzz(func(t *testing.T, config, host, path string) {
		place := pullsecret.Image{Host: host, Path: path}
		for _, secret := range []corev1.Secret{
			secretOf("s", config),
			{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(config)}},
		} {
			whole, why := pullsecret.Read([]corev1.Secret{secret})
			if whole.IsEmpty() && len(why) == 0 {
				t.Error("neither credentials nor a reason")
			}
			sameAfterCut(t, []corev1.Secret{secret}, []pullsecret.Image{place})
		}
	})
}
