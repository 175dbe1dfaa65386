package kruise_test

import (
	"strings"
	"testing"

	"github.com/workloadkit/workloadkit/examples/kruise"
)

func TestSome(t *testing.T) {
	for name, c := range map[string]struct{ names, what, want string }{
		"none":             {"", "namespaces", ""},
		"as many as fit":   {"a b c d e", "namespaces", "a, b, c, d, e"},
		"more than fit":    {"a b c d e f g", "namespaces", "a, b, c, d, e and 2 more namespaces"},
		"more of anything": {"a b c d e f", "", "a, b, c, d, e and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kruise.Some(strings.Fields(c.names), c.what); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
