package execprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/workloadkit/workloadkit/reason"
)

// InvalidConfig means that a configuration of credential providers is not valid.
const InvalidConfig reason.Code = "InvalidConfig"

// Config is a CredentialProviderConfig of kubelet.config.k8s.io.
type Config struct {
	metav1.TypeMeta `json:",inline"`

	// Providers are the providers, in the order in which to try credentials for equal registry names.
	Providers []Provider `json:"providers"`
}

// Provider is the configuration of a provider.
type Provider struct {
	// Name is the name of the program in the directory.
	Name string `json:"name"`
	// MatchImages are patterns of images: a host that may contain globs, an optional port, and the beginning of a path.
	MatchImages []string `json:"matchImages"`
	// DefaultCacheDuration is how long to cache a response without a duration; zero means no caching. Required.
	DefaultCacheDuration *metav1.Duration `json:"defaultCacheDuration"`
	// APIVersion is the version of the protocol, such as credentialprovider.kubelet.k8s.io/v1.
	APIVersion string `json:"apiVersion"`
	// Args are the program's arguments.
	Args []string `json:"args,omitempty"`
	// Env are variables of the program's environment, and take precedence over Options.Environment.
	Env []Variable `json:"env,omitempty"`
	// TokenAttributes are set if the provider uses tokens of service accounts; nil if not.
	TokenAttributes *TokenAttributes `json:"tokenAttributes,omitempty"`
}

// Variable is a variable of an environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (v Variable) isValid() bool {
	return v.Name != "" && !strings.ContainsAny(v.Name, "=\x00") && !strings.Contains(v.Value, "\x00")
}

// TokenAttributes say how a provider uses tokens of service accounts. A node agent has no tokens, so only
// RequireServiceAccount has an effect.
type TokenAttributes struct {
	ServiceAccountTokenAudience          string   `json:"serviceAccountTokenAudience"`
	CacheType                            string   `json:"cacheType"`
	RequireServiceAccount                *bool    `json:"requireServiceAccount"`
	RequiredServiceAccountAnnotationKeys []string `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalServiceAccountAnnotationKeys []string `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// Parse parses and checks a configuration in YAML or JSON. As in the kubelet, unknown fields are refused. The error has
// a reason for each problem.
func Parse(data []byte) (Config, error) {
	raw, err := yaml.ToJSON(data)
	if err != nil {
		return Config{}, reason.Reason{Code: InvalidConfig, Detail: neither}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var c Config
	if err := decoder.Decode(&c); err != nil {
		return Config{}, reason.Reason{Code: InvalidConfig, Detail: describe(err)}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Config{}, reason.Reason{Code: InvalidConfig, Detail: "there is text after the configuration"}
	}
	if err := c.problems().Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

const neither = "the configuration is neither YAML nor JSON"

// describe returns the problem without values from the configuration, because env may contain secrets.
func describe(err error) string {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
		return neither
	}
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		return fmt.Sprintf("%s must not be %s", mismatch.Field, mismatch.Value)
	}
	if text := err.Error(); strings.HasPrefix(text, "json: unknown field ") {
		return reason.Shorten(strings.TrimPrefix(text, "json: "), 128)
	}
	return "a field has an invalid value"
}

// protocols returns the versions of the protocol. The fields used by a node agent are the same in all versions.
func protocols() []string {
	const group = "credentialprovider.kubelet.k8s.io/"
	return []string{group + "v1", group + "v1beta1", group + "v1alpha1"}
}

func (c *Config) problems() (why reason.List) {
	add := func(path, value, detail string) {
		found := reason.Shorten(value, 128)
		why = append(why, reason.Reason{Code: InvalidConfig, Path: path, New: found, Detail: detail})
	}
	if group, _, _ := strings.Cut(c.APIVersion, "/"); group != "kubelet.config.k8s.io" {
		add("apiVersion", c.APIVersion, "the apiVersion must be kubelet.config.k8s.io/v1")
	}
	if c.Kind != "CredentialProviderConfig" {
		add("kind", c.Kind, "the kind must be CredentialProviderConfig")
	}
	if len(c.Providers) == 0 {
		add("providers", "", "at least one provider is required")
	}
	seen := map[string]bool{}
	for i := range c.Providers {
		p := &c.Providers[i]
		at := fmt.Sprintf("providers[%d].", i)
		if seen[p.Name] {
			add(at+"name", p.Name, "the name is used twice")
		}
		seen[p.Name] = true
		p.check(func(field, value, detail string) { add(at+field, value, detail) })
	}
	return why
}

// check checks the fields of a provider, as validateCredentialProviderConfig does in the kubelet.
func (p *Provider) check(add func(field, value, detail string)) {
	if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\ \x00") {
		add("name", p.Name, "the name must be the name of a file, without separators and spaces")
	}
	if !slices.Contains(protocols(), p.APIVersion) {
		add("apiVersion", p.APIVersion, "the apiVersion must be "+protocols()[0])
	}
	if len(p.MatchImages) == 0 {
		add("matchImages", "", "at least one pattern is required")
	}
	for _, pattern := range p.MatchImages {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "://") {
			add("matchImages", pattern, "the pattern must be a host with globs, an optional port and an optional path")
		}
	}
	switch d := p.DefaultCacheDuration; {
	case d == nil:
		add("defaultCacheDuration", "", "a duration is required; zero means no cache")
	case d.Duration < 0:
		add("defaultCacheDuration", d.Duration.String(), "the duration must not be negative")
	}
	for i, v := range p.Env {
		if !v.isValid() {
			add(fmt.Sprintf("env[%d]", i), "", "the variable is not valid in an environment")
		}
	}
	if t := p.TokenAttributes; t != nil {
		t.check(add)
	}
}

func (t *TokenAttributes) check(add func(field, value, detail string)) {
	if t.ServiceAccountTokenAudience == "" {
		add("tokenAttributes.serviceAccountTokenAudience", "", "an audience is required")
	}
	if t.CacheType != "ServiceAccount" && t.CacheType != "Token" {
		add("tokenAttributes.cacheType", t.CacheType, "the type must be ServiceAccount or Token")
	}
	if t.RequireServiceAccount == nil {
		add("tokenAttributes.requireServiceAccount", "", "a value is required")
	} else if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		add("tokenAttributes.requireServiceAccount", "false", "required annotations need a service account")
	}
}

// requiresServiceAccount reports whether the provider gives credentials only for Pods with a service account.
func (p *Provider) requiresServiceAccount() bool {
	t := p.TokenAttributes
	return t != nil && t.RequireServiceAccount != nil && *t.RequireServiceAccount
}

func (p *Provider) defaultCache() time.Duration {
	if p.DefaultCacheDuration == nil {
		return 0
	}
	return p.DefaultCacheDuration.Duration
}

// largestConfig is the largest size of a configuration file in bytes, as large as a ConfigMap.
const largestConfig = 1 << 20

// Load reads a configuration file, and returns its providers. If the file does not exist, there are no providers and no
// error. directory is the absolute path of the directory with the programs.
func Load(file, directory string, options Options) (*Providers, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return New(Config{}, directory, options)
	case err != nil:
		return nil, fmt.Errorf("credential providers: %w", err)
	case info.Size() > largestConfig:
		detail := fmt.Sprintf("the file has %d bytes, at most %d are read", info.Size(), largestConfig)
		return nil, reason.Reason{Code: InvalidConfig, Path: file, Detail: detail}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	config, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("credential providers of %s: %w", file, err)
	}
	return New(config, directory, options)
}
