// Package webhookcert answers "which certificate does a webhook server show, and whom do its clients trust?".
//
// All replicas of a server share a Secret. The Secret holds a certificate authority, a serving certificate (the leaf)
// and, during a rotation, a second authority. [Config.Complete] makes a [Policy]. [Policy.Decide] takes the Secret's
// data and the time, and returns the needed change and its reason. [Decision.Issue] makes the new data. [Policy.Read]
// returns the served content. [DiffMutating], [DiffValidating] and [DiffConversion] return the needed changes of the
// objects from which API servers take their trust. Package webhookcert/rotator carries everything out in a process.
//
// The Secret has to be written by compare-and-swap on its resourceVersion. Then any replica may take any step, and no
// leader is needed.
//
// # Rotation
//
// A leaf is replaced at once, because its authority stays: a client that trusts the authority trusts the new leaf. A
// new authority takes four writes. The stages in between are:
//
//	Stable     a single authority signs and is alone in the bundle
//	Announced  the next authority is in the bundle, and the first has still signed the leaf
//	Switched   the next authority has signed the leaf, and the bundle holds both
//	Stable     the first authority is gone
//
// A stage lasts for the overlap at least. The overlap counts from a stamp in the Secret. The stamp is written when the
// stage has been read back and every object has been seen with the whole bundle, so a slow write does not shorten the
// overlap. The stamp names its authorities: if the authorities change, the wait starts again. The wait also starts
// again when an object loses its bundle, because clients may go on trusting the object's content at the time.
//
// If somebody resets an object more often than once in an overlap, the rotation waits until the resets stop, because
// each step could break a handshake. The reason is then RotationHeldUp and names the object. There is time: an
// authority is rotated long before its end.
//
// # The promise
//
// No handshake fails while each observer lags by less than the overlap and the replicas' clocks agree. Observers are
// the replicas that read the Secret and the API servers that read the objects. Nobody confirms an API server's view, so
// the lag is an assumption. Beyond the lag handshakes fail; the tests of the package show both.
//
// Writers keep their part as follows. Read the object, then read the Secret from the API server, then patch the object
// on condition of an unchanged object. So a replica with an old view takes no authority out of a bundle.
//
// # Faults in the Secret
//
// Each fault has a reason of its own and is repaired by a single write: missing keys, values outside of PEM, wrong
// names, private keys of another certificate, certificates expired or not yet valid, and authorities without acceptable
// leaves for clients (because of name constraints, usages, critical extensions or a short key).
//
// Working parts are kept. If only the leaf is bad, its authority stays. A replaced authority stays in the bundle for an
// overlap. A Secret written by OpenKruise (RSA, PKCS#1) is used unchanged. The signing authority of the leaf is alone
// in its key, so OpenKruise can read the Secret again.
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

	// settle is the time for which a clock must run on after a jump before an expiry is believed.
	settle = time.Minute
	// backdate is the time by which an authority's validity begins in the past, for API servers with slow clocks.
	backdate = time.Hour
	// heldUpAfter is how many overlaps long an object has to be reset again and again until the rotation counts as held
	// up.
	heldUpAfter = 2
	// maxOld bounds the retired authorities in a bundle, because a repeatedly broken Secret must not grow.
	maxOld = 4
)

// Policy is a completed [Config]. Make a Policy with [Config.Complete]: the zero value, and a nil pointer, refuse
// everything with InvalidConfig. A Policy never changes and is safe for concurrent use.
type Policy struct{ config Config }

// ready returns an error for a Policy not made by Complete.
func (p *Policy) ready() *reason.Reason {
	if p == nil || len(p.config.names()) == 0 {
		return &reason.Reason{Code: InvalidConfig, Detail: "the Policy was not made by Config.Complete"}
	}
	return nil
}

// Config returns the configuration with its defaults, as a copy that may be changed.
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

// names returns every name the leaf must hold for.
func (c *Config) names() []string { return slices.Concat(c.DNSNames, c.IPs) }

func (c *Config) serverName() string { return c.names()[0] }
