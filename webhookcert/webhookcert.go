// Package webhookcert answers "which certificate does a webhook server show, and whom do its clients trust?".
//
// All replicas of a server share a Secret. The Secret holds a certificate authority, a serving certificate (the leaf)
// and, during a rotation, a second authority. [Config.Complete] makes a [Policy]. [Policy.Decide] takes the Secret's
// data and the time, and says what must change and why. [Decision.Issue] returns the new data. [Policy.Read] returns
// the certificate and the CA bundle to serve. [DiffMutating], [DiffValidating] and [DiffConversion] return what must
// change in the objects from which API servers read the CA bundle. Package webhookcert/rotator does all of this in a
// running process.
//
// The Secret has to be written by compare-and-swap on its resourceVersion. Then any replica may carry out any stage,
// and no leader is needed.
//
// # Rotation
//
// A leaf can be replaced at once, because its authority stays the same: a client that trusts the authority also
// trusts the new leaf. The replacement of the authority takes four writes. The stages are:
//
//	Stable     a single authority signs and is alone in the bundle
//	Announced  the next authority is in the bundle; the leaf is signed by the first authority
//	Switched   the next authority has signed the leaf; the bundle has both authorities
//	Stable     the first authority is gone
//
// Each stage lasts at least for a configured time, the overlap. The overlap counts from a time in the Secret, the
// stamp. The stamp is written when the stage has been read back from the API server and every object was observed
// with the whole bundle, so a slow write does not shorten the overlap. The stamp names the authorities for which it
// was written: if the authorities change, the wait starts again. The wait also starts again when an object loses its
// CA bundle, because API servers may use the bundle that the object has at this time.
//
// If somebody overwrites an object more often than once in an overlap, the rotation waits until this stops. Otherwise
// the next stage could break TLS handshakes of API servers that use the overwritten bundle. The reason is then
// RotationHeldUp and names the object. There is enough time to wait: an authority is rotated long before its expiry.
//
// # The guarantee
//
// No TLS handshake fails because of a rotation, as long as the replicas' clocks agree and every observer sees each
// change within the overlap. Observers are the replicas, which read the Secret, and the API servers, which read the
// objects. API servers do not report which version of an object they use, so the package assumes that the overlap is
// long enough. If the delay is longer, handshakes fail; the tests of the package show both cases.
//
// Every writer must first read the object, then read the Secret from the API server, and then patch the object on
// condition that the object has not changed. With this order, a replica whose cached Secret is stale never removes an
// authority from a bundle.
//
// # Faults in the Secret
//
// Each fault has its own reason and is repaired by a single write: missing entries, values that are not PEM, wrong
// names, private keys of another certificate, certificates expired or not yet valid, and authorities whose leaves
// clients do not accept (because of name constraints, usages, critical extensions or a short key).
//
// Parts of the Secret that can be used are kept. If only the leaf cannot be used, its authority is kept. An authority
// that was replaced stays in the bundle for an overlap. A Secret written by OpenKruise (RSA, PKCS#1) is used
// unchanged. The entry of the signing authority contains no other certificate, so OpenKruise can use the Secret again
// if an administrator switches back to OpenKruise.
//
// All functions are pure and safe for concurrent use, and never modify arguments.
package webhookcert

import (
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	day  = 24 * time.Hour
	year = 365 * day

	// settle is how long a clock must run normally after a jump before a certificate counts as expired.
	settle = time.Minute
	// backdate is how far in the past an authority's validity begins, for API servers whose clocks are behind.
	backdate = time.Hour
	// heldUpAfter is the number of overlaps after which an object that is overwritten again and again causes the reason
	// RotationHeldUp.
	heldUpAfter = 2
	// maxOld limits the number of old authorities in a bundle, so that the Secret does not grow if it is damaged again
	// and again.
	maxOld = 4
)

// Policy is a completed [Config]. Make a Policy with [Config.Complete]: for the zero value and for a nil pointer, every
// method returns InvalidConfig. A Policy never changes and is safe for concurrent use.
type Policy struct{ config Config }

// ready returns an error for a Policy not made by Complete.
func (p *Policy) ready() *reason.Reason {
	if p == nil || len(p.config.names()) == 0 {
		return &reason.Reason{Code: InvalidConfig, Detail: "the Policy was not made by Config.Complete"}
	}
	return nil
}

// Config returns a copy of the configuration with its defaults.
func (p *Policy) Config() Config {
	if p == nil {
		return Config{}
	}
	return p.config.clone()
}

// ServerName returns the name for which a client in the same process verifies the leaf: the first DNS name, or the
// first IP address. ServerName is empty for a Policy not made by Complete.
func (p *Policy) ServerName() string {
	if p.ready() != nil {
		return ""
	}
	return p.config.serverName()
}

// names returns every name for which the leaf must be valid.
func (c *Config) names() []string { return slices.Concat(c.DNSNames, c.IPs) }

func (c *Config) serverName() string { return c.names()[0] }
