package podunavailablebudget

import (
	"errors"
	"testing"

	"github.com/workloadkit/workloadkit/fanout"
)

// TestSearchesAgain: if another budget must write the names onto a Pod, this budget searches again, because the other
// budget may be deleted before it has written them. The fault schedules hardly ever delete a budget at this moment.
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
