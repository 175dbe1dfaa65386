package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads a spec that need not make sense, as that of a CloneSet does.
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

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s SidecarSetSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain SidecarSetSpec
	return json.Marshal(plain(s))
}
