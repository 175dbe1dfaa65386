package revision

import "strings"

// Same reports whether two revision labels name the same revision: equal as a whole, or equal behind the last "-". Long
// names (web-7d9f8c6b5d) and short hashes (7d9f8c6b5d) of an owner are therefore equal. An empty label equals nothing.
func Same(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return a == b || ShortName(a) == ShortName(b)
}

// ShortName returns the part of a revision name behind the last "-", or the whole string without a "-".
func ShortName(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
