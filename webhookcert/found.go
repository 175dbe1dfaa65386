package webhookcert

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// pair is a certificate and its private key as found in the Secret. A fault of the key is recorded separately,
// because clients can still trust an authority whose key is lost.
type pair struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certErr *reason.Reason
	keyErr  *reason.Reason
}

// fault returns the first fault of the pair.
func (p *pair) fault() *reason.Reason {
	if p.certErr != nil {
		return p.certErr
	}
	return p.keyErr
}

// found is the content of the Secret, checked at a given time.
type found struct {
	ca, leaf, next pair
	hasNext        bool
	old            []*x509.Certificate
	stamp          time.Time // zero if there is no valid stamp for these authorities
	unequal        *reason.Reason
}

// look parses and checks the data. look returns no error: the result contains the faults.
func look(c *Config, data map[string][]byte, now time.Time) *found {
	k := &c.Keys
	f := &found{}
	var extra []*x509.Certificate
	f.ca, extra = lookPair(data, k.CACert, k.CAKey)
	judgeAuthority(&f.ca, k.CACert[0], now)
	f.leaf, _ = lookPair(data, k.Cert, k.Key)
	f.judgeLeaf(c, now)
	f.judgeIssuer(c, now)
	if len(data[k.NextCACert])+len(data[k.NextCAKey]) > 0 {
		f.hasNext = true
		f.next, _ = lookPair(data, []string{k.NextCACert}, []string{k.NextCAKey})
		judgeAuthority(&f.next, k.NextCACert, now)
		if f.next.fault() == nil {
			f.next.certErr = c.unable(&f.next, k.NextCACert, now)
		}
	}
	kept, _ := parseCertificates(data[k.OldCACerts]) // clients ignore authorities that cannot be parsed
	f.old = distinct(append(extra, kept...), f.ca.cert, f.next.cert)
	f.stamp = readStamp(data[k.State], f.set())
	f.unequal = unequalCopies(k, data, len(extra) > 0)
	return f
}

// lookPair parses a certificate and its key. If the entry contains further certificates, lookPair also returns the
// further certificates.
func lookPair(data map[string][]byte, certNames, keyNames []string) (pair, []*x509.Certificate) {
	var p pair
	var extra []*x509.Certificate
	name, raw := first(data, certNames)
	certs, err := parseCertificates(raw)
	switch {
	case len(raw) == 0:
		p.certErr = &reason.Reason{Code: CertificateMissing, Path: dataPath(name)}
	case err != nil:
		p.certErr = &reason.Reason{Code: CertificateUnreadable, Path: dataPath(name), Detail: err.Error()}
	default:
		p.cert, extra = certs[0], certs[1:]
	}
	name, raw = first(data, keyNames)
	key, err := parseKey(raw)
	switch {
	case len(raw) == 0:
		p.keyErr = &reason.Reason{Code: CertificateMissing, Path: dataPath(name)}
	case err != nil:
		p.keyErr = &reason.Reason{Code: CertificateUnreadable, Path: dataPath(name), Detail: err.Error()}
	case p.cert != nil && !fits(p.cert, key):
		p.keyErr = &reason.Reason{Code: KeyMismatch, Path: dataPath(name)}
	default:
		p.key = key
	}
	return p, extra
}

func judgeAuthority(p *pair, name string, now time.Time) {
	if p.cert == nil {
		return
	}
	if p.certErr = outOfTime(p.cert, name, now); p.certErr != nil {
		return
	}
	mayNotSign := p.cert.KeyUsage != 0 && p.cert.KeyUsage&x509.KeyUsageCertSign == 0
	if !p.cert.BasicConstraintsValid || !p.cert.IsCA || mayNotSign {
		p.certErr = &reason.Reason{Code: NotACertificateAuthority, Path: dataPath(name), New: subject(p.cert)}
	}
}

// judgeLeaf checks the leaf as a client does, and records a fault.
func (f *found) judgeLeaf(c *Config, now time.Time) {
	leaf, name := f.leaf.cert, c.Keys.Cert[0]
	if leaf == nil {
		return
	}
	if f.leaf.certErr = outOfTime(leaf, name, now); f.leaf.certErr != nil {
		return
	}
	for _, served := range c.names() {
		if err := leaf.VerifyHostname(served); err != nil {
			f.leaf.certErr = &reason.Reason{Code: CertificateNameMismatch, Path: dataPath(name), New: served, Detail: err.Error()}
			return
		}
	}
	if f.ca.certErr != nil {
		return // the authority has a fault, so the leaf cannot be verified; only the authority's fault is reported
	}
	if err := verifies(leaf, f.ca.cert, now); err != nil {
		f.leaf.certErr = &reason.Reason{Code: CertificateIssuerMismatch, Path: dataPath(name), New: subject(f.ca.cert), Detail: err.Error()}
	}
}

// judgeIssuer finds out whether the authority can issue leaves that clients accept. An authority whose present leaf
// is valid needs no check.
func (f *found) judgeIssuer(c *Config, now time.Time) {
	if f.leaf.fault() != nil && f.ca.fault() == nil {
		f.ca.certErr = c.unable(&f.ca, c.Keys.CACert[0], now)
	}
}

// unable says why an authority with a valid certificate and key cannot issue a leaf that clients accept: name
// constraints, usages and critical extensions, or keys that are too short. unable signs a trial leaf and verifies the
// leaf with crypto/x509, so that exactly the rules of clients apply. The trial leaf contains nothing random, so the
// result is always the same.
func (c *Config) unable(ca *pair, name string, now time.Time) *reason.Reason {
	template := c.leafTemplate(ca.cert, ca.cert.NotAfter)
	// The trial leaf has the authority's key and another name, because otherwise verification could mistake the leaf
	// for the authority itself.
	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: "trial"}
	leaf := &x509.Certificate{}
	der, err := x509.CreateCertificate(nil, template, ca.cert, ca.cert.PublicKey, ca.key)
	if err == nil {
		leaf, err = x509.ParseCertificate(der)
	}
	if err == nil {
		err = verifies(leaf, ca.cert, now)
	}
	if err != nil {
		return &reason.Reason{Code: NotACertificateAuthority, Path: dataPath(name), New: subject(ca.cert), Detail: err.Error()}
	}
	return nil
}

// verifies verifies the leaf like a client that trusts the authority, but does not check the name.
func verifies(leaf, ca *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

func outOfTime(cert *x509.Certificate, name string, now time.Time) *reason.Reason {
	switch {
	case now.Before(cert.NotBefore):
		return &reason.Reason{Code: CertificateNotYetValid, Path: dataPath(name), New: "valid from " + timeText(cert.NotBefore)}
	case now.After(cert.NotAfter):
		return &reason.Reason{Code: CertificateExpired, Path: dataPath(name), New: "valid until " + timeText(cert.NotAfter)}
	}
	return nil
}

// authorities returns all authorities in the CA bundle, the signing authority first.
func (f *found) authorities() []*x509.Certificate {
	var out []*x509.Certificate
	if f.ca.cert != nil && f.ca.cert.IsCA {
		out = append(out, f.ca.cert)
	}
	if f.hasNext && f.next.cert != nil && f.next.cert.IsCA {
		out = append(out, f.next.cert)
	}
	return append(out, f.old...)
}

// bundle returns all authorities as PEM, in an order that does not depend on the authority that signs. So the objects
// need no write when the next authority begins to sign.
func (f *found) bundle() []byte {
	sorted := f.authorities()
	slices.SortFunc(sorted, func(a, b *x509.Certificate) int { return bytes.Compare(a.Raw, b.Raw) })
	return encodeCertificates(sorted...)
}

// set identifies the signing authority together with all other authorities in the bundle. A stamp (the time in the
// entry Keys.State) is valid only for the authorities for which the stamp was written.
func (f *found) set() string {
	hash := sha256.New()
	for _, cert := range f.authorities() {
		sum := sha256.Sum256(cert.Raw)
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// stage returns the name of the rotation's stage.
func (f *found) stage() string {
	switch {
	case f.ca.certErr != nil || f.leaf.fault() != nil:
		return broken
	case len(f.old) > 0:
		return switched
	case f.hasNext:
		return announced
	}
	return stable
}

// stamp is the value of the entry Keys.State.
type stamp struct {
	Version   int       `json:"version"`
	Set       string    `json:"authorities"`
	Published time.Time `json:"published"`
}

func readStamp(raw []byte, set string) time.Time {
	var s stamp
	if json.Unmarshal(raw, &s) != nil || s.Version != 1 || s.Set != set {
		return time.Time{}
	}
	return s.Published
}

// unequalCopies returns an error if entries that must be equal differ, or if the entry of an authority contains further
// certificates.
func unequalCopies(k *Keys, data map[string][]byte, extra bool) *reason.Reason {
	for _, names := range [][]string{k.CACert, k.CAKey, k.Cert, k.Key} {
		read, value := first(data, names)
		for _, name := range names {
			if !bytes.Equal(data[name], value) {
				return &reason.Reason{Code: CertificateCopiesDiffer, Path: dataPath(name), Detail: "it must equal " + dataPath(read)}
			}
		}
	}
	if extra {
		return &reason.Reason{Code: CertificateCopiesDiffer, Path: dataPath(k.CACert[0]), Detail: "it must hold one certificate"}
	}
	return nil
}

// first returns the first of the names that the data has, or the first name if the data has none.
func first(data map[string][]byte, names []string) (string, []byte) {
	for _, name := range names {
		if len(data[name]) > 0 {
			return name, data[name]
		}
	}
	return names[0], nil
}

// parseCertificates parses all certificates, and returns an error if there is none or if one cannot be parsed.
func parseCertificates(raw []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block of type %q", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.New("no PEM block")
	}
	return out, nil
}

// parseKey parses a private key in one of the formats PKCS#1, SEC 1 and PKCS#8.
func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("PEM block of type %q", block.Type)
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

func fits(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

// distinct returns each certificate once, except the certificates in without.
func distinct(certs []*x509.Certificate, without ...*x509.Certificate) []*x509.Certificate {
	seen := map[string]bool{}
	for _, cert := range without {
		if cert != nil {
			seen[string(cert.Raw)] = true
		}
	}
	var out []*x509.Certificate
	for _, cert := range certs {
		if cert != nil && !seen[string(cert.Raw)] && len(out) < maxOld {
			seen[string(cert.Raw)] = true
			out = append(out, cert)
		}
	}
	return out
}

func dataPath(name string) string { return "data[" + name + "]" }

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// subject describes an authority so that authorities with the same name can be distinguished.
func subject(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return reason.Shorten(cert.Subject.CommonName, 60) + " (" + hex.EncodeToString(sum[:4]) + ")"
}
