package revision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// HashVersion is the version of Encode and Hash. HashVersion changes whenever Encode or Hash would give another result
// for the same template.
const HashVersion = "1"

// maxNamePrefix limits the owner's name in a revision's name, so that "-" and the hash fit into 253 characters, as in
// Kubernetes' controllers.
const maxNamePrefix = 223

// Encode encodes a Pod template as the data of a ControllerRevision:
//
//	{"spec":{"template":{"$patch":"replace","metadata":{...},"spec":{...}}}}
//
// Keys are sorted, so equal templates give equal bytes. Encode returns an error only if the template has a value that
// cannot be encoded in JSON.
func Encode(template *corev1.PodTemplateSpec) ([]byte, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding the Pod template: %w", err)
	}
	const head, tail = `{"spec":{"template":{"$patch":"replace",`, `}}}`
	out := make([]byte, 0, len(head)+len(raw)+len(tail)+64)
	out = append(out, head...)
	s := sorter{src: raw, members: make([]member, 0, 64)}
	out = s.object(out, 0, false, true)
	return append(out, tail...), nil
}

// Hash returns the hash of a revision's data: FNV-32 over the bytes and, unless nil, the collision count, in an
// alphabet without vowels, so that no words appear.
func Hash(data []byte, collisions *int32) string {
	h := fnv.New32()
	_, _ = h.Write(data) // a hash's Write never returns an error
	var digits [20]byte
	if collisions != nil {
		_, _ = h.Write(strconv.AppendInt(digits[:0], int64(*collisions), 10))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// Name returns the name of an owner's revision: the owner's name, cut to 223 characters, a dash and the hash.
func Name(owner, hash string) string {
	if len(owner) > maxNamePrefix {
		owner = owner[:maxNamePrefix]
	}
	return owner + "-" + hash
}

// sorter rewrites JSON written by encoding/json (compact and valid) so that the keys of every object are sorted.
// Sorting the bytes is much cheaper than decoding into maps and encoding again.
type sorter struct {
	src     []byte
	members []member
}

// member is a key and value of an object, as byte offsets into the source. The offsets of the key include its quotes.
type member struct{ key, keyEnd, value, valueEnd int }

// object appends the object that begins at src[at]. A metadata object gets the "creationTimestamp":null that older Go
// types wrote. If bare is true, object omits the opening and closing brace.
func (s *sorter) object(out []byte, at int, metadata, bare bool) []byte {
	base := len(s.members)
	s.scan(at)
	own := s.members[base:]
	slices.SortFunc(own, func(a, b member) int {
		return bytes.Compare(s.src[a.key:a.keyEnd], s.src[b.key:b.keyEnd])
	})
	if !bare {
		out = append(out, '{')
	}
	first := true
	comma := func() {
		if !first {
			out = append(out, ',')
		}
		first = false
	}
	const stamp = `"creationTimestamp"`
	pending := metadata
	for i := range own {
		m := s.members[base+i]
		key := s.src[m.key:m.keyEnd]
		if pending {
			if order := bytes.Compare(key, []byte(stamp)); order >= 0 {
				pending = false
				if order > 0 {
					comma()
					out = append(out, stamp+`:null`...)
				}
			}
		}
		comma()
		out = append(out, key...)
		out = append(out, ':')
		out = s.value(out, m.value, m.valueEnd, string(key) == `"metadata"`)
	}
	if pending {
		comma()
		out = append(out, stamp+`:null`...)
	}
	s.members = s.members[:base]
	if !bare {
		out = append(out, '}')
	}
	return out
}

// value appends the value src[at:end], with the keys of every contained object sorted.
func (s *sorter) value(out []byte, at, end int, metadata bool) []byte {
	switch s.src[at] {
	case '{':
		return s.object(out, at, metadata, false)
	case '[':
		out = append(out, '[')
		for i := at + 1; s.src[i] != ']'; {
			if s.src[i] == ',' {
				out = append(out, ',')
				i++
			}
			next := s.skip(i)
			out = s.value(out, i, next, false)
			i = next
		}
		return append(out, ']')
	default:
		return append(out, s.src[at:end]...)
	}
}

// scan appends the members of the object at src[at] to s.members.
func (s *sorter) scan(at int) {
	for i := at + 1; s.src[i] != '}'; {
		if s.src[i] == ',' {
			i++
		}
		keyEnd := s.skip(i)
		valueEnd := s.skip(keyEnd + 1)
		s.members = append(s.members, member{key: i, keyEnd: keyEnd, value: keyEnd + 1, valueEnd: valueEnd})
		i = valueEnd
	}
}

// skip returns the offset just after the value at src[at].
func (s *sorter) skip(at int) int {
	depth := 0
	for i := at; ; i++ {
		switch s.src[i] {
		case '"':
			i = s.skipString(i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the number or literal ends at the end of the enclosing object or list
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
}

// skipString returns the offset of the closing quote of the string at src[at].
func (s *sorter) skipString(at int) int {
	for i := at + 1; ; i++ {
		switch s.src[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
}
