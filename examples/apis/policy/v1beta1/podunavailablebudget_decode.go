package v1beta1

import "github.com/workloadkit/workloadkit/decode"

// UnmarshalJSON decodes a spec even if fields are invalid: the schema does not limit numbers to 32 bits, but a list of
// budgets must not fail because of a single object. The invalid fields are listed in Undecodable.
func (s *PodUnavailableBudgetSpec) UnmarshalJSON(data []byte) (err error) {
	type plain PodUnavailableBudgetSpec
	s.Undecodable, err = decode.Fields(data, (*plain)(s), "spec")
	return err
}

// MarshalJSON returns an error if the spec has undecodable fields, because writing the spec would lose these fields.
func (s PodUnavailableBudgetSpec) MarshalJSON() ([]byte, error) {
	type plain PodUnavailableBudgetSpec
	return decode.Marshal(plain(s), s.Undecodable)
}

// UnmarshalJSON decodes a status even if fields are invalid: the schema accepts times that Go cannot decode, such as
// a time with a lower-case t. If fields could not be decoded, ObservedGeneration is 0, so that the budget admits no
// request before the Pods are counted again.
func (s *PodUnavailableBudgetStatus) UnmarshalJSON(data []byte) (err error) {
	type plain PodUnavailableBudgetStatus
	if s.Undecodable, err = decode.Fields(data, (*plain)(s), "status"); len(s.Undecodable) > 0 {
		s.ObservedGeneration = 0
	}
	return err
}
