package webhookcert

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Keys are the names of the entries in the Secret's data. If a field has several names, the value is read from the
// first of these entries that the Secret has, and is written to all of these entries. All names but Rotate are
// required; if Config.External is set, only CACert, Cert and Key are required.
type Keys struct {
	// CACert is the certificate authority that has signed the leaf, and CAKey its private key.
	CACert, CAKey []string
	// Cert is the leaf (the serving certificate), and Key its private key.
	Cert, Key []string
	// NextCACert and NextCAKey are the next authority. The CA bundle contains the certificate already, and the authority
	// signs leaf certificates once all clients have had the time to load the bundle.
	NextCACert, NextCAKey string
	// OldCACerts are the certificates of authorities that no longer sign leaves but are still in the CA bundle.
	OldCACerts string
	// State is the entry for the time, as JSON, from which the overlap of the present rotation stage counts.
	State string
	// Rotate is the entry by which a user requests a rotation to a new authority; any value counts. When the rotation
	// begins, the entry is removed. If the name is empty, users cannot request a rotation.
	Rotate string
}

// TLSSecretKeys returns the names that Kubernetes and cert-manager use in a Secret of type kubernetes.io/tls, and names
// for all other entries:
//
//	ca.crt, ca.key            CACert, CAKey
//	tls.crt, tls.key          Cert, Key
//	next-ca.crt, next-ca.key  NextCACert, NextCAKey
//	old-ca.crt                OldCACerts
//	rotation.json             State
//	rotate                    Rotate
//
// The names are the default of Config.Keys. The Secret may be of any type.
func TLSSecretKeys() Keys {
	return Keys{
		CACert: []string{"ca.crt"}, CAKey: []string{"ca.key"}, Cert: []string{"tls.crt"}, Key: []string{"tls.key"},
		NextCACert: "next-ca.crt", NextCAKey: "next-ca.key", OldCACerts: "old-ca.crt", State: "rotation.json", Rotate: "rotate",
	}
}

// Config says which certificates are wanted: see the package comment for leaf, authority and overlap. DNSNames or IPs
// are required; Complete sets defaults for all other fields.
type Config struct {
	// DNSNames and IPs are all names for which the leaf is valid. The first is the leaf's common name.
	DNSNames []string
	IPs      []string
	// Organization and CommonName are the subject of new authorities. CommonName defaults to "webhook-ca".
	Organization, CommonName string
	// Algorithm is the algorithm of new keys: x509.ECDSA (P-256, encoded as SEC 1), the default, or x509.RSA (2048
	// bits, encoded as PKCS#1). Existing keys of any algorithm remain in use.
	Algorithm x509.PublicKeyAlgorithm
	// LeafAlgorithm is the algorithm for keys of leaves; the default is Algorithm. An API server opens a connection for
	// each concurrent request, and each TLS handshake costs the webhook server a signature with the leaf's key: about 1
	// ms with RSA, and 0.03 ms with ECDSA.
	LeafAlgorithm x509.PublicKeyAlgorithm
	// CAValidity defaults to 10 years and LeafValidity to a year of 365 days. A leaf never expires later than its
	// authority.
	CAValidity, LeafValidity time.Duration
	// CARenewBefore is how long before its expiry an authority is rotated; the default is a tenth of CAValidity.
	// LeafRenewBefore is how long before its expiry a leaf is renewed; the default is a third of LeafValidity.
	CARenewBefore, LeafRenewBefore time.Duration
	// Overlap is the time for which each rotation stage is published at least before the next stage begins; the
	// default is 10 minutes. All replicas and API servers must see each change of the Secret and the objects within
	// the overlap.
	Overlap time.Duration
	// Keys defaults to TLSSecretKeys if Keys has no names at all.
	Keys Keys
	// External means that another writer, such as cert-manager, writes the Secret. The Secret is used unchanged, and
	// Policy.Decide never asks for a write. Of the Config, only DNSNames, IPs, Keys and Overlap are used. Overlap
	// then only limits for how long a Rotator uses an object before reading the object again.
	External bool
}

// Complete returns a Policy with the configuration and its defaults, or an error that names the invalid field and its
// value.
func (c Config) Complete() (*Policy, error) {
	c = c.clone()
	c.CommonName = orDefault(c.CommonName, "webhook-ca")
	c.Algorithm = orDefault(c.Algorithm, x509.ECDSA)
	c.LeafAlgorithm = orDefault(c.LeafAlgorithm, c.Algorithm)
	c.CAValidity = orDefault(c.CAValidity, 10*year)
	c.LeafValidity = orDefault(c.LeafValidity, year)
	c.CARenewBefore = orDefault(c.CARenewBefore, c.CAValidity/10)
	c.LeafRenewBefore = orDefault(c.LeafRenewBefore, c.LeafValidity/3)
	c.Overlap = orDefault(c.Overlap, 10*time.Minute)
	if c.Keys.isZero() {
		c.Keys = TLSSecretKeys()
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Policy{config: c}, nil
}

// check returns the first error in a configuration with defaults.
func (c *Config) check() error {
	switch {
	case len(c.DNSNames)+len(c.IPs) == 0:
		return fmt.Errorf("config: DNSNames and IPs are empty; name what the server is called by")
	case c.External:
		return c.Keys.checkExternal()
	case !isAlgorithm(c.Algorithm):
		return fmt.Errorf("config: Algorithm %q is neither %s nor %s", c.Algorithm, x509.ECDSA, x509.RSA)
	case !isAlgorithm(c.LeafAlgorithm):
		return fmt.Errorf("config: LeafAlgorithm %q is neither %s nor %s", c.LeafAlgorithm, x509.ECDSA, x509.RSA)
	case c.Overlap < time.Millisecond:
		return fmt.Errorf("config: Overlap %v is no time to notice anything in; a number without a unit counts nanoseconds", c.Overlap)
	case c.LeafRenewBefore < 0 || c.LeafRenewBefore >= c.LeafValidity:
		return fmt.Errorf("config: LeafRenewBefore %v is not between 0 and LeafValidity %v", c.LeafRenewBefore, c.LeafValidity)
	case c.CARenewBefore < 0 || c.CARenewBefore >= c.CAValidity:
		return fmt.Errorf("config: CARenewBefore %v is not between 0 and CAValidity %v", c.CARenewBefore, c.CAValidity)
	case c.CARenewBefore < 4*c.Overlap:
		return fmt.Errorf("config: CARenewBefore %v leaves no time for a rotation with Overlap %v; at least four times as much is needed",
			c.CARenewBefore, c.Overlap)
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	return c.Keys.check()
}

func isAlgorithm(a x509.PublicKeyAlgorithm) bool { return a == x509.ECDSA || a == x509.RSA }

// checkNames returns an error for names that a leaf cannot have, and for IP addresses among DNSNames.
func (c *Config) checkNames() error {
	for _, name := range c.DNSNames {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
			return fmt.Errorf("config: DNSNames: %q is no DNS name", name)
		}
		if net.ParseIP(name) != nil {
			return fmt.Errorf("config: DNSNames: %q is an IP address; clients look for it in IPs", name)
		}
	}
	for _, ip := range c.IPs {
		if net.ParseIP(ip) == nil {
			return fmt.Errorf("config: IPs: %q is not an IP address", ip)
		}
	}
	return nil
}

// clone returns a copy that shares no slice.
func (c Config) clone() Config {
	c.DNSNames, c.IPs = slices.Clone(c.DNSNames), slices.Clone(c.IPs)
	k := &c.Keys
	k.CACert, k.CAKey = slices.Clone(k.CACert), slices.Clone(k.CAKey)
	k.Cert, k.Key = slices.Clone(k.Cert), slices.Clone(k.Key)
	return c
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// namesOf holds the name of a field of Keys, and the value of the field: names of entries in the Secret.
type namesOf struct {
	field string
	names []string
}

// fields returns the fields whose names are required.
func (k *Keys) fields() []namesOf {
	return []namesOf{
		{"CACert", k.CACert},
		{"CAKey", k.CAKey},
		{"Cert", k.Cert},
		{"Key", k.Key},
		{"NextCACert", []string{k.NextCACert}},
		{"NextCAKey", []string{k.NextCAKey}},
		{"OldCACerts", []string{k.OldCACerts}},
		{"State", []string{k.State}},
	}
}

func (k *Keys) isZero() bool {
	single := k.NextCACert + k.NextCAKey + k.OldCACerts + k.State + k.Rotate
	return len(k.CACert)+len(k.CAKey)+len(k.Cert)+len(k.Key)+len(single) == 0
}

// check returns an error for a missing name, and for a name used twice.
func (k *Keys) check() error {
	seen := map[string]string{}
	for _, f := range k.fields() {
		if err := f.check(); err != nil {
			return err
		}
		for _, name := range f.names {
			if other, taken := seen[name]; taken {
				return fmt.Errorf("config: Keys.%s and Keys.%s are both %q", other, f.field, name)
			}
			seen[name] = f.field
		}
	}
	if other, taken := seen[k.Rotate]; taken {
		return fmt.Errorf("config: Keys.%s and Keys.Rotate are both %q", other, k.Rotate)
	}
	return nil
}

// checkExternal returns an error if names are missing that are read from a Secret written by somebody else.
func (k *Keys) checkExternal() error {
	for _, f := range []namesOf{{"CACert", k.CACert}, {"Cert", k.Cert}, {"Key", k.Key}} {
		if err := f.check(); err != nil {
			return err
		}
	}
	return nil
}

func (f *namesOf) check() error {
	if len(f.names) == 0 || slices.Contains(f.names, "") {
		return fmt.Errorf("config: Keys.%s has no name, or an empty one", f.field)
	}
	return nil
}
