package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *ContainerRecreateRequestSpec) UnmarshalJSON(data []byte) error {
	type plain ContainerRecreateRequestSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = ContainerRecreateRequestSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s ContainerRecreateRequestSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain ContainerRecreateRequestSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status without its invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *ContainerRecreateRequestStatus) UnmarshalJSON(data []byte) error {
	type plain ContainerRecreateRequestStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = ContainerRecreateRequestStatus(read)
	return nil
}
