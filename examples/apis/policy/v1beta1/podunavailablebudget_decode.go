package v1beta1

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields: no schema limits a bound to 32 bits, and a list of budgets
// must not fail for a single item. The invalid fields are in Undecodable.
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

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s PodUnavailableBudgetSpec) MarshalJSON() ([]byte, error) {
	if len(s.Undecodable) > 0 {
		return nil, fmt.Errorf("a spec that was not decoded in full cannot be written: %w", s.Undecodable[0])
	}
	type plain PodUnavailableBudgetSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads any status, even with invalid fields: the schema accepts times unknown to Go, such as a time with
// a small t. A status not read in full counts as observed for no generation, so that the budget lets no Pod go before
// the Pods are counted again.
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
