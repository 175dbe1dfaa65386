package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *SidecarSetSpec) UnmarshalJSON(data []byte) error {
	type plain SidecarSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = SidecarSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s SidecarSetSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain SidecarSetSpec
	return json.Marshal(plain(s))
}
