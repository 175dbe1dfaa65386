package podunavailablebudget

import (
	"errors"
	"testing"

	"github.com/workloadkit/workloadkit/fanout"
)

// TestSearchesAgain: if the reconciliation of another budget must write the names into a Pod's annotations, this
// budget's reconciliation searches again, because the other budget may be deleted before the write. TestFaults hardly
// ever deletes a budget at this moment.
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
