package webhookcert

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Stages of a rotation, as Decision and Material show them.
const (
	// stable means one authority and nothing under way.
	stable = "Stable"
	// announced means that the next authority is trusted but does not sign yet.
	announced = "Announced"
	// switched means that the new authority has signed the leaf and the old one is still trusted.
	switched = "Switched"
	// broken means that what the Secret holds cannot serve.
	broken = "Broken"
)

// Observation is what the caller knows besides the Secret. The zero value means that nothing has been seen yet: a rotation
// waits then.
type Observation struct {
	// Injected means that every object that should hold the bundle has been seen with the bundle of this very data. True
	// where nothing is injected.
	Injected bool
	// Disturbed is when an object was last seen without the bundle it should have. Clients may go on trusting what they saw
	// then, so an overlap counts from there at the earliest. Zero if that never happened.
	Disturbed time.Time
	// DisturbedSince is when that began: since then it has been seen again and again, with less than an overlap in between.
	// DisturbedBy is the object that was last seen so. Both only serve the reason RotationHeldUp, and may be empty.
	DisturbedSince time.Time
	DisturbedBy    reason.Object
	// ClockJumped is when the clock was last found to have gone back, or ahead by more than the time that had passed. Zero if
	// it never was.
	ClockJumped time.Time
}

// Decision says what to do about a Secret. Policy.Decide makes it. The zero value asks for nothing.
type Decision struct {
	// Stage is where the rotation is before anything is written: "Stable", "Announced" or "Switched", as the package comment
	// says, or "Broken" if what the Secret holds cannot serve.
	Stage string
	// Write says that the Secret must be written with the result of Issue.
	Write bool
	// Reason says why to write, or what is waited for. It is zero if there is nothing to do and nothing under way.
	Reason reason.Reason
	// Again is when to decide again if nothing happens until then. Zero means that only an event can change the answer.
	Again time.Time

	plan plan
}

// plan says where the parts of the next data come from.
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
	asked   bool // the request for a rotation is honoured
}

type origin int

const (
	keep    origin = iota // as found
	create                // make a new one
	promote               // the next authority becomes the one that signs
	drop                  // none
)

// Decide returns what the Secret's data demands at the time now. The same arguments always give the same decision. A nil map
// is a Secret that does not exist. With Config.External nothing is ever to be done.
//
// In order: what cannot serve is replaced at once, a leaf that is due is renewed, a rotation under way goes on when its
// overlap is over, and an authority that is due is rotated. At most one reason is given, the first.
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

// replaceAuthority acts when nobody can verify anything. Old authorities stay: clients may still hold them, and so may a
// replica whose clock is right where this one's is wrong.
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

// replaceLeaf acts when the leaf cannot serve. If the authority's key is lost with it, nothing gentler than a new authority
// is possible.
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

// takeOver plans a new signing authority without overlap: the announced one, which some clients trust already, or a new one.
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

// replaceNext acts when the announced authority is of no use. Nothing is signed by it, so no handshake depends on it.
func (d *Decision) replaceNext(*Config, Observation) bool {
	f := d.plan.found
	if !f.hasNext || f.next.fault() == nil {
		return false
	}
	d.plan.next = create
	return d.write(*f.next.fault())
}

// renewLeaf needs no overlap, because the authority stays.
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

// goOn begins the rotation's next stage when the present one has been published for the overlap.
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
		d.plan.stamp = true // the clock was ahead when it was written; waiting for that time could take years
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

// heldUp replaces the reason to wait if it has been the same for so long that it will not end by itself. The rotation must not go
// on: clients may trust what an object said when it was disturbed. The leaf is renewed under the authority that it has.
func (o *Observation) heldUp(c *Config, waits reason.Reason) reason.Reason {
	if o.DisturbedSince.IsZero() || o.Disturbed.Sub(o.DisturbedSince) < heldUpAfter*c.Overlap {
		return waits
	}
	waits.Code = RotationHeldUp
	waits.Detail = "it has been without the bundle again and again since " + timeText(o.DisturbedSince) + ", more often than each " + c.Overlap.String()
	waits.Remedy = "see that it can be patched and that nobody else writes its caBundle (metadata.managedFields); the rotation goes on by itself"
	return waits
}

// begin announces a new authority.
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

// doubt says whether the fault is only known from a clock that has just jumped. If so it waits.
func (d *Decision) doubt(fault *reason.Reason, seen Observation) bool {
	until := seen.ClockJumped.Add(settle)
	if seen.ClockJumped.IsZero() || !d.plan.now.Before(until) || (fault.Code != CertificateExpired && fault.Code != CertificateNotYetValid) {
		return false
	}
	d.Reason, d.Again = reason.Reason{Code: ClockJumped, Path: fault.Path, New: fault.New}, until
	return true
}

// leafDue returns when the leaf has to be renewed, zero if that would gain nothing.
func (c *Config) leafDue(f *found) time.Time {
	due := f.leaf.cert.NotAfter.Add(-c.LeafRenewBefore)
	if f.ca.keyErr != nil || !f.leaf.cert.NotAfter.Before(f.ca.cert.NotAfter) {
		return time.Time{} // it ends with its authority, and so would the next
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
