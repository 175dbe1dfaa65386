package pullsecret

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Keyring is a set of credentials. The zero Keyring is empty. A Keyring is immutable and safe for concurrent use.
type Keyring struct {
	rings []*ring
}

// ring is a part of a keyring. Each ring sorts its credentials by registry name, and the rings are tried one after
// another.
type ring struct {
	keys []key
}

type key struct {
	place      place
	credential Credential
}

// Read returns the credentials of Secrets, and a reason for each Secret and each entry that is left out. For equal
// registry names, the credentials of earlier Secrets come first.
func Read(secrets []corev1.Secret) (Keyring, reason.List) {
	var keys []key
	var why reason.List
	for i := range secrets {
		entries, problems := entriesOf(&secrets[i])
		why = append(why, problems...)
		for _, e := range entries {
			c, _ := e.credential() // valid entries have credentials
			c.Registry, c.Source = e.place.key, reason.ObjectOf("Secret", &secrets[i])
			keys = append(keys, key{place: e.place, credential: c})
		}
	}
	return newKeyring(keys), why
}

// New returns a Keyring of credentials, and a reason for each credential left out because the registry name is
// invalid. For equal registry names, earlier credentials come first. A credential whose fields are all empty is left
// out.
func New(credentials ...Credential) (Keyring, reason.List) {
	var keys []key
	var why reason.List
	for i, c := range credentials {
		p, err := parseRegistry(c.Registry)
		if err != nil {
			path := fmt.Sprintf("credentials[%d].registry", i)
			why = append(why, reason.Reason{Code: MalformedEntry, Object: c.Source, Path: path, Detail: err.Error()})
			continue
		}
		c.Registry = p.key
		keys = append(keys, key{place: p, credential: c})
	}
	return newKeyring(keys), why
}

// newKeyring splits credentials by kind, and sorts the keys as the kubelet does: by registry name in descending
// order, so that longer names precede their prefixes, and names without globs precede names with globs.
func newKeyring(keys []key) Keyring {
	var r ring
	for _, k := range keys {
		for _, one := range k.credential.kinds() {
			r.keys = append(r.keys, key{place: k.place, credential: one})
		}
	}
	if len(r.keys) == 0 {
		return Keyring{}
	}
	slices.SortStableFunc(r.keys, func(a, b key) int { return cmp.Compare(b.place.key, a.place.key) })
	return Keyring{rings: []*ring{&r}}
}

// Join returns a Keyring with the credentials of several Keyrings. All credentials of an earlier Keyring come before
// the credentials of a later Keyring, as the kubelet tries the credentials of Secrets before the credentials of
// providers.
func (k Keyring) Join(others ...Keyring) Keyring {
	joined := Keyring{rings: slices.Clone(k.rings)}
	for _, other := range others {
		joined.rings = append(joined.rings, other.rings...)
	}
	return joined
}

// IsEmpty reports whether there are no credentials.
func (k Keyring) IsEmpty() bool { return len(k.rings) == 0 }

// For returns the credentials for an image, in the order in which to try the credentials. Credentials with equal values
// appear once. An image without a host gets no credentials. If there are none, pull without credentials.
func (k Keyring) For(image Image) (out []Credential) {
	for _, r := range k.rings {
		for _, c := range r.find(image) {
			if !slices.ContainsFunc(out, c.isSame) {
				out = append(out, c)
			}
		}
	}
	return out
}

func (r *ring) find(image Image) (out []Credential) {
	for _, i := range fitting(image, len(r.keys), func(i int) *place { return &r.keys[i].place }) {
		out = append(out, r.keys[i].credential)
	}
	return out
}

// fitting returns the indices of the places that match an image, or for an image of Docker Hub without a match, the
// indices of the places named dockerHub.
func fitting(image Image, count int, at func(int) *place) (out []int) {
	for i := range count {
		if at(i).matches(image) {
			out = append(out, i)
		}
	}
	if len(out) > 0 || !image.isOfDockerHub() {
		return out
	}
	for i := range count {
		if at(i).key == dockerHub {
			out = append(out, i)
		}
	}
	return out
}

// String returns the number of credentials.
func (k Keyring) String() string {
	count := 0
	for _, r := range k.rings {
		count += len(r.keys)
	}
	return fmt.Sprintf("%d credentials", count)
}
