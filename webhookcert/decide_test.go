package webhookcert_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// outcome is the expected or actual result of a decision.
type outcome struct {
	Stage   string
	Write   bool
	Code    reason.Code
	Path    string
	Next    string // the stage after the write
	SameCA  bool
	NewLeaf bool
	Bundle  int
}

func outcomeOf(t *testing.T, p *webhookcert.Policy, data map[string][]byte, seen webhookcert.Observation, now time.Time) outcome {
	t.Helper()
	d := p.Decide(data, seen, now)
	out := outcome{Stage: d.Stage, Write: d.Write, Code: d.Reason.Code, Path: d.Reason.Path}
	if !d.Write {
		return out
	}
	after := issue(t, d)
	m, err := p.Read(after)
	if err != nil {
		t.Fatalf("%v leads to data that cannot be read: %v", d.Reason, err)
	}
	if err := verify(p, m.Certificate.Leaf, m.Bundle, now); err != nil {
		t.Errorf("%v leads to data that does not verify: %v", d.Reason, err)
	}
	out.Next = p.Decide(after, seen, now).Stage
	out.SameCA = string(after["ca-cert.pem"]) == string(data["ca-cert.pem"])
	out.NewLeaf = string(after["cert.pem"]) != string(data["cert.pem"])
	out.Bundle = certificates(m.Bundle)
	if again := p.Decide(after, webhookcert.Observation{}, now); again.Write {
		t.Errorf("%v is followed by another write at once: %v", d.Reason, again.Reason)
	}
	return out
}

func TestRepair(t *testing.T) {
	p := policy(t, nil)
	good := settled(t, p, t0)
	other := madeBy{}.secret(t)
	mid, late := announced(t, p, t0), switched(t, p, t0)
	healed := func(code reason.Code, path string, sameCA bool, bundle int) outcome {
		next := stageStable
		if bundle > 1 {
			next = stageSwitched
		}
		return outcome{
			Stage: stageBroken, Write: true, Code: code, Path: "data[" + path + "]", Next: next, SameCA: sameCA,
			NewLeaf: true, Bundle: bundle,
		}
	}
	tests := []struct {
		name string
		data map[string][]byte
		now  time.Time
		want outcome
	}{
		{name: "WC-6: no Secret", want: healed(webhookcert.CertificateMissing, "ca-cert.pem", false, 1)},
		{
			name: "WC-7: an empty Secret as manifests ship it", data: map[string][]byte{"ca-cert.pem": {}},
			want: healed(webhookcert.CertificateMissing, "ca-cert.pem", false, 1),
		},
		{
			name: "WC-7: garbage instead of the authority", data: with(good, "ca-cert.pem", "garbage"),
			want: healed(webhookcert.CertificateUnreadable, "ca-cert.pem", false, 1),
		},
		{
			name: "WC-7: garbage instead of the leaf", data: with(good, "cert.pem", "garbage"),
			want: healed(webhookcert.CertificateUnreadable, "cert.pem", true, 1),
		},
		{
			name: "WC-7: garbage instead of the key", data: with(good, "key.pem", "garbage"),
			want: healed(webhookcert.CertificateUnreadable, "key.pem", true, 1),
		},
		{
			name: "WC-7: a key instead of the leaf", data: with(good, "cert.pem", good["key.pem"]),
			want: healed(webhookcert.CertificateUnreadable, "cert.pem", true, 1),
		},
		{
			name: "WC-7: a key that does not fit", data: with(good, "key.pem", other["key.pem"]),
			want: healed(webhookcert.KeyMismatch, "key.pem", true, 1),
		},
		{
			name: "WC-9: a leaf of another authority", data: with(good, "cert.pem", other["cert.pem"], "key.pem", other["key.pem"]),
			want: healed(webhookcert.CertificateIssuerMismatch, "cert.pem", true, 1),
		},
		{
			name: "WC-7: a certificate for another name", data: madeBy{dns: []string{"localhost", "else.system.svc"}}.secret(t),
			want: healed(webhookcert.CertificateNameMismatch, "cert.pem", true, 1),
		},
		{
			name: "WC-7: an expired leaf", data: madeBy{leafUntil: t0.Add(-time.Second)}.secret(t),
			want: healed(webhookcert.CertificateExpired, "cert.pem", true, 1),
		},
		{
			name: "WC-7: a leaf from the future", data: madeBy{leafFrom: t0.Add(time.Second)}.secret(t),
			want: healed(webhookcert.CertificateNotYetValid, "cert.pem", true, 1),
		},
		{
			name: "WC-7: an expired authority is kept in the bundle while others may look with another clock",
			data: madeBy{until: t0.Add(-time.Second)}.secret(t), want: healed(webhookcert.CertificateExpired, "ca-cert.pem", false, 2),
		},
		{
			name: "WC-7: an authority from the future", data: madeBy{from: t0.Add(time.Hour)}.secret(t),
			want: healed(webhookcert.CertificateNotYetValid, "ca-cert.pem", false, 2),
		},
		{
			name: "an authority with the names of its leaf is able",
			data: with(madeBy{dns: []string{name, "localhost"}, edit: func(ca *x509.Certificate) {
				ca.Subject.CommonName, ca.DNSNames = name, []string{name, "localhost"}
			}}.secret(t), "cert.pem", "garbage"), want: healed(webhookcert.CertificateUnreadable, "cert.pem", true, 1),
		},
		{
			name: "WC-7: an authority that may not sign", data: madeBy{noCA: true}.secret(t),
			want: healed(webhookcert.NotACertificateAuthority, "ca-cert.pem", false, 1),
		},
		{
			name: "the authority's key and the leaf are lost",
			data: with(good, "ca-key.pem", nil, "key.pem", nil, "tls.key", nil), want: healed(webhookcert.CertificateMissing, "key.pem", false, 2),
		},
		{
			name: "the announced authority takes over when the first is lost", data: with(mid, "ca-cert.pem", "garbage"),
			want: healed(webhookcert.CertificateUnreadable, "ca-cert.pem", false, 1),
		},
		{
			name: "a retired authority stays when the new one is lost", data: with(late, "ca-cert.pem", nil),
			want: healed(webhookcert.CertificateMissing, "ca-cert.pem", false, 2),
		},
		{
			name: "the leaf is lost while an authority is announced", data: with(mid, "cert.pem", "garbage"),
			want: outcome{
				Stage: stageBroken, Write: true, Code: webhookcert.CertificateUnreadable, Path: "data[cert.pem]",
				Next: stageAnnounced, SameCA: true, NewLeaf: true, Bundle: 2,
			},
		},
		{
			name: "an announced authority that is garbage", data: with(mid, "next-ca-cert.pem", "garbage"),
			want: outcome{
				Stage: stageAnnounced, Write: true, Code: webhookcert.CertificateUnreadable, Path: "data[next-ca-cert.pem]",
				Next: stageAnnounced, SameCA: true, Bundle: 2,
			},
		},
		{
			name: "an announced authority without key", data: with(mid, "next-ca-key.pem", nil),
			want: outcome{
				Stage: stageAnnounced, Write: true, Code: webhookcert.CertificateMissing, Path: "data[next-ca-key.pem]",
				Next: stageAnnounced, SameCA: true, Bundle: 2,
			},
		},
		{
			name: "an authority without key serves on and is rotated", data: with(good, "ca-key.pem", nil),
			want: outcome{
				Stage: stageStable, Write: true, Code: webhookcert.CertificateMissing, Path: "data[ca-key.pem]",
				Next: stageAnnounced, SameCA: true, Bundle: 2,
			},
		},
		{
			name: "WC-5: a copy that differs", data: with(good, "tls.crt", "garbage"),
			want: outcome{
				Stage: stageStable, Write: true, Code: webhookcert.CertificateCopiesDiffer, Path: "data[tls.crt]",
				Next: stageStable, SameCA: true, Bundle: 1,
			},
		},
		{
			name: "WC-5: a copy that is missing", data: with(good, "cert.pem", nil),
			want: outcome{
				Stage: stageStable, Write: true, Code: webhookcert.CertificateCopiesDiffer, Path: "data[cert.pem]",
				Next: stageStable, SameCA: true, NewLeaf: true, Bundle: 1,
			},
		},
		{
			name: "further authorities in the signing one's place are moved",
			data: with(good, "ca-cert.pem", slices.Concat(good["ca-cert.pem"], other["ca-cert.pem"])),
			want: outcome{
				Stage: stageSwitched, Write: true, Code: webhookcert.CertificateCopiesDiffer, Path: "data[ca-cert.pem]",
				Next: stageSwitched, Bundle: 2,
			},
		},
		{name: "the clock goes back an hour", data: good, now: t0.Add(-time.Hour), want: outcome{Stage: stageStable}},
		{
			name: "the clock goes back a year", data: good, now: t0.AddDate(-1, 0, 0),
			want: healed(webhookcert.CertificateNotYetValid, "ca-cert.pem", false, 2),
		},
		{
			name: "the clock goes ahead 20 years", data: good, now: t0.AddDate(20, 0, 0),
			want: healed(webhookcert.CertificateExpired, "ca-cert.pem", false, 2),
		},
		{name: "nothing is wrong", data: good, want: outcome{Stage: stageStable}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now := test.now
			if now.IsZero() {
				now = t0
			}
			got := outcomeOf(t, p, test.data, webhookcert.Observation{}, now)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnableAuthority: if clients do not accept the leaves of an authority, a single write replaces the authority,
// whatever else the Secret contains. The replaced authority stays in the bundle for an overlap.
func TestUnableAuthority(t *testing.T) {
	p := policy(t, nil)
	mid := announced(t, p, t0)
	broken := func(next string, bundle int) outcome {
		return outcome{
			Stage: stageBroken, Write: true, Code: webhookcert.NotACertificateAuthority, Path: "data[ca-cert.pem]", Next: next,
			NewLeaf: true, Bundle: bundle,
		}
	}
	noLeaf := []any{"cert.pem", nil, "tls.crt", nil, "key.pem", nil, "tls.key", nil}
	for what, maker := range unable() {
		made := maker.secret(t)
		tests := []struct {
			name string
			data map[string][]byte
			want outcome
		}{
			{name: "with its leaf", data: made, want: broken(stageSwitched, 2)},
			{name: "alone", data: with(made, noLeaf...), want: broken(stageSwitched, 2)},
			{
				name: "while another is announced", want: broken(stageSwitched, 2),
				data: with(mid, "ca-cert.pem", made["ca-cert.pem"], "ca-key.pem", made["ca-key.pem"]),
			},
			{
				name: "announced", data: with(mid, "next-ca-cert.pem", made["ca-cert.pem"], "next-ca-key.pem", made["ca-key.pem"]),
				want: outcome{
					Stage: stageAnnounced, Write: true, Code: webhookcert.NotACertificateAuthority, Path: "data[next-ca-cert.pem]",
					Next: stageAnnounced, SameCA: true, Bundle: 2,
				},
			},
			{
				name: "both signing and announced", want: broken(stageSwitched, 2),
				data: with(made, "next-ca-cert.pem", made["ca-cert.pem"], "next-ca-key.pem", made["ca-key.pem"]),
			},
		}
		for _, test := range tests {
			t.Run(what+", "+test.name, func(t *testing.T) {
				got := outcomeOf(t, p, test.data, webhookcert.Observation{}, t0)
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("unexpected outcome (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestIssuedUsages: the package's authorities may only sign leaves. Authorities that older versions of the package
// have made with other key usages remain in use.
func TestIssuedUsages(t *testing.T) {
	type usages struct {
		CA, Leaf        x509.KeyUsage
		MaxPathLen      int
		MaxPathLenZero  bool
		LeafIsAuthority bool
	}
	signs := x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	type algorithms struct{ CA, Leaf x509.PublicKeyAlgorithm }
	rsaUse := x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	for algorithm, want := range map[algorithms]usages{
		{CA: x509.ECDSA}:                 {CA: signs, Leaf: x509.KeyUsageDigitalSignature, MaxPathLenZero: true},
		{CA: x509.RSA}:                   {CA: signs, Leaf: rsaUse, MaxPathLenZero: true},
		{CA: x509.RSA, Leaf: x509.ECDSA}: {CA: signs, Leaf: x509.KeyUsageDigitalSignature, MaxPathLenZero: true},
		{CA: x509.ECDSA, Leaf: x509.RSA}: {CA: signs, Leaf: rsaUse, MaxPathLenZero: true},
	} {
		t.Run(algorithm.CA.String()+" "+algorithm.Leaf.String(), func(t *testing.T) {
			p := policy(t, func(c *webhookcert.Config) { c.Algorithm, c.LeafAlgorithm = algorithm.CA, algorithm.Leaf })
			data := settled(t, p, t0)
			ca, leaf := parse(t, data["ca-cert.pem"]), parse(t, data["cert.pem"])
			if of := (algorithms{ca.PublicKeyAlgorithm, leaf.PublicKeyAlgorithm}); of.CA != algorithm.CA || of.Leaf != p.Config().LeafAlgorithm {
				t.Errorf("the keys are %v", of)
			}
			got := usages{ca.KeyUsage, leaf.KeyUsage, ca.MaxPathLen, ca.MaxPathLenZero, leaf.IsCA}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected usages (-want +got):\n%s", diff)
			}
			older := madeBy{algorithm: algorithm.CA}.secret(t)
			if parse(t, older["ca-cert.pem"]).MaxPathLen != -1 {
				t.Fatal("the older authority has a path length")
			}
			if d := p.Decide(older, webhookcert.Observation{}, t0); d.Write {
				t.Errorf("an older authority is replaced: %v", d.Reason)
			}
		})
	}
}

// TestSwitchKeepsTheBundle: the bytes of the bundle are the same before and after the switch to the next authority,
// so that no object must be rewritten.
func TestSwitchKeepsTheBundle(t *testing.T) {
	p := policy(t, nil)
	for range 10 { // the bundle is sorted by the bytes of the certificates, which are random
		data := announced(t, p, t0)
		before, err := p.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		data = issue(t, p.Decide(data, webhookcert.Observation{Injected: true}, t0.Add(p.Config().Overlap+time.Second)))
		after, err := p.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		if after.Stage != stageSwitched || string(before.Bundle) != string(after.Bundle) {
			t.Fatalf("the bundle has changed, at step %s", after.Stage)
		}
	}
}

func TestRotation(t *testing.T) {
	p := policy(t, nil)
	limits := p.Config()
	good := settled(t, p, t0)
	mid, late := announced(t, p, t0), switched(t, p, t0)
	unstamped := with(mid, "rotation.json", nil)
	injected := webhookcert.Observation{Injected: true}
	over := t0.Add(limits.Overlap + time.Second)
	caDue := t0.Add(limits.CAValidity - limits.CARenewBefore)
	freshLeaf := issue(t, p.Decide(good, injected, caDue.Add(-time.Minute)))
	waits := func(step string, code reason.Code, path string) outcome {
		return outcome{Stage: step, Code: code, Path: path}
	}
	const next, old = "data[next-ca-cert.pem]", "data[old-ca-certs.pem]"
	tests := []struct {
		name string
		data map[string][]byte
		seen webhookcert.Observation
		now  time.Time
		want outcome
	}{
		{name: "a leaf is not due", data: good, seen: injected, now: t0.Add(limits.LeafValidity - limits.LeafRenewBefore - time.Minute), want: outcome{Stage: stageStable}},
		{
			name: "a leaf is due and needs no overlap", data: good, now: t0.Add(limits.LeafValidity - limits.LeafRenewBefore),
			want: outcome{Stage: stageStable, Write: true, Code: webhookcert.CertificateRenewalDue, Path: "data[cert.pem]", Next: stageStable, SameCA: true, NewLeaf: true, Bundle: 1},
		},
		{
			name: "an authority is due", data: freshLeaf, now: caDue,
			want: outcome{Stage: stageStable, Write: true, Code: webhookcert.CertificateRenewalDue, Path: "data[ca-cert.pem]", Next: stageAnnounced, SameCA: true, Bundle: 2},
		},
		{
			name: "a rotation is requested", data: with(good, "rotate", ""),
			want: outcome{Stage: stageStable, Write: true, Code: webhookcert.RotationRequested, Path: "data[rotate]", Next: stageAnnounced, SameCA: true, Bundle: 2},
		},
		{name: "announced, not injected everywhere", data: unstamped, want: waits(stageAnnounced, webhookcert.AwaitingInjection, next)},
		{
			name: "announced and injected", data: unstamped, seen: injected,
			want: outcome{Stage: stageAnnounced, Write: true, Code: webhookcert.RotationStepPublished, Path: next, Next: stageAnnounced, SameCA: true, Bundle: 2},
		},
		{name: "the overlap runs", data: mid, seen: injected, now: over.Add(-2 * time.Second), want: waits(stageAnnounced, webhookcert.AwaitingOverlap, next)},
		{
			name: "the overlap is over", data: mid, seen: injected, now: over,
			want: outcome{Stage: stageAnnounced, Write: true, Code: webhookcert.OverlapOver, Path: "data[ca-cert.pem]", Next: stageSwitched, NewLeaf: true, Bundle: 2},
		},
		{name: "the overlap is over and an object was reset", data: mid, now: over, want: waits(stageAnnounced, webhookcert.AwaitingInjection, next)},
		{
			name: "the overlap is over and an object was reset during it", data: mid, now: over,
			seen: webhookcert.Observation{Injected: true, Disturbed: t0.Add(time.Minute)}, want: waits(stageAnnounced, webhookcert.AwaitingOverlap, next),
		},
		{
			name: "an object has been reset for as long as two overlaps", data: mid, now: over.Add(limits.Overlap),
			seen: webhookcert.Observation{Injected: true, Disturbed: over.Add(limits.Overlap / 2), DisturbedSince: over.Add(-3 * limits.Overlap / 2)},
			want: waits(stageAnnounced, webhookcert.RotationHeldUp, next),
		},
		{
			name: "an object has been reset for as long, and lacks the bundle now", data: late, now: over.Add(limits.Overlap),
			seen: webhookcert.Observation{Disturbed: over.Add(limits.Overlap), DisturbedSince: over.Add(-limits.Overlap)},
			want: waits(stageSwitched, webhookcert.RotationHeldUp, old),
		},
		{
			name: "an object has been reset for nearly as long", data: mid, now: over.Add(limits.Overlap),
			seen: webhookcert.Observation{Injected: true, Disturbed: over.Add(limits.Overlap / 2), DisturbedSince: over.Add(time.Second - 3*limits.Overlap/2)},
			want: waits(stageAnnounced, webhookcert.AwaitingOverlap, next),
		},
		{
			name: "an object was reset for long, and an overlap ago last", data: mid, now: over.Add(4 * limits.Overlap),
			seen: webhookcert.Observation{Injected: true, Disturbed: over.Add(3 * limits.Overlap), DisturbedSince: over},
			want: outcome{Stage: stageAnnounced, Write: true, Code: webhookcert.OverlapOver, Path: "data[ca-cert.pem]", Next: stageSwitched, NewLeaf: true, Bundle: 2},
		},
		{
			name: "the overlap is over by a clock that has jumped", data: mid, now: over,
			seen: webhookcert.Observation{Injected: true, ClockJumped: over}, want: waits(stageAnnounced, webhookcert.AwaitingOverlap, next),
		},
		{
			name: "the stamp lies far ahead", data: mid, seen: injected, now: t0.Add(-time.Minute - limits.Overlap),
			want: outcome{Stage: stageAnnounced, Write: true, Code: webhookcert.ClockJumped, Path: "data[rotation.json]", Next: stageAnnounced, SameCA: true, Bundle: 2},
		},
		{name: "the stamp lies a little ahead", data: mid, seen: injected, now: t0.Add(-time.Minute), want: waits(stageAnnounced, webhookcert.AwaitingOverlap, next)},
		{
			name: "the stamp is garbage", data: with(mid, "rotation.json", "garbage"), seen: injected, now: over,
			want: outcome{Stage: stageAnnounced, Write: true, Code: webhookcert.RotationStepPublished, Path: next, Next: stageAnnounced, SameCA: true, Bundle: 2},
		},
		{
			name: "the stamp belongs to another step", data: with(late, "rotation.json", mid["rotation.json"]), seen: injected, now: over,
			want: outcome{Stage: stageSwitched, Write: true, Code: webhookcert.RotationStepPublished, Path: old, Next: stageSwitched, SameCA: true, Bundle: 2},
		},
		{name: "switched, the overlap runs", data: late, seen: injected, want: waits(stageSwitched, webhookcert.AwaitingOverlap, old)},
		{
			name: "switched, the overlap is over", data: late, seen: injected, now: over,
			want: outcome{Stage: stageSwitched, Write: true, Code: webhookcert.OverlapOver, Path: old, Next: stageStable, SameCA: true, Bundle: 1},
		},
		{
			name: "a rotation that hangs does not keep the leaf from being renewed", data: mid, now: t0.Add(limits.LeafValidity - limits.LeafRenewBefore),
			want: outcome{Stage: stageAnnounced, Write: true, Code: webhookcert.CertificateRenewalDue, Path: "data[cert.pem]", Next: stageAnnounced, SameCA: true, NewLeaf: true, Bundle: 2},
		},
		{
			name: "a leaf that ends with its authority is not renewed again and again", data: mid, now: t0.Add(limits.CAValidity - 10*24*time.Hour),
			want: outcome{Stage: stageBroken, Write: true, Code: webhookcert.CertificateExpired, Path: "data[cert.pem]", Next: stageAnnounced, SameCA: true, NewLeaf: true, Bundle: 2},
		},
		{
			name: "an expiry is not believed to a clock that has just jumped", data: good, now: t0.AddDate(20, 0, 0),
			seen: webhookcert.Observation{ClockJumped: t0.AddDate(20, 0, 0)}, want: waits(stageBroken, webhookcert.ClockJumped, "data[ca-cert.pem]"),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now := test.now
			if now.IsZero() {
				now = t0
			}
			got := outcomeOf(t, p, test.data, test.seen, now)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected outcome (-want +got):\n%s", diff)
			}
		})
	}
}
