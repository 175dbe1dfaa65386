package v1beta1

import "github.com/workloadkit/workloadkit/decode"

// UnmarshalJSON reads any spec, even with invalid fields: no schema limits a bound to 32 bits, and a list of budgets
// must not fail for a single item. The invalid fields are in Undecodable.
func (s *PodUnavailableBudgetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain PodUnavailableBudgetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s PodUnavailableBudgetSpec) MarshalJSON() ([]byte, error) {
	type plain PodUnavailableBudgetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON reads any status, even with invalid fields: the schema accepts times unknown to Go, such as a time with
// a small t. A status not read in full counts as observed for no generation, so that the budget lets no Pod go before
// the Pods are counted again.
func (s *PodUnavailableBudgetStatus) UnmarshalJSON(data []byte) (err error) {
	type plain PodUnavailableBudgetStatus
	if s.Undecodable, err = decode.Fields(data, (*plain)(s), "status"); len(s.Undecodable) > 0 {
		s.ObservedGeneration = 0
	}
	return err
}
