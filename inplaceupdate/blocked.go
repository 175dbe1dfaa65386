package inplaceupdate

import (
	"slices"

	"github.com/workloadkit/workloadkit/reason"
)

// Blocked returns the plan with more reasons against an update in place, or the plan itself without more reasons.
func (p *Plan) Blocked(why reason.List) *Plan {
	if len(why) == 0 {
		return p
	}
	return &Plan{Blocking: slices.Concat(p.Blocking, why)}
}
