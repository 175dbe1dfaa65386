package pullsecret

import (
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/reason"
)

// Credential is a credential for a registry. A Credential from [Keyring.For] has either user name and password, or an
// identity token, or a registry token. Package fmt, package encoding/json and loggers do not print the secret fields.
type Credential struct {
	// Registry is the name of the registry to which the credential applies: a host with optional port and path. The
	// host may contain globs.
	Registry string
	// Source is the Secret or the provider of the credential.
	Source reason.Object

	// Username and Password are for HTTP basic authentication. Both may be empty.
	Username string `json:"-"`
	Password string `json:"-"`
	// IdentityToken is exchanged for an access token of the registry.
	IdentityToken string `json:"-"`
	// RegistryToken is a bearer token for the registry.
	RegistryToken string `json:"-"`
}

// String returns the source, the registry and the kinds of the credential, without the values.
func (c Credential) String() string {
	var kinds []string
	for _, one := range c.kinds() {
		switch {
		case one.IdentityToken != "":
			kinds = append(kinds, "identity token")
		case one.RegistryToken != "":
			kinds = append(kinds, "registry token")
		default:
			kinds = append(kinds, "password")
		}
	}
	text := strings.Join(kinds, " and ") + " for " + c.Registry
	if c.Source != (reason.Object{}) {
		text += " from " + c.Source.String()
	}
	return text
}

// Format prints String for all verbs, so that no verb prints the values.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// kinds splits a credential by kind. A user name without a password is ignored if there is a token, because docker
// stores a placeholder as user name together with an identity token.
func (c Credential) kinds() (out []Credential) {
	none := Credential{Registry: c.Registry, Source: c.Source}
	hasToken := c.IdentityToken != "" || c.RegistryToken != ""
	if c.Password != "" || c.Username != "" && !hasToken {
		one := none
		one.Username, one.Password = c.Username, c.Password
		out = append(out, one)
	}
	if c.IdentityToken != "" {
		one := none
		one.IdentityToken = c.IdentityToken
		out = append(out, one)
	}
	if c.RegistryToken != "" {
		one := none
		one.RegistryToken = c.RegistryToken
		out = append(out, one)
	}
	return out
}

// isSame reports whether two credentials have the same values, whatever their registries and sources.
func (c Credential) isSame(other Credential) bool {
	c.Registry, c.Source = other.Registry, other.Source
	return c == other
}
