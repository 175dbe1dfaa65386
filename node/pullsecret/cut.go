package pullsecret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Content is the type and the data of a Secret. The zero Content has no credentials.
type Content struct {
	Type corev1.SecretType
	Data map[string][]byte
}

// IsZero reports whether there is no content.
func (c Content) IsZero() bool { return c.Type == "" && len(c.Data) == 0 }

// String returns the type and the keys, without the values.
func (c Content) String() string {
	return fmt.Sprintf("%s %v", c.Type, slices.Sorted(maps.Keys(c.Data)))
}

// Format prints String for all verbs, so that no verb prints the values.
func (c Content) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// MarshalJSON writes String, so that loggers do not print the values.
func (c Content) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

func (c Content) equal(other Content) bool {
	return c.Type == other.Type && maps.EqualFunc(c.Data, other.Data, bytes.Equal)
}

// Cut reduces a Secret to the entries that a Keyring made from this Secret alone uses for the images. The content has
// the Secret's type, only the key of the docker configuration, and in each entry only the fields with credentials,
// unchanged. If no entry is left, the content is zero, and a reason says why. Malformed entries are left out, each
// with a reason. Equal credentials give equal bytes.
func Cut(secret *corev1.Secret, images ...Image) (Content, reason.List) {
	entries, why := entriesOf(secret)
	kept := map[string]entry{}
	for _, image := range images {
		for _, i := range fitting(image, len(entries), func(i int) *place { return &entries[i].place }) {
			kept[entries[i].name] = entries[i].entry
		}
	}
	if len(kept) == 0 {
		if len(entries) > 0 {
			why = append(why, nothingMatches(secret, images))
		}
		return Content{}, why
	}
	key, _ := keyOf(secret.Type) // a Secret of another type has no entries
	var config any = dockerConfig[entry]{Auths: kept}
	if secret.Type == corev1.SecretTypeDockercfg {
		config = kept
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return Content{}, append(why, reason.Reason{
			Code: MalformedSecret, Object: reason.ObjectOf("Secret", secret),
			Detail: "the entries cannot be written as JSON",
		})
	}
	return Content{Type: secret.Type, Data: map[string][]byte{key: raw}}, why
}

func nothingMatches(secret *corev1.Secret, images []Image) reason.Reason {
	r := reason.Reason{
		Code: NothingMatches, Object: reason.ObjectOf("Secret", secret), Detail: "no entry is for one of the images",
		Remedy: "add an entry for the registry of the image, or do not name the Secret",
	}
	if len(images) > 0 {
		r.New = reason.Shorten(images[0].String(), 256)
	}
	return r
}
