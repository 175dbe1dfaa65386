package webhookcert

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Material is what a server and its clients need, parsed once. It is never modified and may be shared. Policy.Read makes it.
type Material struct {
	// Certificate is for tls.Config.GetCertificate.
	Certificate *tls.Certificate
	// Bundle is what clients have to trust, as PEM. The same authorities give the same bytes, whichever of them signs.
	Bundle []byte
	// Facts describe the leaf and the authorities: the leaf first, then the authority that has signed it.
	Facts []Fact
	// Stage is where the rotation is: "Stable", "Announced" or "Switched", as the package comment says. It is "Stable" for
	// somebody else's Secret.
	Stage string
}

// What a certificate is for, as Fact shows it.
const (
	leafRole   = "leaf"
	caRole     = "ca"
	nextCARole = "next-ca"
	oldCARole  = "old-ca"
)

// Fact describes one certificate, for metrics and logs.
type Fact struct {
	// Role says what the certificate is for: "leaf" is the serving certificate, "ca" the authority that has signed it,
	// "next-ca" the authority that will sign next, and "old-ca" one that is about to leave the bundle.
	Role                string
	Subject             string
	Serial              string // in hexadecimal
	NotBefore, NotAfter time.Time
}

// Read returns what to serve and to publish by the Secret's data. The error is a reason.Reason that says what is wrong with
// the leaf or its authority; a server goes on with what it had then. Validity in time is not checked, because a certificate
// with a wrong date serves better than none.
//
// With Config.External the Secret is somebody else's: the bundle may hold several authorities and the certificate a chain,
// names are not checked either, and the Bundle is what objects are expected to hold.
func (p *Policy) Read(data map[string][]byte) (*Material, error) {
	if refused := p.ready(); refused != nil {
		return nil, *refused
	}
	c := &p.config
	if c.External {
		return readExternal(&c.Keys, data)
	}
	f := &found{}
	var extra []*x509.Certificate
	f.ca, extra = lookPair(data, c.Keys.CACert, c.Keys.CAKey)
	f.leaf, _ = lookPair(data, c.Keys.Cert, c.Keys.Key)
	switch {
	case f.ca.certErr != nil:
		return nil, *f.ca.certErr
	case f.leaf.fault() != nil:
		return nil, *f.leaf.fault()
	}
	if err := f.leaf.cert.CheckSignatureFrom(f.ca.cert); err != nil {
		return nil, reason.Reason{
			Code: CertificateIssuerMismatch, Path: dataPath(c.Keys.Cert[0]), New: subject(f.ca.cert), Detail: err.Error(),
		}
	}
	f.next, _ = lookPair(data, []string{c.Keys.NextCACert}, []string{c.Keys.NextCAKey})
	f.hasNext = f.next.cert != nil
	kept, _ := parseCertificates(data[c.Keys.OldCACerts]) // what cannot be read is trusted by nobody
	f.old = distinct(append(extra, kept...), f.ca.cert, f.next.cert)
	m := &Material{
		Certificate: &tls.Certificate{
			Certificate: [][]byte{f.leaf.cert.Raw}, PrivateKey: f.leaf.key, Leaf: f.leaf.cert,
		},
		Bundle: f.bundle(),
		Facts:  []Fact{fact(leafRole, f.leaf.cert), fact(caRole, f.ca.cert)},
		Stage:  f.stage(),
	}
	if f.hasNext {
		m.Facts = append(m.Facts, fact(nextCARole, f.next.cert))
	}
	for _, old := range f.old {
		m.Facts = append(m.Facts, fact(oldCARole, old))
	}
	return m, nil
}

// readExternal reads what somebody else has written. The error is a reason.Reason.
func readExternal(k *Keys, data map[string][]byte) (*Material, error) {
	var values [3][]byte
	for i, names := range [][]string{k.CACert, k.Cert, k.Key} {
		name, value := first(data, names)
		if len(value) == 0 {
			return nil, reason.Reason{Code: CertificateMissing, Path: dataPath(name)}
		}
		values[i] = value
	}
	authorities, err := parseCertificates(values[0])
	if err != nil {
		return nil, reason.Reason{Code: CertificateUnreadable, Path: dataPath(k.CACert[0]), Detail: err.Error()}
	}
	p, _ := lookPair(data, k.Cert, k.Key)
	if fault := p.fault(); fault != nil {
		return nil, *fault
	}
	served, err := tls.X509KeyPair(values[1], values[2])
	if err != nil {
		return nil, reason.Reason{Code: CertificateUnreadable, Path: dataPath(k.Cert[0]), Detail: err.Error()}
	}
	m := &Material{Certificate: &served, Bundle: values[0], Facts: []Fact{fact(leafRole, p.cert)}, Stage: stable}
	for _, authority := range authorities {
		m.Facts = append(m.Facts, fact(caRole, authority))
	}
	return m, nil
}

func fact(role string, cert *x509.Certificate) Fact {
	return Fact{
		Role: role, Subject: subject(cert), Serial: fmt.Sprintf("%x", cert.SerialNumber),
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
	}
}
