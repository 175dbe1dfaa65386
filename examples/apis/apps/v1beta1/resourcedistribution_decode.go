package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *ResourceDistributionSpec) UnmarshalJSON(data []byte) error {
	type plain ResourceDistributionSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = ResourceDistributionSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s ResourceDistributionSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain ResourceDistributionSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status without its invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *ResourceDistributionStatus) UnmarshalJSON(data []byte) error {
	type plain ResourceDistributionStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = ResourceDistributionStatus(read)
	return nil
}
