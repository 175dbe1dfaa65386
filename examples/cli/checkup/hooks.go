package checkup

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Hook is a webhook through which API servers call the manager.
type Hook struct {
	// Object is the webhook configuration or the CRD. Path is the field path of the webhook in the object.
	Object reason.Object
	Path   string
	Bundle []byte
	// Service is "namespace/name"; empty for an address outside of the cluster.
	Service string
	// Refuses means that API servers refuse requests while the webhook does not respond.
	Refuses bool
}

// soon is how long before the expiry of a certificate the expiry becomes a finding.
const soon = 30 * 24 * time.Hour

// hooks returns the findings about addresses and CA bundles. Equal findings about several webhooks of a configuration
// are merged.
func (f *Facts) hooks() (list reason.List) {
	isAdmission := false
	var all reason.List
	add := func(h *Hook, why reason.Reason) {
		if why.Object = h.Object; why.Code != "" {
			all = append(all, why)
		}
	}
	for i := range f.Hooks {
		h := &f.Hooks[i]
		isAdmission = isAdmission || h.Object.Kind != "CustomResourceDefinition"
		add(h, f.bundle(h))
		add(h, f.address(h))
	}
	if list = merge(all); !isAdmission {
		list = append(list, reason.Reason{
			Code: WebhooksMissing, Detail: "objects are neither checked nor completed at admission, and no Pod gets sidecars",
			Remedy: "apply the webhook configurations: kubectl apply -k examples/config/webhook",
		})
	}
	return append(list, f.certificate()...)
}

// merge merges equal findings about several objects.
func merge(all reason.List) (list reason.List) {
	objects := map[reason.Reason][]string{}
	var order reason.List
	for _, why := range all {
		key := why
		key.Object, key.Path = reason.Object{}, ""
		if len(objects[key]) == 0 {
			order = append(order, key)
			list = append(list, why)
		}
		if name := why.Object.String(); !slices.Contains(objects[key], name) {
			objects[key] = append(objects[key], name)
		}
	}
	for i := range list {
		if others := objects[order[i]][1:]; len(others) > 0 {
			list[i].Detail = strings.TrimPrefix(fmt.Sprintf("%s; also %s", list[i].Detail, strings.Join(others, ", ")), "; ")
		}
	}
	return list
}

// address returns a reason if the Service of a hook has no ready Pod; the code is empty otherwise.
func (f *Facts) address(h *Hook) reason.Reason {
	if h.Service == "" || !f.IsReadyRead || f.Ready[h.Service] > 0 {
		return reason.Reason{}
	}
	detail := "the Service " + h.Service + " has no ready Pod"
	if _, exists := f.Ready[h.Service]; !exists {
		detail = "the Service " + h.Service + " does not exist"
	}
	if h.Refuses {
		detail += ", so API servers refuse the requests"
	}
	return reason.Reason{Code: NobodyServes, Path: h.Path, Detail: detail, Remedy: "start the manager; see kubectl kruise why on its Deployment"}
}

// bundle returns a reason if a hook has no valid certificate authority. One valid authority is enough.
func (f *Facts) bundle(h *Hook) reason.Reason {
	path := h.Path + ".clientConfig.caBundle"
	if len(h.Bundle) == 0 {
		return reason.Reason{Code: BundleMissing, Path: path, Remedy: "start the manager, which writes the bundle"}
	}
	last := time.Time{}
	for _, certificate := range parse(h.Bundle) {
		if certificate.NotAfter.After(last) {
			last = certificate.NotAfter
		}
	}
	end := last.UTC().Format(time.RFC3339)
	switch {
	case last.IsZero():
		return reason.Reason{Code: BundleUnreadable, Path: path, Remedy: "delete the bundle; the manager writes a new one"}
	case last.Before(f.Now):
		return reason.Reason{Code: BundleExpired, Path: path, New: end, Remedy: "start the manager, which renews its certificates"}
	case last.Before(f.Now.Add(soon)):
		return reason.Reason{Code: BundleExpiresSoon, Path: path, New: end, Remedy: "see whether the manager runs and may write the configuration"}
	}
	return reason.Reason{}
}

// certificate returns the findings about the server's certificate: its expiry, and bundles without the authority that
// has issued the certificate.
func (f *Facts) certificate() (list reason.List) {
	chain := parse(f.Certificate)
	if len(chain) == 0 {
		return nil
	}
	leaf := chain[0]
	if leaf.NotAfter.Before(f.Now) {
		list = append(list, reason.Reason{
			Code: CertificateExpired, New: leaf.NotAfter.UTC().Format(time.RFC3339), Detail: "the certificate of the webhook server has expired",
			Remedy: "restart the manager, which renews its certificates",
		})
	}
	foreign := map[string]bool{}
	for i := range f.Hooks {
		h := &f.Hooks[i]
		roots := x509.NewCertPool()
		for _, authority := range parse(h.Bundle) {
			roots.AddCert(authority)
		}
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if len(h.Bundle) == 0 || err == nil || foreign[h.Object.String()] {
			continue
		}
		foreign[h.Object.String()] = true
		list = append(list, reason.Reason{
			Code: BundleForeign, Object: h.Object, Path: h.Path + ".clientConfig.caBundle",
			Detail: fmt.Sprintf("the server's certificate is not from this authority: %v", err), Remedy: "see who else writes the bundle (metadata.managedFields)",
		})
	}
	return list
}

// parse returns the certificates in a PEM text. Blocks that are not certificates are left out.
func parse(text []byte) (list []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return list
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, certificate)
		}
	}
}
