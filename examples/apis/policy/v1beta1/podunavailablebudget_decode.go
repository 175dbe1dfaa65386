package v1beta1

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads a spec that need not make sense: no schema checks that a bound has 32 bits, and a list of budgets must not fail for one of
// them. What is wrong with it is in Undecodable.
func (s *PodUnavailableBudgetSpec) UnmarshalJSON(data []byte) error {
	type plain PodUnavailableBudgetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = PodUnavailableBudgetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s PodUnavailableBudgetSpec) MarshalJSON() ([]byte, error) {
	if len(s.Undecodable) > 0 {
		return nil, fmt.Errorf("a spec that was not decoded in full cannot be written: %w", s.Undecodable[0])
	}
	type plain PodUnavailableBudgetSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status that need not make sense: the schema accepts times that Go does not, such as one with a small t. One that is not read in
// full counts as that of no generation, so that nobody is let go by it before the Pods were counted again.
func (s *PodUnavailableBudgetStatus) UnmarshalJSON(data []byte) error {
	type plain PodUnavailableBudgetStatus
	var read plain
	problems, err := decode.Fields(data, &read, "status")
	if err != nil {
		return err
	}
	*s = PodUnavailableBudgetStatus(read)
	if s.Undecodable = problems; len(problems) > 0 {
		s.ObservedGeneration = 0
	}
	return nil
}
