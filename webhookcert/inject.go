package webhookcert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/reason"
)

// ClientConfig is the wanted content of the field clientConfig of webhooks. The Bundle is required.
type ClientConfig struct {
	// Bundle is the PEM of all authorities. Objects must contain exactly these bytes, because other content, such as
	// PEM headers, may keep clients from parsing a certificate.
	Bundle []byte
	// Host and Port replace the Service of an object by a URL, for a server outside the cluster; see CheckHost. If Host
	// is empty, the object's Service or URL is not changed.
	Host string
	Port int
	// Superset accepts any CA bundle that contains at least the authorities of Bundle, for objects into which another
	// program writes the bundle.
	Superset bool
}

// Diff is the difference between an object and its wanted content. The zero value means no difference.
type Diff struct {
	// Patch is a JSON patch (RFC 6902) that changes only the fields that differ. The patch tests the object's
	// resourceVersion and the name of each changed list entry, and so never changes the wrong entry. If nothing
	// differs, Patch is nil.
	Patch []byte
	// Differences has a reason for each field that differs, such as webhooks[pods.example.com].clientConfig.caBundle.
	// The codes are CABundleDiffers and ClientAddressDiffers.
	Differences reason.List
}

// DiffMutating compares a MutatingWebhookConfiguration with its wanted content. The error is a reason.Reason if want is
// invalid: CertificateMissing for a bundle without certificates, or BadAddress.
func DiffMutating(live *admissionregistrationv1.MutatingWebhookConfiguration, want ClientConfig) (Diff, error) {
	e := newEdit(live.ResourceVersion, want)
	for i := range live.Webhooks {
		e.webhook(i, live.Webhooks[i].Name, &live.Webhooks[i].ClientConfig)
	}
	return e.done()
}

// DiffValidating compares a ValidatingWebhookConfiguration with its wanted content. The errors are the same as for
// DiffMutating.
func DiffValidating(live *admissionregistrationv1.ValidatingWebhookConfiguration, want ClientConfig) (Diff, error) {
	e := newEdit(live.ResourceVersion, want)
	for i := range live.Webhooks {
		e.webhook(i, live.Webhooks[i].Name, &live.Webhooks[i].ClientConfig)
	}
	return e.done()
}

// DiffConversion compares the conversion webhook of a CustomResourceDefinition with its wanted content. The error is a
// reason.Reason with code NoConversionWebhook if the definition has no conversion webhook, and otherwise the same as
// for DiffMutating. The parameter is unstructured, because the Go type is in a module that the kit does not import.
func DiffConversion(live *unstructured.Unstructured, want ClientConfig) (Diff, error) {
	strategy, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "strategy")
	config, has, err := unstructured.NestedMap(live.Object, "spec", "conversion", "webhook", "clientConfig")
	if strategy != "Webhook" || !has || err != nil {
		return Diff{}, reason.Reason{
			Code: NoConversionWebhook, Object: reason.Object{Kind: live.GetKind(), Name: live.GetName(), UID: live.GetUID()},
			Path: "spec.conversion.strategy", New: strategy, Remedy: "set strategy Webhook with a clientConfig",
		}
	}
	e := newEdit(live.GetResourceVersion(), want)
	found := foundConfig{
		pointer: "/spec/conversion/webhook/clientConfig", path: "spec.conversion.webhook.clientConfig",
	}
	found.url, found.hasURL = config["url"].(string)
	if text, ok := config["caBundle"].(string); ok {
		// A value that is not valid base64 counts as a wrong bundle, and is replaced.
		found.bundle, _ = base64.StdEncoding.DecodeString(text)
	}
	if service, ok := config["service"].(map[string]any); ok {
		found.hasService = true
		found.servicePath, _ = service["path"].(string)
	}
	e.clientConfig(found)
	return e.done()
}

// contains reports whether a bundle has at least the authorities of a wanted, non-empty bundle. PEM blocks that
// clients ignore do not count.
func contains(bundle, wanted []byte) bool {
	have, want := authoritySet(bundle), authoritySet(wanted)
	for cert := range want {
		if !have[cert] {
			return false
		}
	}
	return len(want) > 0
}

// authoritySet parses a bundle like crypto/x509, which skips certificates with PEM headers.
func authoritySet(bundle []byte) map[string]bool {
	set := map[string]bool{}
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return set
		}
		if block.Type == "CERTIFICATE" && len(block.Headers) == 0 {
			set[string(block.Bytes)] = true
		}
	}
}

// foundConfig is the part of a clientConfig that all three kinds of objects have.
type foundConfig struct {
	pointer, path   string // the path as a JSON pointer, and for display
	name            string // name of the list entry, tested before a change
	url             string
	hasURL          bool
	servicePath     string
	hasService      bool
	bundle          []byte
	namePointerRoot string
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// edit collects the JSON patch operations for an object.
type edit struct {
	version string
	want    ClientConfig
	ops     []operation
	why     reason.List
}

func newEdit(version string, want ClientConfig) *edit { return &edit{version: version, want: want} }

func (e *edit) webhook(index int, name string, config *admissionregistrationv1.WebhookClientConfig) {
	root := "/webhooks/" + strconv.Itoa(index)
	found := foundConfig{
		pointer: root + "/clientConfig", path: "webhooks[" + name + "].clientConfig",
		name: name, namePointerRoot: root, bundle: config.CABundle,
	}
	if config.URL != nil {
		found.url, found.hasURL = *config.URL, true
	}
	if config.Service != nil {
		found.hasService = true
		if config.Service.Path != nil {
			found.servicePath = *config.Service.Path
		}
	}
	e.clientConfig(found)
}

func (e *edit) clientConfig(found foundConfig) {
	var ops []operation
	accepted := bytes.Equal(found.bundle, e.want.Bundle) || e.want.Superset && contains(found.bundle, e.want.Bundle)
	if !accepted {
		ops = append(ops, operation{Op: "add", Path: found.pointer + "/caBundle", Value: e.want.Bundle})
		e.why = append(e.why, reason.Reason{
			Code: CABundleDiffers, Path: found.path + ".caBundle", Old: countText(found.bundle), New: countText(e.want.Bundle),
		})
	}
	if address := e.want.address(&found); e.want.Host != "" && (found.hasService || found.url != address) {
		if found.hasService {
			ops = append(ops, operation{Op: "remove", Path: found.pointer + "/service"})
		}
		ops = append(ops, operation{Op: "add", Path: found.pointer + "/url", Value: address})
		e.why = append(e.why, reason.Reason{
			Code: ClientAddressDiffers, Path: found.path, Old: reason.Shorten(found.address(), 80), New: address,
		})
	}
	if len(ops) > 0 && found.name != "" {
		e.ops = append(e.ops, operation{Op: "test", Path: found.namePointerRoot + "/name", Value: found.name})
	}
	e.ops = append(e.ops, ops...)
}

// address returns the URL that the object should have, with the path of its present URL or Service.
func (w *ClientConfig) address(found *foundConfig) string {
	path := &url.URL{Path: found.servicePath}
	if !found.hasService {
		if u, err := url.Parse(found.url); err == nil {
			path = &url.URL{Path: u.Path, RawPath: u.RawPath}
		}
	}
	return "https://" + net.JoinHostPort(w.Host, strconv.Itoa(w.Port)) + "/" + strings.TrimPrefix(path.EscapedPath(), "/")
}

// check returns an error for an address that the API server would refuse, or would change when storing the object.
func (w *ClientConfig) check() error {
	if len(authoritySet(w.Bundle)) == 0 {
		return reason.Reason{Code: CertificateMissing, Detail: "the bundle to inject holds no certificate"}
	}
	if w.Host == "" {
		return nil
	}
	if w.Port < 1 || w.Port > 65535 {
		return reason.Reason{
			Code: BadAddress, New: fmt.Sprintf("%q port %d", w.Host, w.Port), Remedy: "give a port from 1 to 65535",
		}
	}
	return CheckHost(w.Host)
}

// CheckHost returns an error if a host cannot be used in the URL of a webhook: a reason.Reason of code BadAddress. A
// host must be a lower-case DNS name (RFC 1123) or an IP address, with no port, brackets or wildcard. API servers
// accept any host in a URL, but cannot connect to a host that is neither a name nor an address, and a leaf is not valid
// for a host with upper-case letters.
func CheckHost(host string) error {
	labels := strings.Split(host, ".")
	isName := len(validation.IsDNS1123Subdomain(host)) == 0 && strings.Trim(labels[len(labels)-1], "0123456789") != ""
	for _, label := range labels {
		isName = isName && len(validation.IsDNS1123Label(label)) == 0
	}
	if isName || net.ParseIP(host) != nil {
		return nil
	}
	return reason.Reason{
		Code: BadAddress, New: strconv.Quote(reason.Shorten(host, 300)),
		Remedy: "give a lower-case DNS name (RFC 1123) or an IP address, with no port and no wildcard",
	}
}

func (c *foundConfig) address() string {
	if c.hasService {
		return "service " + c.servicePath
	}
	return c.url
}

func (e *edit) done() (Diff, error) {
	if err := e.want.check(); err != nil {
		return Diff{}, err
	}
	if len(e.ops) == 0 {
		return Diff{}, nil
	}
	var ops []operation
	if e.version != "" {
		ops = []operation{{Op: "test", Path: "/metadata/resourceVersion", Value: e.version}}
	}
	patch, err := json.Marshal(slices.Concat(ops, e.ops))
	if err != nil {
		return Diff{}, fmt.Errorf("rendering a patch: %w", err)
	}
	return Diff{Patch: patch, Differences: e.why}, nil
}

func countText(bundle []byte) string {
	switch n := len(authoritySet(bundle)); {
	case len(bundle) == 0:
		return "no bundle"
	case n == 1:
		return "1 certificate"
	default:
		return strconv.Itoa(n) + " certificates"
	}
}
