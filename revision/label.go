package revision

import "strings"

// Same reports whether two revision labels name the same revision: they are equal, or the parts after the last "-" are
// equal. So a long name (web-7d9f8c6b5d) and a short hash (7d9f8c6b5d) count as the same. If one of the labels is
// empty, the result is false.
func Same(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return a == b || ShortName(a) == ShortName(b)
}

// ShortName returns the part of a revision name after the last "-", or the whole name if there is no "-".
func ShortName(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
