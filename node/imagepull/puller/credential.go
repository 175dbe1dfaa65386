package puller

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/workloadkit/workloadkit/reason"
)

// Credential is a credential for a registry, with the fields of AuthConfig in the container runtime interface. A
// Credential prints as its Source, never as its secret values, and is empty in JSON.
type Credential struct {
	// Source says where the credential comes from, for messages: a Secret or a provider.
	Source string `json:"-"`
	// Username and Password are for basic authentication; Auth is both, as "username:password" in base64.
	Username string `json:"-"`
	Password string `json:"-"`
	Auth     string `json:"-"`
	// Server is the address of the registry.
	Server string `json:"-"`
	// IdentityToken is exchanged for a token of the registry, and RegistryToken is sent to the registry.
	IdentityToken string `json:"-"`
	RegistryToken string `json:"-"`
}

// String returns the source.
func (c Credential) String() string { return c.Source }

// GoString returns the source.
func (c Credential) GoString() string { return c.Source }

// shortest is the smallest number of bytes of a value that is removed from texts: shorter values occur by chance.
const shortest = 4

// redacted returns an error without the secret values of a credential, because registries repeat values in their
// errors. The error no longer wraps the cause, whose text may hold the values, except for the mark of reason.Final.
func (c *Credential) redacted(err error) error {
	values := []string{c.Password, c.Auth, c.IdentityToken, c.RegistryToken, base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))}
	if _, password, found := strings.Cut(decoded(c.Auth), ":"); found {
		values = append(values, password)
	}
	text := err.Error()
	for _, value := range values {
		if len(value) >= shortest {
			text = strings.ReplaceAll(text, value, "[redacted]")
		}
	}
	out := errors.New(c.Source + ": " + text)
	if reason.IsFinal(err) {
		return reason.Final(out)
	}
	return out
}

func decoded(auth string) string {
	text, err := base64.StdEncoding.DecodeString(auth)
	if err != nil {
		return ""
	}
	return string(text)
}
