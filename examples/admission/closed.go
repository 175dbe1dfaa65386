package admission

import (
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// Gated returns a function for Rules.Closed. The function returns an error if all of the given feature gates are off.
// then is the part of the error that says what would not happen to the object, such as "nobody would carry it out".
func Gated(options Options, then string, needed ...apps.Gate) func() error {
	gates := apps.ResolveGates(options.Gates)
	return func() error {
		names := make([]string, len(needed))
		for i, gate := range needed {
			if gates[gate] {
				return nil
			}
			names[i] = string(gate)
		}
		if len(names) > 1 {
			return fmt.Errorf("feature gates %s are off: %s", strings.Join(names, " and "), then)
		}
		return fmt.Errorf("feature gate %s is off: %s", names[0], then)
	}
}
