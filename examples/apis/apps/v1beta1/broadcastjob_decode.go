package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads a spec that need not make sense, as that of a CloneSet does.
func (s *BroadcastJobSpec) UnmarshalJSON(data []byte) error {
	type plain BroadcastJobSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = BroadcastJobSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s BroadcastJobSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain BroadcastJobSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status, and leaves out what makes no sense, as that of a CloneSet does.
func (s *BroadcastJobStatus) UnmarshalJSON(data []byte) error {
	type plain BroadcastJobStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = BroadcastJobStatus(read)
	return nil
}
