package pullsecret_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// secretOf returns a Secret in namespace shop with a docker configuration given as text.
func secretOf(name, config string) corev1.Secret {
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
	}
}

// logins returns a Secret with a user for each registry name; the user name contains the names of the Secret and the
// registry.
func logins(name string, registries ...string) corev1.Secret {
	auths := map[string]any{}
	for _, registry := range registries {
		auths[registry] = map[string]string{"username": name + "@" + registry, "password": "open sesame"}
	}
	raw, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		panic(err)
	}
	return secretOf(name, string(raw))
}

func legacy(secret corev1.Secret) corev1.Secret {
	var config struct{ Auths json.RawMessage }
	if err := json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config); err != nil {
		panic(err)
	}
	secret.Type, secret.Data = corev1.SecretTypeDockercfg, map[string][]byte{corev1.DockerConfigKey: config.Auths}
	return secret
}

func image(ref string) pullsecret.Image {
	host, path, _ := strings.Cut(ref, "/")
	return pullsecret.Image{Host: host, Path: path}
}

func users(credentials []pullsecret.Credential) (out []string) {
	for _, c := range credentials {
		out = append(out, c.Username)
	}
	return out
}

func codes(why reason.List) (out []string) {
	for _, r := range why {
		out = append(out, string(r.Code))
	}
	return out
}

// TestOrder: credentials have the same order as in the kubelet (k8s.io/kubernetes/pkg/credentialprovider/keyring.go).
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		secrets []corev1.Secret
		image   string
		want    []string
	}{
		{"none", nil, "gcr.io/a", nil},
		{"by host", []corev1.Secret{logins("s", "gcr.io", "quay.io")}, "gcr.io/a", []string{"s@gcr.io"}},
		{"the longer path first", []corev1.Secret{logins("s", "gcr.io", "gcr.io/team", "gcr.io/team/app", "gcr.io/other")}, "gcr.io/team/app", []string{"s@gcr.io/team/app", "s@gcr.io/team", "s@gcr.io"}},
		{"the longer path first, whatever the Secret", []corev1.Secret{logins("one", "gcr.io"), logins("two", "gcr.io/team")}, "gcr.io/team/app", []string{"two@gcr.io/team", "one@gcr.io"}},
		{"equal names in the order of the Secrets", []corev1.Secret{logins("z", "gcr.io"), logins("a", "gcr.io")}, "gcr.io/a", []string{"z@gcr.io", "a@gcr.io"}},
		{"a path is compared by character", []corev1.Secret{logins("s", "gcr.io/team")}, "gcr.io/teammates/app", []string{"s@gcr.io/team"}},
		{"scheme and version are no part of the name", []corev1.Secret{logins("s", "https://gcr.io/v1/", "http://gcr.io/v2/team")}, "gcr.io/team/app", []string{"s@http://gcr.io/v2/team", "s@https://gcr.io/v1/"}},
		{"a version without slash is a path", []corev1.Secret{logins("s", "https://gcr.io/v1")}, "gcr.io/team/app", nil},
		{"the port must be the same", []corev1.Secret{logins("s", "reg.io", "reg.io:5000")}, "reg.io:5000/a", []string{"s@reg.io:5000"}},
		{"globs within a label, names before globs", []corev1.Secret{logins("s", "*.azurecr.io", "shop.azurecr.io", "sh*.azurecr.io", "*.io")}, "shop.azurecr.io/a", []string{"s@shop.azurecr.io", "s@sh*.azurecr.io", "s@*.azurecr.io"}},
		{"names before globs of the same length", []corev1.Secret{logins("s", "a*.io", "ab.io")}, "ab.io/a", []string{"s@ab.io", "s@a*.io"}},
		{"a glob is a single label", []corev1.Secret{logins("s", "*.amazonaws.com")}, "1.dkr.ecr.us-east-1.amazonaws.com/a", nil},
		{"D-9 the pattern of a cloud registry", []corev1.Secret{logins("s", "*.dkr.ecr.*.amazonaws.com")}, "1.dkr.ecr.us-east-1.amazonaws.com/a", []string{"s@*.dkr.ecr.*.amazonaws.com"}},
		{"Docker Hub", []corev1.Secret{logins("s", "https://index.docker.io/v1/", "gcr.io")}, "docker.io/library/nginx", []string{"s@https://index.docker.io/v1/"}},
		{"Docker Hub by its own name first, and alone", []corev1.Secret{logins("s", "index.docker.io"), logins("t", "docker.io")}, "docker.io/library/nginx", []string{"t@docker.io"}},
		{"a registry with a short name is not Docker Hub", []corev1.Secret{logins("s", "index.docker.io")}, "localhost/library/nginx", nil},
		{"the user of a name does not count", []corev1.Secret{logins("s", "https://me@gcr.io")}, "gcr.io/a", []string{"s@https://me@gcr.io"}},
		{"no host", []corev1.Secret{logins("s", "*", "gcr.io")}, "", nil},
		{"dockercfg", []corev1.Secret{legacy(logins("s", "gcr.io"))}, "gcr.io/a", []string{"s@gcr.io"}},
		{"equal credentials count once", []corev1.Secret{
			secretOf("a", `{"auths":{"gcr.io":{"username":"u","password":"p"}}}`), secretOf("b", `{"auths":{"gcr.io/x":{"username":"u","password":"p"},"gcr.io":{"username":"v","password":"p"}}}`),
		}, "gcr.io/x", []string{"u", "v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyring, why := pullsecret.Read(c.secrets)
			if diff := cmp.Diff(c.want, users(keyring.For(image(c.image)))); diff != "" || len(why) > 0 {
				t.Errorf("left out %v, (-want +got):\n%s", why, diff)
			}
		})
	}
}

func auth(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestKinds checks which credentials follow from the fields of an entry.
func TestKinds(t *testing.T) {
	type credential struct{ Username, Password, IdentityToken, RegistryToken string }
	basic := []credential{{Username: "u", Password: "p"}}
	for _, c := range []struct {
		name, entry string
		want        []credential
	}{
		{"user and password", `{"username":"u","password":"p","email":"x@y"}`, basic},
		{"auth", `{"auth":"` + auth("u:p") + `"}`, basic},
		{"auth goes before user and password", `{"username":"x","password":"y","auth":"` + auth("u:p") + `"}`, basic},
		{"auth without padding", `{"auth":"` + strings.TrimRight(auth("u:pp"), "=") + `"}`, []credential{{Username: "u", Password: "pp"}}},
		{"auth with a line end", `{"auth":"` + auth("u:p") + `\n"}`, basic},
		{"auth padded with zero bytes", `{"auth":"` + auth("u:p\x00\x00") + `"}`, basic},
		{"a colon in the password", `{"auth":"` + auth("u:p:q") + `"}`, []credential{{Username: "u", Password: "p:q"}}},
		{"a user without password", `{"username":"u"}`, []credential{{Username: "u"}}},
		{"ND-64 an identity token beside its placeholder", `{"auth":"` + auth("00000000-0000-0000-0000-000000000000:") + `","identitytoken":"it"}`, []credential{{IdentityToken: "it"}}},
		{"ND-64 a registry token", `{"registrytoken":"rt"}`, []credential{{RegistryToken: "rt"}}},
		{"ND-64 all kinds, each alone", `{"username":"u","password":"p","identitytoken":"it","registrytoken":"rt"}`, []credential{{Username: "u", Password: "p"}, {IdentityToken: "it"}, {RegistryToken: "rt"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyring, why := pullsecret.Read([]corev1.Secret{secretOf("s", `{"auths":{"gcr.io":`+c.entry+`}}`)})
			var got []credential
			for _, one := range keyring.For(image("gcr.io/a")) {
				got = append(got, credential{one.Username, one.Password, one.IdentityToken, one.RegistryToken})
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(why) > 0 {
				t.Errorf("left out %v, (-want +got):\n%s", why, diff)
			}
		})
	}
}

// TestMalformed: a malformed Secret does not affect other Secrets, and the reason names the Secret without its
// values.
func TestMalformed(t *testing.T) {
	opaque := logins("s", "gcr.io")
	opaque.Type = corev1.SecretTypeOpaque
	const form = "the docker configuration is not valid JSON of the expected form"
	whole := func(detail string) []string {
		return []string{"MalformedSecret: Secret shop/bad: data[.dockerconfigjson]: " + detail + "; make the Secret with kubectl create secret docker-registry"}
	}
	entry := func(at, detail string) []string {
		return []string{"MalformedEntry: Secret shop/bad: data[.dockerconfigjson]" + at + ": " + detail + "; correct or remove the entry"}
	}
	for _, c := range []struct {
		name string
		bad  corev1.Secret
		want []string
	}{
		{"ND-65 IP-65 another type", opaque, []string{`NotPullSecret: Secret shop/s: type: Opaque; use a Secret of type kubernetes.io/dockerconfigjson`}},
		{"ND-65 no key", corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bad"}, Type: corev1.SecretTypeDockerConfigJson}, whole("there is no docker configuration")},
		{"ND-65 no JSON", secretOf("bad", `hunter2`), whole(form)},
		{"ND-65 cut JSON", secretOf("bad", `{"auths":{"gcr.io":{"password":"hunter2"`), whole(form)},
		{"ND-65 another form", secretOf("bad", `{"auths":["hunter2"]}`), whole(form)},
		{"ND-65 no entries", secretOf("bad", `{"auths":{}}`), whole("the docker configuration has no entries")},
		{"ND-65 an entry of another form", secretOf("bad", `{"auths":{"x.io":"hunter2"}}`), entry("[x.io]", "the entry is not an object of strings")},
		{"ND-65 a number", secretOf("bad", `{"auths":{"x.io":{"password":12345}}}`), entry("[x.io]", "the entry is not an object of strings")},
		{"ND-65 auth is no base64", secretOf("bad", `{"auths":{"x.io":{"auth":"hunter2!"}}}`), entry("[x.io]", `the auth field is not base64 of "user:password"`)},
		{"ND-65 auth without colon", secretOf("bad", `{"auths":{"x.io":{"auth":"`+auth("hunter2")+`"}}}`), entry("[x.io]", `the auth field is not base64 of "user:password"`)},
		{"ND-65 nothing in it", secretOf("bad", `{"auths":{"x.io":{"email":"hunter2"}}}`), entry("[x.io]", "the entry has no credential")},
		{"ND-65 a name with a password", secretOf("bad", `{"auths":{"https://me:hunter2@x.io":{}}}`), entry("[x.io]", "the entry has no credential")},
		{"ND-65 a name that is none", secretOf("bad", `{"auths":{"hunter2%zz":{"username":"u"}}}`), entry("", "the registry name is not a host with an optional port and path, entry 1 of 1 in order of name")},
		{"ND-65 a name that is no glob", secretOf("bad", `{"auths":{"a[.io":{"username":"hunter2"}}}`), entry("", "the registry name is not a host with an optional port and path, entry 1 of 1 in order of name")},
		{"ND-65 an empty name", secretOf("bad", `{"auths":{"":{"username":"hunter2"}}}`), entry("", "the registry name is not a host with an optional port and path, entry 1 of 1 in order of name")},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyring, why := pullsecret.Read([]corev1.Secret{logins("before", "gcr.io"), c.bad, logins("after", "gcr.io")})
			var got []string
			for _, r := range why {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"before@gcr.io", "after@gcr.io"}, users(keyring.For(image("gcr.io/a")))); diff != "" {
				t.Errorf("the others (-want +got):\n%s", diff)
			}
			if strings.Contains(why.String(), "hunter2") {
				t.Errorf("a value in %s", why)
			}
		})
	}
	t.Run("ND-65 the other entries of the Secret count", func(t *testing.T) {
		keyring, why := pullsecret.Read([]corev1.Secret{secretOf("bad", `{"auths":{"gcr.io":{"auth":"?"},"gcr.io/a":{"username":"u"}}}`)})
		if got := users(keyring.For(image("gcr.io/a"))); len(why) != 1 || len(got) != 1 || got[0] != "u" {
			t.Errorf("users %v, left out %v", got, why)
		}
	})
}

func TestNew(t *testing.T) {
	keyring, why := pullsecret.New(
		pullsecret.Credential{Registry: "*.io", Username: "later", Password: "p"},
		pullsecret.Credential{Registry: "hunter2%zz", Username: "hunter2", Password: "p"},
		pullsecret.Credential{Registry: "gcr.io", Username: "first", Password: "p"},
		pullsecret.Credential{Registry: "gcr.io"},
	)
	if diff := cmp.Diff([]string{"first", "later"}, users(keyring.For(image("gcr.io/a")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []string{"MalformedEntry: credentials[1].registry: the registry name is not a host with an optional port and path"}
	if diff := cmp.Diff(strings.Join(want, "\n"), why.String()); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if empty, _ := pullsecret.New(pullsecret.Credential{Registry: "gcr.io"}); !empty.IsEmpty() || keyring.IsEmpty() {
		t.Error("a credential without values makes a keyring")
	}
}

func TestJoin(t *testing.T) {
	secrets, _ := pullsecret.Read([]corev1.Secret{logins("secret", "gcr.io")})
	plugins, _ := pullsecret.New(pullsecret.Credential{Registry: "gcr.io/team", Username: "plugin", Password: "p"}, pullsecret.Credential{Registry: "index.docker.io", Username: "hub", Password: "p"})
	joined := secrets.Join(plugins, pullsecret.Keyring{})
	if diff := cmp.Diff([]string{"secret@gcr.io", "plugin"}, users(joined.For(image("gcr.io/team/app")))); diff != "" {
		t.Errorf("Secrets go before providers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hub"}, users(joined.For(image("docker.io/library/nginx")))); diff != "" {
		t.Errorf("Docker Hub (-want +got):\n%s", diff)
	}
	if got := len(secrets.For(image("gcr.io/team/app"))); got != 1 {
		t.Errorf("Join has changed its receiver: %d credentials", got)
	}
}

// TestSecrecy: the verbs of fmt and JSON show no value of a credential, a keyring or a content.
func TestSecrecy(t *testing.T) {
	secret := secretOf("s", `{"auths":{"gcr.io":{"username":"hunter1","password":"hunter2","identitytoken":"hunter3","registrytoken":"hunter4"}}}`)
	keyring, _ := pullsecret.Read([]corev1.Secret{secret})
	content, _ := pullsecret.Cut(&secret, image("gcr.io/a"))
	plan := pullsecret.Plan{Make: []pullsecret.Copy{{Content: content}}}
	values := map[string]any{"credential": keyring.For(image("gcr.io/a"))[0], "keyring": keyring, "content": content, "plan": plan, "all": keyring.For(image("gcr.io/a"))}
	for name := range maps.Keys(values) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, values[name]); strings.Contains(got, "hunter") || strings.Contains(got, fmt.Sprintf("%x", "hunter")) {
				t.Errorf("%s of %s: %s", verb, name, got)
			}
		}
		raw, err := json.Marshal(values[name])
		if err != nil || strings.Contains(string(raw), "hunter") || strings.Contains(string(raw), auth("hunter")[:4]) {
			t.Errorf("JSON of %s: %s %v", name, raw, err)
		}
	}
	if got, want := keyring.For(image("gcr.io/a"))[1].String(), "identity token for gcr.io from Secret shop/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"gcr.io", "gcr.io/a", true},
		{"gcr.io/a", "gcr.io/a/b", true},
		{"gcr.io/b", "gcr.io/a/b", false},
		{"*.*.registry.io", "a.b.registry.io/x", true},
		{"*.registry.io", "a.b.registry.io/x", false},
		{"k8s.*", "k8s.io/x", true},
		{"registry.k8s", "registry.k8s.io/x", false},
		{"registry.k8s.io", "registry.k8s/x", false},
		{"app*.k8s.io", "app1.k8s.io/x", true},
		{"registry.io:8080/path", "registry.io:8080/path/x", true},
		{"registry.io:8080/path", "registry.io/path/x", false},
		{"registry.io", "registry.io:8080/path/x", false},
		{"*:5000", "localhost:5000/x", true},
		{"a[", "a[/x", false},
		{"", "gcr.io/a", false},
		{"*", "/a", false},
		{"index.docker.io", "docker.io/library/nginx", false},
	} {
		if got := pullsecret.Match(c.pattern, image(c.image)); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.image, got)
		}
	}
}
