package webhookcert_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/webhookcert"
)

// FuzzDecide calls Decide for any content of a Secret, at any time. Nothing panics, and a single write repairs a
// broken Secret. If Decide is called again at the same time, the only further writes are the stamp and a rotation
// stage that is due. Usable authorities are not removed from the bundle too early, and entries of other programs are
// unchanged.
func FuzzDecide(f *testing.F) {
	p := policy(f, nil)
	stable, mid, late := settled(f, p, t0), announced(f, p, t0), switched(f, p, t0)
	bases := []map[string][]byte{{}, stable, mid, late, madeBy{}.secret(f)}
	foreign := unable()
	for _, what := range slices.Sorted(maps.Keys(foreign)) {
		made := foreign[what].secret(f)
		bases = append(bases, made, with(mid, "next-ca-cert.pem", made["ca-cert.pem"], "next-ca-key.pem", made["ca-key.pem"]))
	}
	names := []string{
		"ca-cert.pem", "ca-key.pem", "cert.pem", "tls.crt", "key.pem", "tls.key", "next-ca-cert.pem", "next-ca-key.pem",
		"old-ca-certs.pem", "rotation.json", "rotate", "foreign",
	}
	f.Add(uint8(0), uint8(0), uint8(0), []byte("garbage"), int64(0), true)
	f.Add(uint8(1), uint8(4), uint8(5), []byte("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"), int64(1), true)
	f.Add(uint8(2), uint8(9), uint8(255), []byte(`{"version":1,"published":"9999-01-01T00:00:00Z"}`), int64(700), true)
	f.Add(uint8(3), uint8(8), uint8(0), []byte{}, int64(4_000_000_000), false)
	f.Add(uint8(4), uint8(6), uint8(7), []byte("x"), int64(-4_000_000_000), true)
	for base := range bases {
		f.Add(uint8(base), uint8(255), uint8(255), []byte{}, int64(0), true)
		f.Add(uint8(base), uint8(2), uint8(4), []byte("garbage"), int64(700), true)
	}
	f.Fuzz(func(t *testing.T, base, first, second uint8, value []byte, seconds int64, injected bool) {
		data := with(bases[int(base)%len(bases)], "foreign", "kept")
		for _, pick := range []uint8{first, second} {
			if int(pick) < len(names)-1 {
				data[names[pick]] = value
			}
		}
		now := t0.Add(time.Duration(seconds%(40*365*24*3600)) * time.Second)
		seen := webhookcert.Observation{Injected: injected}
		heals(t, p, data, seen, now)
	})
}

func heals(t *testing.T, p *webhookcert.Policy, data map[string][]byte, seen webhookcert.Observation, now time.Time) {
	t.Helper()
	foreign := data["foreign"]
	for writes := 0; ; writes++ {
		d := p.Decide(data, seen, now)
		if !d.Write {
			break
		}
		if writes == 8 {
			t.Fatalf("it does not end: %v", d.Reason)
		}
		if writes > 0 && d.Stage == stageBroken {
			t.Fatalf("the first write did not heal: %v", d.Reason)
		}
		if d.Reason.Code == "" {
			t.Fatal("a write without reason")
		}
		before, _ := p.Read(data)
		data = issue(t, d)
		after, err := p.Read(data)
		if err != nil {
			t.Fatalf("%v leads to data that cannot be read: %v", d.Reason, err)
		}
		// A new leaf must be trusted by clients with the old bundle, unless no leaf could be verified before.
		if before != nil && d.Stage != stageBroken {
			if err := verify(p, after.Certificate.Leaf, before.Bundle, now); err != nil {
				t.Fatalf("%v: who saw the bundle before does not trust the new leaf: %v", d.Reason, err)
			}
			if err := verify(p, before.Certificate.Leaf, after.Bundle, now); err != nil {
				t.Fatalf("%v: who sees the new bundle does not trust the leaf before: %v", d.Reason, err)
			}
		}
	}
	m, err := p.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(p, m.Certificate.Leaf, m.Bundle, now); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(foreign, data["foreign"]) {
		t.Fatal("a foreign entry has changed")
	}
	if !bytes.Equal(data["cert.pem"], data["tls.crt"]) || !bytes.Equal(data["key.pem"], data["tls.key"]) {
		t.Fatal("copies differ")
	}
}

// FuzzInjection checks that no difference remains after the patch, and that the patch changes only fields of client
// configurations.
func FuzzInjection(f *testing.F) {
	p := policy(f, nil)
	bundle := settled(f, p, t0)["ca-cert.pem"]
	f.Add("a.example.com", "/a", "", "", 443, []byte(nil))
	f.Add("", "", "https://old:1/x?y#z", "localhost", 19443, []byte("garbage"))
	f.Add("b/~1", "no-slash", "", "::1", 1, bundle)
	f.Fuzz(func(t *testing.T, entry, path, at, host string, port int, found []byte) {
		entry, path, at = strings.ToValidUTF8(entry, "?"), strings.ToValidUTF8(path, "?"), strings.ToValidUTF8(at, "?")
		live := &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{hook("first", "/", bundle), hook(entry, path, found), byURL("last", at, found)},
		}
		want := webhookcert.ClientConfig{Bundle: bundle, Host: host, Port: port}
		got, err := webhookcert.DiffMutating(live, want)
		if errors.Is(err, webhookcert.BadAddress) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if (got.Patch == nil) != (len(got.Differences) == 0) {
			t.Fatalf("patch %s with differences %v", got.Patch, got.Differences)
		}
		if got.Patch == nil {
			return
		}
		after := patched(t, live, got.Patch)
		again, err := webhookcert.DiffMutating(after, want)
		if err != nil || again.Patch != nil {
			t.Fatalf("after %s there is still %s, %v", got.Patch, again.Patch, err)
		}
		for i := range after.Webhooks {
			after.Webhooks[i].ClientConfig = live.Webhooks[i].ClientConfig
		}
		if diff := cmp.Diff(live.Webhooks, after.Webhooks); diff != "" {
			t.Fatalf("other fields have changed:\n%s", diff)
		}
	})
}

// patched applies a JSON patch, with only the operations that the package uses.
func patched(
	t *testing.T, live *admissionregistrationv1.MutatingWebhookConfiguration, patch []byte,
) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	raw, err := json.Marshal(live)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := errors.Join(json.Unmarshal(raw, &document), json.Unmarshal(patch, &ops)); err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		parts := strings.Split(op.Path[1:], "/")
		at := document
		for _, part := range parts[:len(parts)-1] {
			if list, ok := at.([]any); ok {
				i, _ := strconv.Atoi(part)
				at = list[i]
			} else {
				at = at.(map[string]any)[part]
			}
		}
		parent, last := at.(map[string]any), parts[len(parts)-1]
		switch before, present := parent[last]; {
		case op.Op == "test" && before != op.Value:
			t.Fatalf("test of %s: %v is not %v", op.Path, before, op.Value)
		case op.Op == "remove" && !present:
			t.Fatalf("%s is not there to be removed", op.Path)
		case op.Op == "remove":
			delete(parent, last)
		case op.Op == "add":
			parent[last] = op.Value
		}
	}
	raw, err = json.Marshal(document)
	after := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := errors.Join(err, json.Unmarshal(raw, after)); err != nil {
		t.Fatal(err)
	}
	return after
}
