package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *DaemonSetSpec) UnmarshalJSON(data []byte) error {
	type plain DaemonSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = DaemonSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s DaemonSetSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain DaemonSetSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status without its invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *DaemonSetStatus) UnmarshalJSON(data []byte) error {
	type plain DaemonSetStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = DaemonSetStatus(read)
	return nil
}
