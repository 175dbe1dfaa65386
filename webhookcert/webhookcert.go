// Package webhookcert answers "which certificate does this webhook server show, and whom do its clients trust?".
//
// All replicas of a server share one Secret. It holds a certificate authority, a serving certificate (the leaf) and, during
// a rotation, a second authority. [Config.Complete] makes a [Policy]. [Policy.Decide] takes the Secret's data and the time,
// and says what has to change and why; [Decision.Issue] makes the new data; [Policy.Read] returns what to serve.
// [DiffMutating], [DiffValidating] and [DiffConversion] say what has to change in the objects that tell API servers whom to
// trust. Package webhookcert/rotator does all of this in a process.
//
// The Secret has to be written by compare-and-swap on its resourceVersion. Then any replica may take any step, and no leader
// is needed.
//
// # Rotation
//
// A leaf is replaced at once, because its authority stays: who trusts the authority trusts the new leaf. A new authority
// takes four writes. The stages in between are:
//
//	Stable     one authority signs, and the bundle holds it alone
//	Announced  the next authority is in the bundle, and the first has still signed the leaf
//	Switched   the next authority has signed the leaf, and the bundle holds both
//	Stable     the first authority is gone
//
// A stage lasts for the overlap at least. The overlap counts from a stamp in the Secret. The stamp is written when the stage
// has been read back and every object has been seen with the whole bundle, so a slow write does not shorten the overlap. The
// stamp names the authorities that it belongs to: if these change, the wait starts again. It also starts again when an object
// loses its bundle, because clients may go on trusting what they saw then.
//
// If somebody resets an object more often than once in an overlap, the rotation waits until that stops, because each step
// could break a handshake. The reason is then RotationHeldUp and names the object. There is time: an authority is rotated
// long before its end.
//
// # The promise
//
// No handshake fails while each observer lags by less than the overlap and the replicas' clocks agree. Observers are the
// replicas that read the Secret and the API servers that read the objects. Nobody confirms what an API server has seen, so
// this lag is an assumption. Beyond it handshakes fail; the tests of this package show both.
//
// Writers keep their part as follows. Read the object, then read the Secret from the API server, then patch the object on
// the condition that it has not changed. So a replica with an old view takes no authority out of a bundle.
//
// # What is found in the Secret
//
// Each of these has a reason of its own and is repaired by one write: missing keys, values that are not PEM, other names,
// private keys that belong to another certificate, certificates that have expired or are not valid yet, and authorities that
// cannot issue what clients accept (because of name constraints, usages, critical extensions or a short key).
//
// What works is kept. If only the leaf is bad, its authority stays. An authority that is replaced stays in the bundle for an
// overlap. A Secret that OpenKruise has written (RSA, PKCS#1) is used as it is. The authority that has signed the leaf is
// alone in its key, so OpenKruise can read the Secret again.
//
// Everything here is pure and safe for concurrent use. Arguments are never modified.
package webhookcert

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/workloadkit/workloadkit/reason"
)

// Why something is written or waited for. The path of a reason is the key in the Secret, data[tls.crt], or the field of the
// object.
const (
	// CertificateMissing means that a key of the Secret, or the Secret itself, is absent or empty.
	CertificateMissing reason.Code = "CertificateMissing"
	// CertificateUnreadable means that a value is not the PEM that belongs there.
	CertificateUnreadable reason.Code = "CertificateUnreadable"
	// NotACertificateAuthority means that a certificate in the place of an authority may not sign, or that clients accept no leaf of it.
	NotACertificateAuthority reason.Code = "NotACertificateAuthority"
	// CertificateNotYetValid means that a certificate's validity begins in the future: it is new, or the clock went back.
	CertificateNotYetValid reason.Code = "CertificateNotYetValid"
	// CertificateExpired means that a certificate's validity is over, or the clock went ahead.
	CertificateExpired reason.Code = "CertificateExpired"
	// KeyMismatch means that a private key belongs to another certificate.
	KeyMismatch reason.Code = "KeyMismatch"
	// CertificateNameMismatch means that the leaf does not hold for all names that are served.
	CertificateNameMismatch reason.Code = "CertificateNameMismatch"
	// CertificateIssuerMismatch means that the leaf does not verify against the authority that is published.
	CertificateIssuerMismatch reason.Code = "CertificateIssuerMismatch"
	// CertificateRenewalDue means that a certificate is within its time of renewal.
	CertificateRenewalDue reason.Code = "CertificateRenewalDue"
	// RotationRequested means that somebody has put the request into the Secret (Keys.Rotate).
	RotationRequested reason.Code = "RotationRequested"
	// RotationStepPublished means that a step of the rotation has been seen everywhere this process looks; its overlap begins.
	RotationStepPublished reason.Code = "RotationStepPublished"
	// OverlapOver means that a step of the rotation has been published for long enough to take the next one.
	OverlapOver reason.Code = "OverlapOver"
	// CertificateCopiesDiffer means that keys of the Secret that must hold the same value do not.
	CertificateCopiesDiffer reason.Code = "CertificateCopiesDiffer"
	// AwaitingOverlap means that a step of the rotation has not been published for long enough.
	AwaitingOverlap reason.Code = "AwaitingOverlap"
	// AwaitingInjection means that not every object holds the bundle yet, so the overlap has not begun or may not end.
	AwaitingInjection reason.Code = "AwaitingInjection"
	// RotationHeldUp means that somebody resets the bundle of an object again and again, so that no overlap comes to its end.
	// The rotation waits, and goes on by itself when that stops.
	RotationHeldUp reason.Code = "RotationHeldUp"
	// ClockJumped means that the clock has moved in a way that time does not. Nothing that a clock alone says is acted upon
	// until it has settled.
	ClockJumped reason.Code = "ClockJumped"
)

const (
	day  = 24 * time.Hour
	year = 365 * day

	// settle is how long a clock that has jumped must run on before an expiry is believed.
	settle = time.Minute
	// backdate is how far in the past an authority's validity begins, for API servers whose clocks are behind.
	backdate = time.Hour
	// heldUpAfter is how many overlaps long an object has to be reset again and again until the rotation counts as held up.
	heldUpAfter = 2
	// maxOld bounds the retired authorities in a bundle, because a Secret that is broken again and again must not grow.
	maxOld = 4
)

// Algorithm is the kind of a new private key. Keys that are found are used whatever their kind.
type Algorithm string

const (
	// ECDSA is P-256, encoded as SEC 1.
	ECDSA Algorithm = "ECDSA"
	// RSA has 2048 bits and is encoded as PKCS#1, which is what OpenKruise reads.
	RSA Algorithm = "RSA"
)

// Keys names the entries in the Secret's data. Where several names are given the first that is present is read and all are
// written. CACert, Cert and Key are mandatory; NextCACert, NextCAKey, OldCACerts, State and CAKey are as well, except where
// the Secret is somebody else's (see ReadExternal).
type Keys struct {
	// CACert holds the one authority that has signed the leaf, CAKey its private key.
	CACert, CAKey []string
	// Cert holds the leaf, Key its private key.
	Cert, Key []string
	// NextCACert and NextCAKey hold the authority that will sign after the overlap.
	NextCACert, NextCAKey string
	// OldCACerts holds the authorities that no longer sign and are still trusted.
	OldCACerts string
	// State holds the time from which the present step's overlap counts, as JSON.
	State string
	// Rotate asks for a new authority when it is present with any value, and is removed when the rotation begins. Empty
	// turns the request off.
	Rotate string
}

// Config says what certificates have to be like. DNSNames or IPs, and Keys, are required; see Complete for the rest.
type Config struct {
	// DNSNames and IPs are all that the leaf must hold for. The first is the leaf's common name.
	DNSNames []string
	IPs      []string
	// Organization and CommonName are the subject of new authorities. CommonName defaults to "webhook-ca".
	Organization, CommonName string
	// Algorithm of new keys defaults to ECDSA.
	Algorithm Algorithm
	// CAValidity defaults to 10 years and LeafValidity to one. A leaf never outlives its authority.
	CAValidity, LeafValidity time.Duration
	// CARenewBefore is how long before its end an authority is rotated; the default is a tenth of CAValidity.
	// LeafRenewBefore defaults to a third of LeafValidity.
	CARenewBefore, LeafRenewBefore time.Duration
	// Overlap is how long a step of the rotation is published before the next is taken; the default is 10 minutes. Every
	// observer must be quicker.
	Overlap time.Duration

	Keys Keys
}

// Complete returns the configuration with its defaults, or an error that names the field and the value.
func (c Config) Complete() (Config, error) {
	c.CommonName = orDefault(c.CommonName, "webhook-ca")
	c.Algorithm = orDefault(c.Algorithm, ECDSA)
	c.CAValidity = orDefault(c.CAValidity, 10*year)
	c.LeafValidity = orDefault(c.LeafValidity, year)
	c.CARenewBefore = orDefault(c.CARenewBefore, c.CAValidity/10)
	c.LeafRenewBefore = orDefault(c.LeafRenewBefore, c.LeafValidity/3)
	c.Overlap = orDefault(c.Overlap, 10*time.Minute)
	switch {
	case len(c.DNSNames)+len(c.IPs) == 0:
		return c, fmt.Errorf("config: DNSNames and IPs are empty; name what the server is called by")
	case c.Algorithm != ECDSA && c.Algorithm != RSA:
		return c, fmt.Errorf("config: Algorithm %q is neither %s nor %s", c.Algorithm, ECDSA, RSA)
	case c.Overlap < time.Millisecond:
		return c, fmt.Errorf("config: Overlap %v is no time to notice anything in; a number without a unit counts nanoseconds", c.Overlap)
	case c.LeafRenewBefore < 0 || c.LeafRenewBefore >= c.LeafValidity:
		return c, fmt.Errorf("config: LeafRenewBefore %v is not between 0 and LeafValidity %v", c.LeafRenewBefore, c.LeafValidity)
	case c.CARenewBefore < 0 || c.CARenewBefore >= c.CAValidity:
		return c, fmt.Errorf("config: CARenewBefore %v is not between 0 and CAValidity %v", c.CARenewBefore, c.CAValidity)
	case c.CARenewBefore < 4*c.Overlap:
		return c, fmt.Errorf("config: CARenewBefore %v leaves no time for a rotation with Overlap %v; at least four times as much is needed",
			c.CARenewBefore, c.Overlap)
	}
	for _, name := range c.DNSNames {
		// A leaf would never hold for it, or could not be made.
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
			return c, fmt.Errorf("config: DNSNames: %q is no DNS name", name)
		}
		if net.ParseIP(name) != nil {
			return c, fmt.Errorf("config: DNSNames: %q is an IP address; clients look for it in IPs", name)
		}
	}
	for _, ip := range c.IPs {
		if net.ParseIP(ip) == nil {
			return c, fmt.Errorf("config: IPs: %q is not an IP address", ip)
		}
	}
	return c, c.Keys.check()
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// check finds names that are absent or used twice.
func (k Keys) check() error {
	seen := map[string]string{}
	for _, f := range []struct {
		field string
		names []string
	}{
		{"CACert", k.CACert},
		{"CAKey", k.CAKey},
		{"Cert", k.Cert},
		{"Key", k.Key},
		{"NextCACert", []string{k.NextCACert}},
		{"NextCAKey", []string{k.NextCAKey}},
		{"OldCACerts", []string{k.OldCACerts}},
		{"State", []string{k.State}},
	} {
		if len(f.names) == 0 || slices.Contains(f.names, "") {
			return fmt.Errorf("config: Keys.%s has no name, or an empty one", f.field)
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

// names returns every name the leaf must hold for.
func (c *Config) names() []string { return slices.Concat(c.DNSNames, c.IPs) }

// ServerName returns the name that a client in the same process verifies the leaf for: the first DNS name, or the first IP.
func (c *Config) ServerName() string { return c.names()[0] }
