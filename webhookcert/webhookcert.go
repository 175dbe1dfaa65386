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
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
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

// Policy is a [Config] that has been completed. Make one with [Config.Complete]: the zero value, and a nil pointer, refuse
// everything with InvalidConfig. A Policy never changes and is safe for concurrent use.
type Policy struct{ config Config }

// ready returns an error for a Policy that Complete has not made.
func (p *Policy) ready() *reason.Reason {
	if p == nil || len(p.config.names()) == 0 {
		return &reason.Reason{Code: InvalidConfig, Detail: "the Policy was not made by Config.Complete"}
	}
	return nil
}

// Config returns the configuration with its defaults. It is a copy and may be changed.
func (p *Policy) Config() Config {
	if p == nil {
		return Config{}
	}
	return p.config.clone()
}

// ServerName returns the name that a client in the same process verifies the leaf for: the first DNS name, or the first IP
// address. It is empty for a Policy that Complete has not made.
func (p *Policy) ServerName() string {
	if p.ready() != nil {
		return ""
	}
	return p.config.serverName()
}

// names returns every name the leaf must hold for.
func (c *Config) names() []string { return slices.Concat(c.DNSNames, c.IPs) }

func (c *Config) serverName() string { return c.names()[0] }
