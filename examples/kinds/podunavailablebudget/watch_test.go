package podunavailablebudget

import (
	"errors"
	"testing"

	"github.com/workloadkit/workloadkit/fanout"
)

// TestSearchesAgain: a budget that has left Pods to another budget searches again, because that budget may go before it
// has marked the Pods. Schedules hardly ever delete a budget between the two.
func TestSearchesAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		found, mine int
		failed      error
		want        bool
	}{
		"no strays":                     {0, 0, nil, false},
		"all marked":                    {3, 3, nil, false},
		"a mark failed":                 {3, 3, errors.New("refused"), true},
		"some are left to another":      {3, 2, nil, true},
		"as many as a pass marks":       {fanout.PerPass, fanout.PerPass, nil, false},
		"more strays than a pass marks": {fanout.PerPass + 1, fanout.PerPass + 1, nil, true},
	} {
		if got := searchesAgain(tt.found, tt.mine, tt.failed); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
