package execprovider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/node/pullsecret/execprovider"
)

// ecr is the example configuration from the Kubernetes announcement of kubelet credential providers.
const ecr = `
kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- name: ecr-credential-provider
  matchImages:
  - "*.dkr.ecr.*.amazonaws.com"
  - "*.dkr.ecr.*.amazonaws.com.cn"
  defaultCacheDuration: "12h"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials]
  env:
  - name: AWS_PROFILE
    value: puller
`

func TestParse(t *testing.T) {
	got, err := execprovider.Parse([]byte(ecr))
	want := execprovider.Config{
		TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderConfig", APIVersion: "kubelet.config.k8s.io/v1"},
		Providers: []execprovider.Provider{{
			Name: "ecr-credential-provider", MatchImages: []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"},
			DefaultCacheDuration: &metav1.Duration{Duration: 12 * time.Hour}, APIVersion: "credentialprovider.kubelet.k8s.io/v1",
			Args: []string{"get-credentials"}, Env: []execprovider.Variable{{Name: "AWS_PROFILE", Value: "puller"}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("D-9: %v (-want +got):\n%s", err, diff)
	}
}

// TestParseRefuses checks the rules of the kubelet's function validateCredentialProviderConfig
// (pkg/credentialprovider/plugin/config.go).
func TestParseRefuses(t *testing.T) {
	token := "  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: false}\n"
	for _, c := range []struct{ name, old, new, want string }{
		{"no YAML", ecr, "\t{", "InvalidConfig: the configuration is neither YAML nor JSON"},
		{"two", ecr, `{} {}`, "InvalidConfig: there is text after the configuration"},
		{"no JSON", ecr, "a: [", "InvalidConfig: the configuration is neither YAML nor JSON"},
		{"nothing", ecr, "", `InvalidConfig: apiVersion: the apiVersion must be kubelet.config.k8s.io/v1; InvalidConfig: kind: the kind must be CredentialProviderConfig; InvalidConfig: providers: at least one provider is required`},
		{"a list", ecr, "[]", "InvalidConfig:  must not be array"},
		{"another kind", "kind: CredentialProviderConfig", "kind: KubeletConfiguration", "InvalidConfig: kind: KubeletConfiguration: the kind must be CredentialProviderConfig"},
		{"another group", "apiVersion: kubelet.config", "apiVersion: other.config", "InvalidConfig: apiVersion: other.config.k8s.io/v1: the apiVersion must be kubelet.config.k8s.io/v1"},
		{"an unknown field", "  args:", "  arg:", `InvalidConfig: unknown field "arg"`},
		{"a wrong type, without its value", "[get-credentials]", "hunter2", "InvalidConfig: providers.args must not be string"},
		{"a duration that is none", `"12h"`, "hunter2", "InvalidConfig: a field has an invalid value"},
		{"no duration", `  defaultCacheDuration: "12h"`, "", "InvalidConfig: providers[0].defaultCacheDuration: a duration is required; zero means no cache"},
		{"a negative duration", `"12h"`, "-1s", "InvalidConfig: providers[0].defaultCacheDuration: -1s: the duration must not be negative"},
		{"4.7 a separator in the name", "name: ecr-", "name: ../ecr-", "InvalidConfig: providers[0].name: ../ecr-credential-provider: the name must be the name of a file, without separators and spaces"},
		{"4.7 a space in the name", "name: ecr-", "name: a ecr-", "InvalidConfig: providers[0].name: a ecr-credential-provider: the name must be the name of a file, without separators and spaces"},
		{"4.7 the directory above", "ecr-credential-provider", "..", "InvalidConfig: providers[0].name: ..: the name must be the name of a file, without separators and spaces"},
		{"4.7 no name", "ecr-credential-provider", "''", "InvalidConfig: providers[0].name: the name must be the name of a file, without separators and spaces"},
		{"no patterns", "  matchImages:\n  - \"*.dkr.ecr.*.amazonaws.com\"\n  - \"*.dkr.ecr.*.amazonaws.com.cn\"\n", "", "InvalidConfig: providers[0].matchImages: at least one pattern is required"},
		{"no pattern", `"*.dkr.ecr.*.amazonaws.com.cn"`, `"a["`, "InvalidConfig: providers[0].matchImages: a[: the pattern must be a host with globs, an optional port and an optional path"},
		{"a scheme", `"*.dkr.ecr.*.amazonaws.com.cn"`, `https://gcr.io`, "InvalidConfig: providers[0].matchImages: https://gcr.io: the pattern must be a host with globs, an optional port and an optional path"},
		{"another protocol", "kubelet.k8s.io/v1\n  args", "kubelet.k8s.io/v2\n  args", "InvalidConfig: providers[0].apiVersion: credentialprovider.kubelet.k8s.io/v2: the apiVersion must be credentialprovider.kubelet.k8s.io/v1"},
		{"a variable that is none", "name: AWS_PROFILE", "name: A=B", "InvalidConfig: providers[0].env[0]: the variable is not valid in an environment"},
		{"a name twice", "providers:\n", "providers:\n- {name: ecr-credential-provider, matchImages: [a], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", "InvalidConfig: providers[1].name: ecr-credential-provider: the name is used twice"},
		{"no audience", "  args", strings.Replace(token, "serviceAccountTokenAudience: a, ", "", 1) + "  args", "InvalidConfig: providers[0].tokenAttributes.serviceAccountTokenAudience: an audience is required"},
		{"another cache type", "  args", strings.Replace(token, "Token,", "Pod,", 1) + "  args", "InvalidConfig: providers[0].tokenAttributes.cacheType: Pod: the type must be ServiceAccount or Token"},
		{"not said whether required", "  args", strings.Replace(token, ", requireServiceAccount: false", "", 1) + "  args", "InvalidConfig: providers[0].tokenAttributes.requireServiceAccount: a value is required"},
		{"annotations of no account", "  args", strings.Replace(token, "}", ", requiredServiceAccountAnnotationKeys: [a]}", 1) + "  args", "InvalidConfig: providers[0].tokenAttributes.requireServiceAccount: false: required annotations need a service account"},
		{"fine", "  args", token + "  args", ""},
		{"fine, of an older kubelet", "k8s.io/v1\nproviders", "k8s.io/v1beta1\nproviders", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(ecr, c.old) {
				t.Fatalf("%q is not in the configuration", c.old)
			}
			_, err := execprovider.Parse([]byte(strings.Replace(ecr, c.old, c.new, 1)))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(ecr))
	f.Add([]byte(`{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[{"name":"a","env":[{"name":"","value":""}]},{}]}`))
	f.Add([]byte("providers: [{tokenAttributes: {}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := execprovider.Parse(data)
		if err != nil {
			return
		}
		for _, p := range config.Providers {
			if p.Name != filepath.Base(p.Name) || strings.Trim(p.Name, ".") == "" && len(p.Name) < 3 || p.DefaultCacheDuration == nil {
				t.Errorf("provider %+v", p)
			}
		}
		if _, err := execprovider.New(config, "/plugins", execprovider.Options{}); err != nil {
			t.Errorf("New refuses a parsed configuration: %v", err)
		}
	})
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, file, directory, want string }{
		{"D-12 no file is no provider", filepath.Join(dir, "none"), "/kruise/plugins", ""},
		{"D-12 a file", write("good.yaml", ecr), "/kruise/plugins", ""},
		{"4.7 a relative directory", write("good.yaml", ecr), "plugins", "InvalidConfig: plugins: the directory of the programs must be an absolute path"},
		{"malformed", write("bad.yaml", "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1"), "/kruise/plugins", "credential providers of " + dir + "/bad.yaml: InvalidConfig: providers: at least one provider is required"},
		{"too large", write("large.yaml", strings.Repeat("#", 1<<20+1)), "/kruise/plugins", "InvalidConfig: " + dir + "/large.yaml: the file has 1048577 bytes, at most 1048576 are read"},
		{"a directory", dir, "/kruise/plugins", "credential providers: read " + dir + ": is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := execprovider.Load(c.file, c.directory, execprovider.Options{})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			keyring, why := p.For(t.Context(), image("gcr.io/a"))
			if !keyring.IsEmpty() || len(why) > 0 {
				t.Errorf("%v, %v", keyring, why)
			}
		})
	}
}
