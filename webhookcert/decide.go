package webhookcert

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// These are the stages of a rotation, as shown in Decision and Material.
const (
	// stable means that there is a single authority and no rotation is in progress.
	stable = "Stable"
	// announced means that the next authority is in the CA bundle but does not sign leaves yet.
	announced = "Announced"
	// switched means that the new authority has signed the leaf and the old authority is still in the CA bundle.
	switched = "Switched"
	// broken means that the Secret's content cannot be used to serve.
	broken = "Broken"
)

// Observation has the facts that the caller has observed in addition to the Secret. The zero value means that the
// caller has not observed anything yet: a rotation then waits.
type Observation struct {
	// Injected means that every object that should hold the CA bundle (a webhook configuration or a
	// CustomResourceDefinition) was observed with exactly the bundle in the Secret. Injected is also true if no
	// objects should hold the bundle.
	Injected bool
	// Disturbed is when an object was last observed without the bundle. API servers may still use the object's
	// content at that time, so an overlap begins at Disturbed or later. Zero means never.
	Disturbed time.Time
	// DisturbedSince is the time of the first of several observations of an object without the bundle, each less than
	// an overlap after the previous observation. DisturbedBy is the object last observed without the bundle. Both are
	// used only in the reason RotationHeldUp, and may be empty.
	DisturbedSince time.Time
	DisturbedBy    reason.Object
	// ClockJumped is the time of the last jump of the clock that was noticed: the clock went back, or ahead by more
	// than the time that passed. Zero means never.
	ClockJumped time.Time
}

// Decision says whether and how to change a Secret. Policy.Decide makes a Decision. The zero value changes nothing.
type Decision struct {
	// Stage is the rotation's stage before any write: "Stable", "Announced" or "Switched", see the package comment, or
	// "Broken" if the Secret's content cannot be used to serve.
	Stage string
	// Write says that the result of Issue must be written to the Secret.
	Write bool
	// Reason says why the Secret must be written, or why a rotation waits. Reason is zero if there is nothing to do or
	// to wait for.
	Reason reason.Reason
	// Again is the time at which Decide must be called again, if no event occurs before. Zero means that only an
	// event can change the decision.
	Again time.Time

	plan plan
}

// plan says how to make each part of the Secret's next data.
type plan struct {
	config  *Config
	found   *found
	data    map[string][]byte
	now     time.Time
	ca      origin
	next    origin
	newLeaf bool
	old     []*x509.Certificate
	stamp   bool
	asked   bool // the rotation begins that a user has requested in the Secret
}

type origin int

const (
	keep    origin = iota // keeps the part unchanged
	create                // creates a new part
	promote               // uses the next authority as the signing authority
	drop                  // leaves the part out
)

// Decide decides whether and why the Secret's data must change at the time now. The same arguments always give the
// same decision. A nil map means that the Secret does not exist. If Config.External is set, the decision never asks
// for a write.
//
// Decide applies these rules in order: parts that cannot be used are replaced at once, a leaf near its expiry is
// renewed, a rotation in progress continues after its overlap, and an authority near its expiry is rotated. The
// decision has only the reason of the first rule that applies.
func (p *Policy) Decide(data map[string][]byte, seen Observation, now time.Time) Decision {
	if refused := p.ready(); refused != nil {
		return Decision{Stage: broken, Reason: *refused}
	}
	c := &p.config
	if c.External {
		return Decision{Stage: stable}
	}
	f := look(c, data, now)
	d := Decision{Stage: f.stage(), plan: plan{config: c, found: f, data: data, now: now, old: f.old}}
	for _, rule := range []func(*Config, Observation) bool{
		d.replaceAuthority, d.replaceLeaf, d.replaceNext, d.renewLeaf, d.mend, d.goOn, d.begin,
	} {
		if rule(c, seen) {
			return d
		}
	}
	d.Again = earliest(c.leafDue(f), c.authorityDue(f))
	return d
}

// replaceAuthority plans a new authority if no client can verify the leaf, and reports whether the rule applies. Old
// authorities stay in the bundle: clients may still trust certificates of these authorities. An authority that seems
// to have expired stays in the bundle, too: the local clock may be wrong, and another replica may still sign with
// this authority.
func (d *Decision) replaceAuthority(_ *Config, seen Observation) bool {
	f := d.plan.found
	fault := f.ca.certErr
	if fault == nil {
		return false
	}
	if d.doubt(fault, seen) {
		return true
	}
	d.takeOver()
	return d.write(*fault)
}

// replaceLeaf plans a new leaf if the leaf cannot be used to serve. If the authority's key is lost too, the authority
// must be replaced at once.
func (d *Decision) replaceLeaf(_ *Config, seen Observation) bool {
	f := d.plan.found
	fault := f.leaf.fault()
	if fault == nil {
		return false
	}
	if d.doubt(fault, seen) {
		return true
	}
	if f.ca.keyErr != nil {
		d.takeOver()
	}
	d.plan.newLeaf = true
	return d.write(*fault)
}

// takeOver plans a new signing authority without an overlap: the announced authority, which some clients trust already,
// or else a new authority.
func (d *Decision) takeOver() {
	f := d.plan.found
	d.plan.ca, d.plan.newLeaf = create, true
	if f.hasNext && f.next.fault() == nil {
		d.plan.ca, d.plan.next = promote, drop
	}
	if f.ca.cert != nil && f.ca.cert.IsCA {
		d.plan.old = distinct(append([]*x509.Certificate{f.ca.cert}, f.old...))
	}
	if f.hasNext && f.next.fault() != nil {
		d.plan.next = drop
	}
}

// replaceNext plans another announced authority if the announced authority cannot be used. This authority has signed
// no leaf, so no TLS handshake depends on the authority.
func (d *Decision) replaceNext(*Config, Observation) bool {
	f := d.plan.found
	if !f.hasNext || f.next.fault() == nil {
		return false
	}
	d.plan.next = create
	return d.write(*f.next.fault())
}

// renewLeaf plans a new leaf if the leaf expires soon. A renewal needs no overlap, because the authority stays the
// same.
func (d *Decision) renewLeaf(c *Config, _ Observation) bool {
	f := d.plan.found
	due := c.leafDue(f)
	if f.ca.keyErr != nil || due.IsZero() || d.plan.now.Before(due) {
		return false
	}
	d.plan.newLeaf = true
	return d.write(reason.Reason{
		Code: CertificateRenewalDue, Path: dataPath(c.Keys.Cert[0]), Old: "valid until " + timeText(f.leaf.cert.NotAfter),
	})
}

func (d *Decision) mend(*Config, Observation) bool {
	return d.plan.found.unequal != nil && d.write(*d.plan.found.unequal)
}

// goOn begins the next stage of a rotation when the overlap of the present stage is over.
func (d *Decision) goOn(c *Config, seen Observation) bool {
	f, now := d.plan.found, d.plan.now
	path := dataPath(c.Keys.NextCACert)
	if len(f.old) > 0 {
		path = dataPath(c.Keys.OldCACerts)
	} else if !f.hasNext {
		return false
	}
	from := latest(f.stamp, seen.Disturbed, seen.ClockJumped)
	switch {
	case !seen.Injected:
		d.Reason = seen.heldUp(c, reason.Reason{Code: AwaitingInjection, Object: seen.DisturbedBy, Path: path})
	case f.stamp.IsZero():
		d.plan.stamp = true
		return d.write(reason.Reason{Code: RotationStepPublished, Path: path})
	case f.stamp.After(now.Add(c.Overlap)):
		d.plan.stamp = true // the clock was ahead when the stamp was written: the wait could take years
		return d.write(reason.Reason{Code: ClockJumped, Path: dataPath(c.Keys.State), New: timeText(f.stamp)})
	case now.Before(from.Add(c.Overlap)):
		d.Again = from.Add(c.Overlap)
		d.Reason = reason.Reason{Code: AwaitingOverlap, Path: path, New: "until " + timeText(d.Again)}
		if from.Equal(seen.Disturbed) {
			d.Reason.Object = seen.DisturbedBy
			d.Reason = seen.heldUp(c, d.Reason)
		}
	case len(f.old) > 0:
		d.plan.old = nil
		return d.write(reason.Reason{Code: OverlapOver, Path: path, Old: subject(f.old[0])})
	default:
		d.plan.ca, d.plan.next, d.plan.newLeaf = promote, drop, true
		d.plan.old = []*x509.Certificate{f.ca.cert}
		return d.write(reason.Reason{
			Code: OverlapOver, Path: dataPath(c.Keys.CACert[0]), Old: subject(f.ca.cert), New: subject(f.next.cert),
		})
	}
	d.Again = earliest(d.Again, c.leafDue(f))
	return true
}

// heldUp returns RotationHeldUp in place of the reason in waits if the disturbance has lasted so long that the wait
// will probably not end by itself. The rotation must not continue: API servers may use the CA bundle in the disturbed
// object. The leaf is still renewed under its present authority.
func (o *Observation) heldUp(c *Config, waits reason.Reason) reason.Reason {
	if o.DisturbedSince.IsZero() || o.Disturbed.Sub(o.DisturbedSince) < heldUpAfter*c.Overlap {
		return waits
	}
	waits.Code = RotationHeldUp
	waits.Detail = "it has been without the bundle again and again since " + timeText(o.DisturbedSince) + ", more often than each " + c.Overlap.String()
	waits.Remedy = "see that it can be patched and that nobody else writes its caBundle (metadata.managedFields); the rotation goes on by itself"
	return waits
}

// begin announces a new authority by adding the authority to the CA bundle.
func (d *Decision) begin(c *Config, _ Observation) bool {
	f := d.plan.found
	why := reason.Reason{Code: CertificateRenewalDue, Path: dataPath(c.Keys.CACert[0])}
	_, asked := d.plan.data[c.Keys.Rotate]
	asked = asked && c.Keys.Rotate != ""
	switch {
	case f.ca.keyErr != nil:
		why = *f.ca.keyErr
	case asked:
		why.Code, why.Path = RotationRequested, dataPath(c.Keys.Rotate)
	case !d.plan.now.Before(c.authorityDue(f)):
		why.Old = "valid until " + timeText(f.ca.cert.NotAfter)
	default:
		return false
	}
	d.plan.asked = true
	d.plan.next = create
	return d.write(why)
}

func (d *Decision) write(why reason.Reason) bool {
	d.Write, d.Reason = true, why
	return true
}

// doubt reports whether a certificate may seem expired, or not yet valid, only because the clock has just jumped. If
// so, the decision waits until the clock has run normally for a while.
func (d *Decision) doubt(fault *reason.Reason, seen Observation) bool {
	until := seen.ClockJumped.Add(settle)
	if seen.ClockJumped.IsZero() || !d.plan.now.Before(until) || (fault.Code != CertificateExpired && fault.Code != CertificateNotYetValid) {
		return false
	}
	d.Reason, d.Again = reason.Reason{Code: ClockJumped, Path: fault.Path, New: fault.New}, until
	return true
}

// leafDue returns the time at which the leaf must be renewed, or zero if a new leaf would expire at the same time.
func (c *Config) leafDue(f *found) time.Time {
	due := f.leaf.cert.NotAfter.Add(-c.LeafRenewBefore)
	if f.ca.keyErr != nil || !f.leaf.cert.NotAfter.Before(f.ca.cert.NotAfter) {
		return time.Time{} // the leaf expires together with its authority, and so would a new leaf
	}
	return due
}

func (c *Config) authorityDue(f *found) time.Time { return f.ca.cert.NotAfter.Add(-c.CARenewBefore) }

func earliest(times ...time.Time) time.Time {
	times = slices.DeleteFunc(times, time.Time.IsZero)
	if len(times) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(times, time.Time.Compare)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
