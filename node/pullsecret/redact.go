package pullsecret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// redacted replaces a secret value.
const redacted = "[redacted]"

// These are lengths in bytes.
const (
	// shortest is the length of the shortest password or token of which only the occurrences are replaced. If a
	// shorter value occurs, the whole text is replaced, because the positions of the replaced characters could reveal
	// the value.
	shortest = 4
	// shortestName is the length of the shortest user name that is replaced, because short names such as "AWS" and
	// "user" are not secret.
	shortestName = 5
)

// Redact replaces the values of the credentials in a text, such as a message from a registry, also in base64 and in
// escaped forms. If the text contains a password or token of fewer than 4 bytes, the whole text is replaced. User
// names of fewer than 5 bytes stay. Redact a text before you shorten the text, because a value that was cut is not
// found.
func (k Keyring) Redact(text string) string {
	var cuts [][2]int
	for _, r := range k.rings {
		for i := range r.keys {
			for _, value := range r.keys[i].credential.values() {
				found := occurrences(text, value)
				if len(found) > 0 && len(value) < shortest {
					return redacted
				}
				cuts = append(cuts, found...)
			}
		}
	}
	if len(cuts) == 0 {
		return text
	}
	slices.SortFunc(cuts, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	var out strings.Builder
	end := 0 // the end of the text that was copied or replaced so far
	for i, cut := range cuts {
		if i == 0 || cut[0] > end {
			out.WriteString(text[end:cut[0]] + redacted)
		}
		end = max(end, cut[1])
	}
	return out.String() + text[end:]
}

// occurrences returns the start and the end of each occurrence of a value, including overlapping occurrences.
func occurrences(text, value string) (out [][2]int) {
	for from := 0; ; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			return out
		}
		out = append(out, [2]int{from + i, from + i + len(value)})
		from += i + 1
	}
}

// values returns the values of a credential to be replaced in a text, in all forms.
func (c *Credential) values() (out []string) {
	plain := []string{c.Password, c.IdentityToken, c.RegistryToken}
	if len(c.Username) >= shortestName {
		plain = append(plain, c.Username)
	}
	for _, value := range plain {
		if value != "" {
			out = append(out, value, url.QueryEscape(value), url.PathEscape(value), inQuotes(strconv.Quote(value)))
			if inJSON, err := json.Marshal(value); err == nil {
				out = append(out, inQuotes(string(inJSON)))
			}
			out = append(out, encodings(value)...)
		}
	}
	if c.Password != "" {
		out = append(out, encodings(c.Username+":"+c.Password)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func inQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }

// encodings returns a value in base64 of both alphabets, with and without padding.
func encodings(value string) (out []string) {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		padded := e.EncodeToString([]byte(value))
		out = append(out, padded, strings.TrimRight(padded, "="))
	}
	return out
}
